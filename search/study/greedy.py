"""Greedy phases beside a study that samples: their answers show whether a config is lossless."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from search.contracts import Phase, PhaseResult
from search.spec.study import StudySpec


def greedy_phases(spec: StudySpec, measured: Collection[PhaseResult], *, repeats: int) -> Iterator[tuple[Phase, int]]:
    """One answer per worker at each of the objectives' loads that was measured, with the number of its repeat.

    Args:
        spec: The study.
        measured: Phases of the start so far; they have warmed it up.
        repeats: Of each.
    """
    loads = {result.concurrency for result in measured}
    for repeat in range(1, repeats + 1):
        for load in spec.objective_loads:
            if load in loads:
                phase = spec.measure.phase(load, warm=True)
                few = max(load, min(phase.requests, spec.measure.requests_at_latency))
                yield replace(phase, requests=few, greedy=True), repeat
