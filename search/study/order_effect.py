"""ORDER_EFFECT: whether a later repeat on the same server differs from an earlier one, whatever the config.

One launch cannot tell it from chance. All launches of a study together can: if the second repeat
is faster or slower by the same share in every launch, it is its place in the launch that does it
(caches that fill, memory that fragments, heat).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from statistics import fmean, stdev

from search.contracts import PhaseResult
from search.outcomes import Outcome
from search.storage import LaunchRecord

_FEWEST_LAUNCHES = 5
_MATTERS = 0.01
_BEYOND = 4.0
"""Standard errors of a mean over launches; with five of them, t(4) makes this a chance of 1.6 %."""


def order_effects(launches: Sequence[LaunchRecord]) -> dict[int, float]:
    """Loads at which the last repeat of a launch differs from the first, and by what share of its rate."""
    shifts: dict[int, list[float]] = {}
    for launch in launches:
        if launch.outcome is not Outcome.MEASURED:
            continue
        for load in {phase.concurrency for phase in launch.phases}:
            repeats = launch.repeats(load)
            if len(repeats) > 1:
                shifts.setdefault(load, []).append(log(_rate(repeats[-1]) / _rate(repeats[0])))
    return {load: mean for load, found in sorted(shifts.items()) if (mean := _told(found)) is not None}


def _told(shifts: Sequence[float]) -> float | None:
    if len(shifts) < _FEWEST_LAUNCHES:
        return None
    mean = fmean(shifts)
    error = stdev(shifts) / sqrt(len(shifts))
    return mean if abs(mean) > max(_MATTERS, _BEYOND * error) else None


def _rate(result: PhaseResult) -> float:
    return 1000 / result.tpot_ms if result.concurrency == 1 and result.tpot_ms else result.output_tps
