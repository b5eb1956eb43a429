"""Reads and writes our tables; every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import create_engine, delete, event, func, inspect, select, text, update
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session, selectinload

from search.contracts import PhaseResult, SelfClosing
from search.errors import SearchError, StorageFault, UsageError
from search.storage.faults import told_as_storage_fault
from search.storage.owner import this_process
from search.storage.patience import Patience
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.tables import (
    SCHEMA_VERSION,
    Base,
    ClaimRow,
    DriverRow,
    LaunchRow,
    MetaRow,
    NoteRow,
    OwnerRow,
    StudyRow,
)
from search.storage.translate import (
    expected_row,
    launch_columns,
    launch_record,
    phase_result,
    phase_row,
    study_record,
    study_row,
)
from search.storage.urls import BUSY_TIMEOUT_S, engine_options, shown, storage_url

_T = TypeVar("_T")
_CREATING_TRIES = 3


class LaunchesSpent(SearchError):
    """The study has all the launches that its budget allows."""


class Store(SelfClosing):
    """Our side of the database. A context manager; closing gives its connections back.

    A database that is locked or away is waited for, see `Patience`; only a server is not when it
    is opened: then its URL is most likely wrong. Threads may share a store.

    Args:
        storage: A path or URL.
        patience: Of a running study; the default says that it waits through `logging`.

    Raises:
        UsageError: The storage is not understood.
        StorageFault: The database cannot be used, or its tables are another version's.
    """

    def __init__(self, storage: str | Path, *, patience: Patience | None = None) -> None:
        self.url = storage_url(storage)
        self._patience = patience or Patience(self.url)
        self._finished: dict[int, tuple[LaunchRecord, ...]] = {}
        self._engine = create_engine(self.url, **engine_options(self.url))
        if self.url.get_backend_name() == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            if self.url.get_backend_name() == "sqlite":
                self._patience.run(lambda _: self._create_tables())
            with told_as_storage_fault(self.url):
                self._create_tables()
            self._check_version()
        except BaseException:
            self.close()
            raise

    def studies(self) -> tuple[StudyRecord, ...]:
        """All studies, oldest first."""
        return self._transaction(
            lambda session, _: tuple(
                _study(session, row) for row in session.scalars(select(StudyRow).order_by(StudyRow.id)).all()
            )
        )

    def study(self, name: str) -> StudyRecord | None:
        """One study, or None."""

        def read(session: Session, _: int) -> StudyRecord | None:
            row = session.scalar(select(StudyRow).where(StudyRow.name == name))
            return _study(session, row) if row else None

        return self._transaction(read)

    def save_study(self, record: StudyRecord) -> None:
        """Create a study, or renew the spec and fingerprint of the one with its name; its notes stay."""

        def write(session: Session, _: int) -> None:
            row = session.scalar(select(StudyRow).where(StudyRow.name == record.name))
            if row is None:
                session.add(study_row(record))
            else:
                row.spec, row.fingerprint = dict(record.spec), dict(record.fingerprint)

        self._transaction(write)

    def add_note(self, study: str, at: datetime, text: str) -> None:
        """Add to what people must know of a study."""

        def write(session: Session, _: int) -> None:
            study_id = self._study_id(session, study)
            is_there = select(NoteRow.id).where(NoteRow.study_id == study_id, NoteRow.at == at, NoteRow.text == text)
            if session.scalar(is_there) is None:
                session.add(NoteRow(study_id=study_id, at=at, text=text))

        self._transaction(write)

    def launches(self, study: str) -> tuple[LaunchRecord, ...]:
        """All launches of a study with their phases, in launch order; none for an unknown study.

        What is finished does not change any more, so it is read from the database once: a loop
        that asks after every launch pays for the new ones only.
        """

        def read(session: Session, _: int) -> tuple[LaunchRecord, ...]:
            study_id = session.scalar(select(StudyRow.id).where(StudyRow.name == study))
            known = self._finished.get(study_id, ()) if study_id is not None else ()
            wanted = (
                select(LaunchRow)
                .where(LaunchRow.study_id == study_id, LaunchRow.number > len(known))
                .order_by(LaunchRow.number)
                .options(selectinload(LaunchRow.phases), selectinload(LaunchRow.expected))
            )
            launches = known + tuple(map(launch_record, session.scalars(wanted)))
            if study_id is not None:
                self._finished[study_id] = _finished_start(launches)
            return launches

        return self._transaction(read)

    def begin_launch(
        self, study: str, make: Callable[[int], LaunchRecord], *, at_most: int | None = None
    ) -> LaunchRecord:
        """Store a launch that is about to start, under the study's next free number; this process owns it.

        Numbers are given out one by one over all drivers, so the cap holds for all of them together.

        Args:
            study: Its name.
            make: Builds the record for the number it gets; called again when another driver
                took that number first.
            at_most: How many launches the study may have.

        Raises:
            LaunchesSpent: It has them; nothing is stored then.
        """
        token = uuid4().hex

        def write(session: Session, attempt: int) -> LaunchRecord:
            if attempt and (number := session.scalar(_number_of(token))) is not None:
                return make(number)
            study_id = self._study_id(session, study)
            last = session.scalar(select(func.max(LaunchRow.number)).where(LaunchRow.study_id == study_id))
            if at_most is not None and (last or 0) >= at_most:
                raise LaunchesSpent(f"Study {study!r} has {last} launches, and may have {at_most}.")
            record = make((last or 0) + 1)
            expected = expected_row(record.expected) if record.expected else None
            row = LaunchRow(study_id=study_id, **launch_columns(record), expected=expected)
            session.add(row)
            session.flush()
            session.add(OwnerRow(launch_id=row.id, owner=this_process(), token=token))
            return record

        return self._transaction(write)

    def claim(self, study: str, config_id: str, trial: int, is_free: Callable[[int], bool]) -> bool:
        """Take a config for one of Optuna's trials, so that no other driver launches it too.

        A claim is never given back: it lasts until the trial that holds it is free.

        Args:
            study: Its name.
            config_id: What the trial is about to launch.
            trial: Number of a running trial.
            is_free: Whether a trial, by its number, has ended such that its config may be asked again.

        Returns:
            Whether `trial` holds the config now; of trials that claim it in one moment, one does.
        """

        def write(session: Session, _: int) -> bool:
            key = {"study_id": self._study_id(session, study), "config_id": config_id}
            holder = session.scalar(select(ClaimRow.trial).filter_by(**key))
            if holder is None:
                session.add(ClaimRow(trial=trial, **key))
                return True
            if holder == trial or not is_free(holder):
                return holder == trial
            # Whoever comes second finds another holder here, and changes nothing.
            taken = update(ClaimRow).filter_by(trial=holder, **key).values(trial=trial)
            return session.execute(taken.returning(ClaimRow.trial)).first() is not None

        return self._transaction(write)

    def owners(self, study: str) -> dict[int, str]:
        """The driver process of each unfinished launch, by the launch's number; empty where none is stored."""
        wanted = (
            select(LaunchRow.number, OwnerRow.owner)
            .join(StudyRow, StudyRow.id == LaunchRow.study_id)
            .outerjoin(OwnerRow, OwnerRow.launch_id == LaunchRow.id)
            .where(StudyRow.name == study, LaunchRow.outcome.is_(None))
        )
        return self._transaction(lambda session, _: {row.number: row.owner or "" for row in session.execute(wanted)})

    def add_phase(self, study: str, number: int, result: PhaseResult) -> None:
        """Store one repeat as soon as it is measured."""

        def write(session: Session, attempt: int) -> None:
            launch = self._launch(session, study, number)
            if attempt and any(phase_result(phase) == result for phase in launch.phases[-1:]):
                return
            session.add(phase_row(launch.id, result))

        self._transaction(write)

    def finish_launch(self, study: str, record: LaunchRecord) -> None:
        """Complete the row that `begin_launch` wrote; phases are not touched."""

        def write(session: Session, _: int) -> None:
            row = self._launch(session, study, record.number)
            # Rarely finished twice: closed for a driver that was taken for dead.
            self._finished[row.study_id] = self._finished.get(row.study_id, ())[: record.number - 1]
            for name, value in launch_columns(record).items():
                setattr(row, name, value)

        self._transaction(write)

    def beat(self, owner: str, at: datetime) -> None:
        """Store a driver's sign of life."""
        self._transaction(lambda session, _: session.merge(DriverRow(owner=owner, beat_at=at)))

    def beats(self) -> dict[str, datetime]:
        """The last sign of life of every driver that did not take leave."""
        return self._transaction(
            lambda session, _: {row.owner: row.beat_at for row in session.scalars(select(DriverRow))}
        )

    def end_beats(self, owner: str) -> None:
        """Take leave: the driver owns nothing any more."""
        self._transaction(lambda session, _: session.execute(delete(DriverRow).where(DriverRow.owner == owner)))

    def close(self) -> None:
        """Give the connections back. Safe to call twice."""
        self._engine.dispose()

    def _transaction(self, work: Callable[[Session, int], _T]) -> _T:
        """One transaction, repeated while the database is away; `work` gets the attempt's number."""

        def attempt(number: int) -> _T:
            with Session(self._engine, expire_on_commit=False) as session, session.begin():
                return work(session, number)

        return self._patience.run(attempt)

    def _create_tables(self) -> None:
        """Make what is missing; does nothing the second time."""
        for tries_left in reversed(range(_CREATING_TRIES)):
            try:
                Base.metadata.create_all(self._engine)
                self._add_columns()
            except DatabaseError as error:
                # Another driver makes the same tables or columns at this moment.
                known = any(words in str(error.orig) for words in ("already exists", "duplicate column"))
                if not known or not tries_left:
                    raise
            else:
                return

    def _add_columns(self) -> None:
        """Columns that tables of before lack: only such as may be empty were added since."""
        found = inspect(self._engine)
        quote = self._engine.dialect.identifier_preparer.quote
        for table in Base.metadata.sorted_tables:
            there = {column["name"] for column in found.get_columns(table.name)}
            for column in (column for column in table.columns if column.name not in there and column.nullable):
                kind = column.type.compile(self._engine.dialect)
                with self._engine.begin() as connection:
                    connection.execute(text(f"ALTER TABLE {quote(table.name)} ADD COLUMN {quote(column.name)} {kind}"))

    def _check_version(self) -> None:
        def check(session: Session, _: int) -> None:
            row = session.get(MetaRow, "schema_version")
            if row is None:
                session.add(MetaRow(key="schema_version", value=str(SCHEMA_VERSION)))
            elif row.value != str(SCHEMA_VERSION):
                raise StorageFault(
                    f"The tables in {shown(self.url)} have version {row.value}, but this program writes version "
                    f"{SCHEMA_VERSION}. Choose another `--storage`, or run the version of this program that made it."
                )

        self._transaction(check)

    def _study_id(self, session: Session, name: str) -> int:
        study_id = session.scalar(select(StudyRow.id).where(StudyRow.name == name))
        if study_id is None:
            raise UsageError(f"There is no study {name!r} in {shown(self.url)}.")
        return study_id

    def _launch(self, session: Session, study: str, number: int) -> LaunchRow:
        study_id = self._study_id(session, study)
        row = session.scalar(select(LaunchRow).where(LaunchRow.study_id == study_id, LaunchRow.number == number))
        if row is None:
            raise UsageError(f"Study {study!r} in {shown(self.url)} has no launch {number}.")
        return row


def _study(session: Session, row: StudyRow) -> StudyRecord:
    notes = session.scalars(select(NoteRow.text).where(NoteRow.study_id == row.id).order_by(NoteRow.id))
    return study_record(row, notes)


def _finished_start(launches: Sequence[LaunchRecord]) -> tuple[LaunchRecord, ...]:
    """Launches 1, 2, 3… up to the first that is unfinished or missing."""
    start = takewhile(lambda pair: pair[0] == pair[1].number and pair[1].outcome is not None, enumerate(launches, 1))
    return tuple(launch for _, launch in start)


def _number_of(token: str) -> Any:
    """The launch that one call of `begin_launch` stored."""
    return select(LaunchRow.number).join(OwnerRow, OwnerRow.launch_id == LaunchRow.id).where(OwnerRow.token == token)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # First, for the next line may have to wait already.
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_S * 1000}")
    # WAL: a reader, such as a dashboard, never blocks the driver's writes.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
