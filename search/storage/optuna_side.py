"""Optuna's storage on the same database, opened without its chatter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import DatabaseError, InterfaceError

from search.errors import StorageFault
from search.storage.faults import storage_fault
from search.storage.urls import engine_options, shown, storage_url


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's log lines below warnings, and its notes on experimental parts, to itself.

    Only inside the block; a caller's own settings are back afterwards.
    """
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def optuna_storage(storage: str | Path) -> RDBStorage:
    """Open (and on first use create) Optuna's tables.

    Raises:
        UsageError: The storage is not understood.
        StorageFault: The database cannot be opened, or another Optuna made its tables.
    """
    url = storage_url(storage)
    try:
        with quiet_optuna():
            return RDBStorage(url.render_as_string(hide_password=False), engine_kwargs=engine_options(url))
    except (DatabaseError, InterfaceError) as error:
        raise storage_fault(url, error) from error
    except (RuntimeError, StorageInternalError) as error:
        raise StorageFault(
            f"The database {shown(url)} was made by another version of Optuna than {optuna.__version__}: {error} "
            "Choose another `--storage`, or run the Optuna that made it."
        ) from error
