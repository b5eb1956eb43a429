"""Optuna's storage on the same database, opened without its chatter, and as patient as ours."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import TrialState
from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, InterfaceError

from search.errors import StorageFault
from search.storage.faults import storage_fault
from search.storage.opening import making, refuse_foreign
from search.storage.patience import Patience
from search.storage.urls import engine_options, shown, storage_url

_T = TypeVar("_T")
_CREATING_TRIES = 3


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


def optuna_storage(storage: str | Path, *, patience: Patience | None = None) -> RDBStorage:
    """Open (and on first use create) Optuna's tables.

    Args:
        storage: A path or URL.
        patience: Of a running study; the default says that it waits through `logging`.

    Raises:
        UsageError: The storage is not understood.
        StorageFault: The database cannot be opened, is another program's, or another Optuna made its tables.
    """
    url = storage_url(storage)
    try:
        with quiet_optuna():
            return _opened(url, patience or Patience(url))
    except (DatabaseError, InterfaceError) as error:
        raise storage_fault(url, error) from error
    except (RuntimeError, StorageInternalError) as error:
        raise StorageFault(
            f"The database {shown(url)} was made by another version of Optuna than {optuna.__version__}: {error} "
            "Choose another `--storage`, or run the Optuna that made it."
        ) from error


@contextmanager
def optuna_session(storage: str | Path, *, patience: Patience | None = None) -> Iterator[RDBStorage]:
    """Optuna's tables for as long as the block lasts; its connections are closed after it, whatever happened.

    Raises:
        UsageError: See `optuna_storage`.
        StorageFault: See `optuna_storage`.
    """
    opened = optuna_storage(storage, patience=patience)
    try:
        yield opened
    finally:
        opened.remove_session()
        opened.engine.dispose()


def _opened(url: URL, patience: Patience) -> RDBStorage:
    engine = create_engine(url, poolclass=NullPool, **engine_options(url))
    for _ in range(_CREATING_TRIES - 1):
        try:
            with making(url, engine):
                refuse_foreign(engine)
                return _PatientStorage(url, patience)
        except DatabaseError as error:
            # An Optuna that takes no lock makes the same tables, or writes their version, at this moment.
            signs = ("already exists", "duplicate key", "UNIQUE", "database is locked")
            if not any(sign in str(error.orig) for sign in signs):
                raise
    return _PatientStorage(url, patience)


def write_trial(
    storage: BaseStorage,
    trial_id: int,
    *,
    params: Mapping[str, tuple[Any, BaseDistribution]] = MappingProxyType({}),
    user_attrs: Mapping[str, Any] = MappingProxyType({}),
    system_attrs: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write several facts of a running trial, in one transaction where the storage is a database of ours.

    Optuna itself commits each alone, and a commit waits for the disk.

    Args:
        storage: Of the study.
        trial_id: Of a running trial.
        params: Values with their distributions, by name.
        user_attrs: By name.
        system_attrs: By name, in Optuna's own spelling.

    Raises:
        ValueError: A parameter has another distribution in this study.
    """
    inside = {name: (kind.to_internal_repr(value), kind) for name, (value, kind) in params.items()}
    backend = getattr(storage, "_backend", storage)
    if isinstance(backend, _PatientStorage):
        backend.write_trial(trial_id, inside, user_attrs, system_attrs)
        return
    for name, (value, kind) in inside.items():
        storage.set_trial_param(trial_id, name, value, kind)
    for name, word in user_attrs.items():
        storage.set_trial_user_attr(trial_id, name, word)
    for name, word in system_attrs.items():
        storage.set_trial_system_attr(trial_id, name, word)


class _PatientStorage(RDBStorage):
    """Repeats each call while the database is away.

    What a lost answer to a commit can do here: a trial may be created twice, and the first one,
    which nobody runs, is closed when the study is continued. All other calls may be repeated.
    """

    def __init__(self, url: URL, patience: Patience) -> None:
        self._patience = patience
        super().__init__(url.render_as_string(hide_password=False), engine_kwargs=engine_options(url))

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """See `RDBStorage`; a repeated call takes a trial that has ended for ended by itself."""

        def attempt(number: int) -> bool:
            try:
                return super(_PatientStorage, self).set_trial_state_values(trial_id, state, values)
            except UpdateFinishedTrialError:
                if number and self.get_trial(trial_id).state is state:
                    return True
                raise

        return self._patience.run(lambda number: _unwrapped(attempt, number))

    def write_trial(
        self,
        trial_id: int,
        params: Mapping[str, tuple[float, BaseDistribution]],
        user_attrs: Mapping[str, Any],
        system_attrs: Mapping[str, Any],
    ) -> None:
        """See the function of this name; a repeated call writes the same once more."""

        def attempt() -> None:
            with _create_scoped_session(self.scoped_session, True) as session:
                for name, (value, kind) in params.items():
                    self._set_trial_param_without_commit(session, trial_id, name, value, kind)
                for model, attrs in (
                    (models.TrialUserAttributeModel, user_attrs),
                    (models.TrialSystemAttributeModel, system_attrs),
                ):
                    for name, word in attrs.items():
                        self._set_trial_attr_without_commit(session, model, trial_id, name, word)

        self._patience.run(lambda _: _unwrapped(attempt))


_REPEATED = (
    *("create_new_study", "delete_study", "get_all_studies", "get_study_id_from_name", "get_study_name_from_id"),
    *("get_study_directions", "get_study_user_attrs", "get_study_system_attrs"),
    *("set_study_user_attr", "set_study_system_attr"),
    *("create_new_trial", "_create_new_trial", "_set_trial_param", "set_trial_param", "get_trial_param"),
    *("set_trial_intermediate_value", "set_trial_user_attr", "set_trial_system_attr"),
    *("get_trial", "get_all_trials", "_get_trials", "get_trial_id_from_study_id_trial_number"),
)
"""All that Optuna's cache and its samplers call; private ones too, for the cache goes past the public ones."""


def _repeated(name: str) -> Callable[..., Any]:
    plain = getattr(RDBStorage, name)

    def call(self: _PatientStorage, *args: Any, **options: Any) -> Any:
        return self._patience.run(lambda _: _unwrapped(plain, self, *args, **options))

    call.__name__, call.__doc__ = name, plain.__doc__
    return call


for _name in _REPEATED:
    setattr(_PatientStorage, _name, _repeated(_name))


def _unwrapped(work: Callable[..., _T], *args: Any, **options: Any) -> _T:
    """The driver's own error in place of Optuna's, which says only that there was one."""
    try:
        return work(*args, **options)
    except StorageInternalError as error:
        if isinstance(error.__cause__, (DatabaseError, InterfaceError)):
            raise error.__cause__ from error
        raise
