"""A store that keeps its rows in this process: what a study that nobody resumes needs of a database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import make_url

from search.contracts import PhaseResult
from search.storage.owner import this_process
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import LaunchesSpent, Store


class MemoryStore(Store):
    """Answers as `Store` does for one study of one driver, and keeps nothing once it is gone."""

    def __init__(self) -> None:
        """An empty one: no file, no connection."""
        self.url = make_url("memory://")
        self._study: StudyRecord | None = None
        self._launches: dict[int, LaunchRecord] = {}
        self._claims: dict[str, int] = {}
        self._beats: dict[str, datetime] = {}

    def studies(self) -> tuple[StudyRecord, ...]:
        """See `Store`."""
        return () if self._study is None else (self._study,)

    def study(self, name: str) -> StudyRecord | None:
        """See `Store`."""
        return self._study if self._study is not None and self._study.name == name else None

    def save_study(self, record: StudyRecord) -> None:
        """See `Store`."""
        self._study = record

    def add_note(self, study: str, at: datetime, text: str) -> None:
        """See `Store`; notes are for people, and nobody reads these."""

    def launches(self, study: str) -> tuple[LaunchRecord, ...]:  # noqa: ARG002
        """See `Store`."""
        return tuple(self._launches.values())

    def begin_launch(
        self, study: str, make: Callable[[int], LaunchRecord], *, at_most: int | None = None
    ) -> LaunchRecord:
        """See `Store`."""
        spent = sum(launch.started_server for launch in self._launches.values())
        if at_most is not None and spent >= at_most:
            raise LaunchesSpent(f"Study {study!r} has {spent} launches, and may have {at_most}.")
        record = make(len(self._launches) + 1)
        self._launches[record.number] = record
        return record

    def claim(self, study: str, config_id: str, trial: int, is_free: Callable[[int], bool]) -> bool:  # noqa: ARG002
        """See `Store`."""
        holder = self._claims.get(config_id, trial)
        if holder == trial or is_free(holder):
            self._claims[config_id] = trial
            return True
        return False

    def owners(self, study: str) -> dict[int, str]:  # noqa: ARG002
        """See `Store`."""
        return {number: this_process() for number, launch in self._launches.items() if launch.outcome is None}

    def add_phase(self, study: str, number: int, result: PhaseResult) -> None:  # noqa: ARG002
        """See `Store`."""
        launch = self._launches[number]
        self._launches[number] = replace(launch, phases=(*launch.phases, result))

    def finish_launch(self, study: str, record: LaunchRecord) -> None:  # noqa: ARG002
        """See `Store`."""
        self._launches[record.number] = replace(record, phases=self._launches[record.number].phases)

    def beat(self, owner: str, at: datetime) -> None:
        """See `Store`."""
        self._beats[owner] = at

    def beats(self) -> dict[str, datetime]:
        """See `Store`."""
        return dict(self._beats)

    def end_beats(self, owner: str) -> None:
        """See `Store`."""
        self._beats.pop(owner, None)

    def close(self) -> None:
        """Nothing is held."""
