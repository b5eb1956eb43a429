"""Use cases: one function for each thing a user can ask, without parsing and printing."""
