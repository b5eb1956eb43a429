"""Reads studies and launches; of launches, only what changed since they were last read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Table, or_, select
from sqlalchemy.orm import Session

from search.storage.records import LaunchRecord, StudyRecord
from search.storage.tables import Base, NoteRow, StudyRow, expected, launches, phases
from search.storage.translate import launch_record, study_record

_studies = Base.metadata.tables[StudyRow.__tablename__]


@dataclass(frozen=True)
class Read:
    """All launches of a study, as they were when its count of changes was `changes`."""

    changes: int = 0
    launches: Mapping[int, LaunchRecord] = field(default_factory=dict)

    @property
    def in_order(self) -> tuple[LaunchRecord, ...]:
        """By number."""
        return tuple(self.launches[number] for number in sorted(self.launches))


class Reader:
    """Reads with the columns that a database has: one from before lacks those that were added since.

    Args:
        there: See `columns_there`.
    """

    def __init__(self, there: Mapping[str, frozenset[str]]) -> None:
        self._there = there
        self._read: dict[int, Read] = {}

    def studies(self, session: Session, name: str | None = None) -> tuple[StudyRecord, ...]:
        """All studies, oldest first, or the one of that name."""
        wanted = select(*self._of(_studies)).order_by(_studies.c.id)
        if name is not None:
            wanted = wanted.where(_studies.c.name == name)
        return tuple(
            study_record(dict(row), self._notes(session, row["id"])) for row in session.execute(wanted).mappings().all()
        )

    def launches(self, session: Session, study: str) -> tuple[LaunchRecord, ...]:
        """All launches of a study with their phases, in launch order; none for an unknown study."""
        row = session.execute(select(*self._of(_studies)).where(_studies.c.name == study)).mappings().first()
        if row is None:
            return ()
        before = self._read.get(row["id"], Read())
        # The count first: what is written in between is read once more, never passed over.
        now = Read(row.get("changes") or 0, {**before.launches, **self._changed(session, row["id"], before)})
        self._read[row["id"]] = now
        return now.in_order

    def _changed(self, session: Session, study_id: int, before: Read) -> dict[int, LaunchRecord]:
        """Launches that are new, unfinished, or changed since."""
        c = launches.c
        last = max(before.launches, default=0)
        unfinished = [launch.number for launch in before.launches.values() if launch.outcome is None]
        is_new: list[ColumnElement[bool]] = [c.number > last, c.outcome.is_(None), c.number.in_(unfinished)]
        if "changed" in self._there[launches.name]:
            is_new.append(c.changed > before.changes)
        wanted = [c.study_id == study_id, or_(*is_new)]
        found = session.execute(select(*self._of(launches)).where(*wanted)).mappings().all()
        if not found:
            return {}
        of_launch = select(c.id).where(*wanted)
        repeats: dict[int, list[Mapping[str, Any]]] = {}
        for row in session.execute(
            select(*self._of(phases)).where(phases.c.launch_id.in_(of_launch)).order_by(phases.c.id)
        ).mappings():
            repeats.setdefault(row["launch_id"], []).append(dict(row))
        forecasts: dict[int, Mapping[str, Any]] = {}
        if self._there[expected.name]:
            rows = session.execute(select(*self._of(expected)).where(expected.c.launch_id.in_(of_launch)))
            forecasts = {row["launch_id"]: dict(row) for row in rows.mappings()}
        return {
            row["number"]: launch_record(
                dict(row), phases=repeats.get(row["id"], ()), expected=forecasts.get(row["id"])
            )
            for row in found
        }

    def _notes(self, session: Session, study_id: int) -> tuple[str, ...]:
        if not self._there[NoteRow.__tablename__]:
            return ()
        wanted = select(NoteRow.text).where(NoteRow.study_id == study_id).order_by(NoteRow.id)
        return tuple(session.scalars(wanted))

    def _of(self, table: Table) -> list[ColumnElement[Any]]:
        return [column.label(column.key) for column in table.columns if column.name in self._there[table.name]]
