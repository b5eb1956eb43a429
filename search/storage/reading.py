"""Reads studies and launches; of launches, only what changed since they were last read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Table, func, or_, select
from sqlalchemy.orm import Session

from search.storage.records import LaunchRecord, StudyRecord
from search.storage.tables import Base, NoteRow, StudyRow, expected, launches, phases
from search.storage.translate import launch_record, study_record

_studies = Base.metadata.tables[StudyRow.__tablename__]
_FEW = 100
"""Launches whose rows are asked for by their ids."""


@dataclass(frozen=True)
class Read:
    """All launches of a study by number, ascending, as they were when its count of changes was `changes`."""

    changes: int = 0
    launches: dict[int, LaunchRecord] = field(default_factory=dict)
    unfinished: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        """The highest number; 0 without launches."""
        return next(reversed(self.launches), 0)

    def with_changed(self, changes: int, changed: Mapping[int, LaunchRecord]) -> Read:
        """The same with what has changed since; the order is made anew only when it must be."""
        merged = {**self.launches, **changed}
        if any(number < self.last for number in changed.keys() - self.launches.keys()):
            merged = dict(sorted(merged.items()))
        looked = {*self.unfinished, *changed}
        return Read(changes, merged, tuple(number for number in looked if merged[number].outcome is None))


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
        last = select(func.max(launches.c.number)).where(launches.c.study_id == _studies.c.id).scalar_subquery()
        counts = [column for column in self._of(_studies) if column.key in ("id", "changes")]
        row = session.execute(select(*counts, last.label("last")).where(_studies.c.name == study)).mappings().first()
        if row is None:
            return ()
        before = self._read.get(row["id"], Read())
        # The count first: what is written in between is read once more, never passed over.
        changes = row.get("changes") or 0
        if before.changes == changes and before.last == (row["last"] or 0) and not before.unfinished:
            return tuple(before.launches.values())
        now = before.with_changed(changes, self._changed(session, row["id"], before))
        self._read[row["id"]] = now
        return tuple(now.launches.values())

    def _changed(self, session: Session, study_id: int, before: Read) -> dict[int, LaunchRecord]:
        """Launches that are new, unfinished, or changed since, by number, ascending."""
        c = launches.c
        is_new: list[ColumnElement[bool]] = [c.number > before.last, c.number.in_(before.unfinished)]
        if before.launches and "changed" in self._there[launches.name]:
            is_new.append(c.changed > before.changes)
        wanted = [c.study_id == study_id, or_(*is_new)]
        found = session.execute(select(*self._of(launches)).where(*wanted).order_by(c.number)).mappings().all()
        if not found:
            return {}
        ids = [row["id"] for row in found]
        # A few by their ids; of all of a study, a database takes one condition better than many ids.
        of_launch: Any = ids if len(ids) <= _FEW else select(c.id).where(*wanted)
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
