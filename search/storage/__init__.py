"""Studies, launches and phases in SQL, beside Optuna's tables in the same database."""
