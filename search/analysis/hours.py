"""Where the hours of a study went: by stage, into starts, switches, warm-ups, phases and stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from search.storage.records import LaunchRecord


@dataclass(frozen=True, slots=True)
class Hours:
    """Seconds of one stage, or of the whole study.

    Attributes:
        stage: Empty for the whole.
        measurements: Launches, however they ended.
        starts: Of servers, those that measurements of other stages share counted where they were begun.
        start_s: Until servers were ready.
        switch_s: Of switches.
        warmup_s: Of warm-ups.
        phase_s: Of what was measured.
        rest_s: Stops, probes, and launches that never became ready.
    """

    stage: str
    measurements: int
    starts: int
    start_s: float
    switch_s: float
    warmup_s: float
    phase_s: float
    rest_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.start_s + self.switch_s + self.warmup_s + self.phase_s + self.rest_s


def hours_by_stage(launches: Sequence[LaunchRecord]) -> tuple[Hours, ...]:
    """One row for each stage in the order of its first launch, then the whole."""
    stages = dict.fromkeys(launch.stage for launch in launches)
    rows = [_hours(stage, [one for one in launches if one.stage == stage]) for stage in stages]
    return (*rows, _hours("", launches)) if rows else ()


def _hours(stage: str, launches: Sequence[LaunchRecord]) -> Hours:
    start = sum(one.boot_s or 0.0 for one in launches)
    switch = sum(one.switch_s or 0.0 for one in launches)
    warmup = sum(phase.warmup_s for one in launches for phase in one.phases)
    phases = sum(phase.duration_s or 0.0 for one in launches for phase in one.phases)
    whole = sum(one.duration_s or 0.0 for one in launches)
    starts = sum(not one.place for one in launches)
    rest = max(0.0, whole - start - switch - warmup - phases)
    return Hours(stage, len(launches), starts, start, switch, warmup, phases, rest)
