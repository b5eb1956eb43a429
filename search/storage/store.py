"""Reads and writes our tables; every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, selectinload

from search.contracts import PhaseResult, SelfClosing
from search.errors import StorageFault, UsageError
from search.storage.faults import told_as_storage_fault
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.tables import SCHEMA_VERSION, Base, LaunchRow, MetaRow, StudyRow
from search.storage.translate import launch_columns, launch_record, phase_row, study_record, study_row
from search.storage.urls import BUSY_TIMEOUT_S, engine_options, shown, storage_url

_NUMBERING_TRIES = 20


class Store(SelfClosing):
    """Our side of the database. A context manager; closing gives its connections back.

    Raises:
        UsageError: The storage is not understood.
        StorageFault: The database cannot be used, or its tables are another version's.
    """

    def __init__(self, storage: str | Path) -> None:
        self.url = storage_url(storage)
        self._engine = create_engine(self.url, **engine_options(self.url))
        if self.url.get_backend_name() == "sqlite":
            event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            with told_as_storage_fault(self.url):
                Base.metadata.create_all(self._engine)
            self._check_version()
        except BaseException:
            self.close()
            raise

    def studies(self) -> tuple[StudyRecord, ...]:
        """All studies, oldest first."""
        with self._transaction() as session:
            return tuple(study_record(row) for row in session.scalars(select(StudyRow).order_by(StudyRow.id)))

    def study(self, name: str) -> StudyRecord | None:
        """One study, or None."""
        with self._transaction() as session:
            row = session.scalar(select(StudyRow).where(StudyRow.name == name))
            return study_record(row) if row else None

    def save_study(self, record: StudyRecord) -> None:
        """Create a study, or renew the spec and fingerprint of the one with its name."""
        with self._transaction() as session:
            row = session.scalar(select(StudyRow).where(StudyRow.name == record.name))
            if row is None:
                session.add(study_row(record))
            else:
                row.spec, row.fingerprint = dict(record.spec), dict(record.fingerprint)

    def launches(self, study: str) -> tuple[LaunchRecord, ...]:
        """All launches of a study with their phases, in launch order; none for an unknown study."""
        with self._transaction() as session:
            rows = session.scalars(
                select(LaunchRow)
                .join(StudyRow)
                .where(StudyRow.name == study)
                .order_by(LaunchRow.number)
                .options(selectinload(LaunchRow.phases))
            )
            return tuple(launch_record(row) for row in rows)

    def begin_launch(self, study: str, make: Callable[[int], LaunchRecord]) -> LaunchRecord:
        """Store a launch that is about to start, under the study's next free number.

        Args:
            study: Its name.
            make: Builds the record for the number it gets; called again when another driver
                took that number first.
        """
        for _ in range(_NUMBERING_TRIES):
            try:
                with self._transaction() as session:
                    study_id = self._study_id(session, study)
                    last = session.scalar(select(func.max(LaunchRow.number)).where(LaunchRow.study_id == study_id))
                    record = make((last or 0) + 1)
                    session.add(LaunchRow(study_id=study_id, **launch_columns(record)))
            except _NumberTaken:
                continue
            return record
        raise StorageFault(f"No free launch number was found in {shown(self.url)}. Let fewer drivers share the study.")

    def add_phase(self, study: str, number: int, result: PhaseResult) -> None:
        """Store one repeat as soon as it is measured."""
        with self._transaction() as session:
            session.add(phase_row(self._launch(session, study, number).id, result))

    def finish_launch(self, study: str, record: LaunchRecord) -> None:
        """Complete the row that `begin_launch` wrote; phases are not touched."""
        with self._transaction() as session:
            row = self._launch(session, study, record.number)
            for name, value in launch_columns(record).items():
                setattr(row, name, value)

    def close(self) -> None:
        """Give the connections back. Safe to call twice."""
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        with told_as_storage_fault(self.url):
            try:
                with Session(self._engine) as session, session.begin():
                    yield session
            except IntegrityError as error:
                raise _NumberTaken(str(error)) from error

    def _check_version(self) -> None:
        with self._transaction() as session:
            row = session.get(MetaRow, "schema_version")
            if row is None:
                session.add(MetaRow(key="schema_version", value=str(SCHEMA_VERSION)))
            elif row.value != str(SCHEMA_VERSION):
                raise StorageFault(
                    f"The tables in {shown(self.url)} have version {row.value}, but this program writes version "
                    f"{SCHEMA_VERSION}. Choose another `--storage`, or run the version of this program that made it."
                )

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


class _NumberTaken(StorageFault):
    """Two drivers chose one number (or name) at the same time."""


def _prepare_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # WAL: a reader, such as a dashboard, never blocks the driver's writes.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_S * 1000}")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
