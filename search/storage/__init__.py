"""Studies, launches and phases in SQL, beside Optuna's tables in the same database."""

from search.storage.optuna_side import optuna_storage, quiet_optuna
from search.storage.records import Expected, LaunchRecord, Stage, StudyKind, StudyRecord
from search.storage.store import LaunchesSpent, Store
from search.storage.urls import storage_url

__all__ = [
    "Expected",
    "LaunchRecord",
    "LaunchesSpent",
    "Stage",
    "Store",
    "StudyKind",
    "StudyRecord",
    "optuna_storage",
    "quiet_optuna",
    "storage_url",
]
