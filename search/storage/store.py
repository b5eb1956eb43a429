"""Reads and writes our tables; every method is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from search.contracts import PhaseResult, SelfClosing
from search.errors import SearchError, UsageError
from search.storage.faults import told_as_damaged, told_as_storage_fault
from search.storage.opening import (
    check_version,
    columns_there,
    engine_to_read,
    engine_to_write,
    make_tables,
    making,
    version_row,
)
from search.storage.owner import this_process
from search.storage.patience import Patience
from search.storage.reading import Reader
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.tables import ClaimRow, DriverRow, MetaRow, NoteRow, OwnerRow, StudyRow, expected, launches, phases
from search.storage.translate import expected_cells, launch_cells, phase_cells, study_cells
from search.storage.urls import is_sqlite, shown, storage_url

_T = TypeVar("_T")


class LaunchesSpent(SearchError):
    """The study has all the launches that its budget allows."""


class Store(SelfClosing):
    """Our side of the database. A context manager; closing gives its connections back.

    A database that is locked or away is waited for, see `Patience`; only a server is not when it
    is opened: then its URL is most likely wrong. Threads may share a store.

    Args:
        storage: A path or URL.
        read_only: Only look: no file and no table is made, and a file that cannot be written will do.
        patience: Of a running study; the default says that it waits through `logging`.

    Raises:
        UsageError: The storage is not understood, or there is nothing to look at.
        StorageFault: The database cannot be used, its tables are another version's, or it is another program's.
    """

    def __init__(self, storage: str | Path, *, read_only: bool = False, patience: Patience | None = None) -> None:
        self.url = storage_url(storage)
        self._patience = patience or Patience(self.url)
        self._engine = engine_to_read(self.url) if read_only else engine_to_write(self.url)
        try:
            if is_sqlite(self.url):
                self._patience.run(lambda _: self._open(read_only=read_only))
            else:
                with told_as_storage_fault(self.url):
                    self._open(read_only=read_only)
        except BaseException:
            self.close()
            raise

    def studies(self) -> tuple[StudyRecord, ...]:
        """All studies, oldest first."""
        with told_as_damaged(self.url):
            return self._transaction(lambda session, _: self._reader.studies(session))

    def study(self, name: str) -> StudyRecord | None:
        """One study, or None."""
        with told_as_damaged(self.url):
            return next(iter(self._transaction(lambda session, _: self._reader.studies(session, name))), None)

    def save_study(self, record: StudyRecord) -> None:
        """Create a study, or renew the spec and fingerprint of the one with its name; its notes stay."""
        cells = study_cells(record)

        def write(session: Session, _: int) -> None:
            row = session.scalar(select(StudyRow).where(StudyRow.name == record.name))
            if row is None:
                session.add(StudyRow(**cells))
            else:
                row.spec, row.fingerprint = cells["spec"], cells["fingerprint"]

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

        What has not changed since is not read from the database again: a loop that asks after every
        launch pays for the new ones only.
        """
        with told_as_damaged(self.url):
            return self._transaction(lambda session, _: self._reader.launches(session, study))

    def begin_launch(
        self, study: str, make: Callable[[int], LaunchRecord], *, at_most: int | None = None
    ) -> LaunchRecord:
        """Store a launch that is about to start, under the study's next free number; this process owns it.

        Numbers are given out one by one over all drivers, so the cap holds for all of them together.

        Args:
            study: Its name.
            make: Builds the record for the number it gets; called again when another driver
                took that number first.
            at_most: How many launches the study may have, those aside that started no server.

        Raises:
            LaunchesSpent: It has them; nothing is stored then.
        """
        token = uuid4().hex

        def write(session: Session, attempt: int) -> LaunchRecord:
            if attempt and (number := session.scalar(_number_of(token))) is not None:
                return make(number)
            study_id, changed = self._change(session, study)
            of_study = launches.c.study_id == study_id
            last = session.scalar(select(func.max(launches.c.number)).where(of_study)) or 0
            if at_most is not None:
                free = launches.c.no_server.is_(True)
                spent = last - (session.scalar(select(func.count()).where(of_study, free)) or 0)
                if spent >= at_most:
                    raise LaunchesSpent(f"Study {study!r} has {spent} launches, and may have {at_most}.")
            record = make(last + 1)
            cells = launch_cells(record) | {"study_id": study_id, "changed": changed}
            launch_id = session.scalar(insert(launches).values(cells).returning(launches.c.id))
            if (forecast := expected_cells(record.expected)) is not None:
                session.execute(insert(expected).values(launch_id=launch_id, **forecast))
            session.add(OwnerRow(launch_id=launch_id, owner=this_process(), token=token))
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
            select(launches.c.number, OwnerRow.owner)
            .join(StudyRow, StudyRow.id == launches.c.study_id)
            .outerjoin(OwnerRow, OwnerRow.launch_id == launches.c.id)
            .where(StudyRow.name == study, launches.c.outcome.is_(None))
        )
        return self._transaction(lambda session, _: {row.number: row.owner or "" for row in session.execute(wanted)})

    def add_phase(self, study: str, number: int, result: PhaseResult) -> None:
        """Store one repeat as soon as it is measured.

        Raises:
            LoadFailed: Its rate is no finite number, so that it is no measurement.
        """
        cells = phase_cells(result)

        def write(session: Session, attempt: int) -> None:
            launch_id = self._changed_launch(session, study, number)
            if attempt:
                last = select(phases).where(phases.c.launch_id == launch_id).order_by(phases.c.id.desc()).limit(1)
                row = session.execute(last).mappings().first()
                if row is not None and all(row[name] == cell for name, cell in cells.items()):
                    return
            session.execute(insert(phases).values(launch_id=launch_id, **cells))

        self._transaction(write)

    def finish_launch(self, study: str, record: LaunchRecord) -> None:
        """Complete the row that `begin_launch` wrote; phases are not touched.

        A second time it holds too: whoever was taken for dead and was not knows more than who closed its row.
        """
        cells = launch_cells(record)

        def write(session: Session, _: int) -> None:
            launch_id = self._changed_launch(session, study, record.number)
            session.execute(update(launches).where(launches.c.id == launch_id).values(cells))

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

    def _open(self, *, read_only: bool) -> None:
        if not read_only:
            with making(self.url, self._engine):
                make_tables(self._engine)
                with Session(self._engine) as session, session.begin():
                    if session.get(MetaRow, "schema_version") is None:
                        session.add(version_row())
        there = columns_there(self._engine)
        with Session(self._engine) as session:
            row = session.get(MetaRow, "schema_version") if there[MetaRow.__tablename__] else None
            check_version(row.value if row else None, self.url)
        self._reader = Reader(there)

    def _study_id(self, session: Session, name: str) -> int:
        study_id = session.scalar(select(StudyRow.id).where(StudyRow.name == name))
        if study_id is None:
            raise UsageError(
                f"There is no study {name!r} in {shown(self.url)}. Check `--storage`, or run the study first."
            )
        return study_id

    def _change(self, session: Session, study: str) -> tuple[int, int]:
        """The study's id and its count of changes, raised by one; other drivers' changes wait until the commit."""
        raised = update(StudyRow).where(StudyRow.name == study).values(changes=func.coalesce(StudyRow.changes, 0) + 1)
        row = session.execute(raised.returning(StudyRow.id, StudyRow.changes)).first()
        if row is None:
            raise UsageError(f"There is no study {study!r} in {shown(self.url)}.")
        return row.id, row.changes or 0

    def _changed_launch(self, session: Session, study: str, number: int) -> int:
        """The id of a launch, marked as changed."""
        study_id, changed = self._change(session, study)
        row = update(launches).where(launches.c.study_id == study_id, launches.c.number == number)
        launch_id = session.scalar(row.values(changed=changed).returning(launches.c.id))
        if launch_id is None:
            raise UsageError(f"Study {study!r} in {shown(self.url)} has no launch {number}.")
        return int(launch_id)


def _number_of(token: str) -> Any:
    """The launch that one call of `begin_launch` stored."""
    return select(launches.c.number).join(OwnerRow, OwnerRow.launch_id == launches.c.id).where(OwnerRow.token == token)
