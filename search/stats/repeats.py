"""Whether repeats of one phase agree: outliers, UNSTABLE, BISTABLE. Nothing is ever thrown away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, pstdev

import numpy as np
import numpy.typing as npt

from search.contracts import PhaseResult
from search.outcomes import Note
from search.stats.estimates import REPEAT_CV

_OUTLIER = 5.0
"""Robust standard deviations."""
_MAD_TO_SD = 1.4826
_MATTERS = 0.05
"""A smaller gap between repeats or states is what a quiet host may show now and then."""
_BEYOND = 4.0
"""Standard errors between two repeats; a study has dozens of pairs."""
_FEWEST_SLICES = 12
_SEPARATION = 5.0
"""Ashman's D of two states. Halves of one normal distribution reach 2.7, of a uniform one 3.5."""
_DWELL = 3
"""Slices a state lasts on average. Prefill bursts come and go faster."""
_FEWEST_REPEATS = 4


@dataclass(frozen=True, slots=True)
class Outlier:
    """One repeat that stands apart from the others of its phase.

    Attributes:
        place: Of the repeat in what was given, from 0.
        value: Its own.
        off: `value / median - 1`.
    """

    place: int
    value: float
    off: float


def outliers(values: Sequence[float]) -> tuple[Outlier, ...]:
    """Repeats more than five robust deviations (MAD; Iglewicz and Hoaglin 1993) from the median.

    Equal repeats would make any other an outlier, so the deviation is at least what repeats
    usually differ by. Of two, it is unknown which is the odd one.
    """
    if len(values) < 3:
        return ()
    middle = median(values)
    if middle <= 0:
        return ()  # nothing has no share that something is off it by
    scale = max(_MAD_TO_SD * median(abs(value - middle) for value in values), REPEAT_CV * middle)
    return tuple(
        Outlier(place, value, value / middle - 1)
        for place, value in enumerate(values)
        if abs(value - middle) > _OUTLIER * scale
    )


def repeat_notes(repeats: Sequence[PhaseResult]) -> tuple[Note, ...]:
    """BISTABLE and UNSTABLE, as the repeats of one concurrency of one config show them.

    BISTABLE: two states, in the slices of one steady window or among four and more repeats.
    UNSTABLE: two repeats differ by more than 5 % and by more than four standard errors, and the
    difference is not explained by two states.
    """
    return tuple(_notes(repeats))


def _notes(repeats: Sequence[PhaseResult]) -> Iterator[Note]:
    rates = np.asarray([_speed(repeat) for repeat in repeats], dtype=float)
    if any(_two_states_in_time(np.asarray(repeat.window_tps, dtype=float)) for repeat in repeats) or (
        len(rates) >= _FEWEST_REPEATS and _two_clusters(rates, least=2)
    ):
        yield Note.BISTABLE
    elif _differ(repeats):
        yield Note.UNSTABLE


def _differ(repeats: Sequence[PhaseResult]) -> bool:
    """Whether the slowest and the fastest repeat are further apart than their own noise explains."""
    if len(repeats) < 2:
        return False
    ordered = sorted(repeats, key=_speed)
    slow, fast = ordered[0], ordered[-1]
    if _speed(fast) <= 0:
        return False
    gap = 1 - _speed(slow) / _speed(fast)
    error = sqrt(2 * REPEAT_CV**2 + _noise(slow, fast))
    return gap > _MATTERS and gap > _BEYOND * error


def _speed(result: PhaseResult) -> float:
    """Tokens per second, of one stream where there is only one."""
    return 1000 / result.tpot_ms if result.concurrency == 1 and result.tpot_ms else result.output_tps


def _noise(slow: PhaseResult, fast: PhaseResult) -> float:
    """Relative variance of the difference of two repeats from their samples; 0 where there are none."""
    if slow.concurrency > 1:
        return sum(_squared_error(result.window_tps) for result in (slow, fast))
    pairs = list(zip(slow.prompt_tpot_ms, fast.prompt_tpot_ms, strict=False))
    same = slow.prompt_ids == fast.prompt_ids and len(pairs) > 1
    if not same:
        return sum(_squared_error(result.prompt_tpot_ms) for result in (slow, fast))
    here, there = fmean(one for one, _ in pairs), fmean(other for _, other in pairs)
    if not here or not there:
        return 0.0
    # What is left once every prompt is slower by the same share.
    return pstdev(one / here - other / there for one, other in pairs) ** 2 / (len(pairs) - 1)


def _squared_error(sample: Sequence[float]) -> float:
    if len(sample) < 2:
        return 0.0
    values = np.asarray(sample, dtype=float)
    return float((values.std(ddof=1) / values.mean()) ** 2 / len(values)) if values.mean() else 0.0


def _two_states_in_time(slices: npt.NDArray[np.float64]) -> bool:
    """Whether the slices of a steady window fall into two levels that each last for a while."""
    if len(slices) < _FEWEST_SLICES or not _two_clusters(slices, least=_DWELL):
        return False
    high = slices > _cut(slices)
    stays = 1 + int(np.sum(high[1:] != high[:-1]))
    return len(slices) / stays >= _DWELL


def _two_clusters(values: npt.NDArray[np.float64], *, least: int) -> bool:
    """Whether values are two groups of at least `least`, far apart against their own width."""
    cut = _cut(values)
    low, high = values[values <= cut], values[values > cut]
    if min(len(low), len(high)) < least or not values.mean():
        return False
    gap = float(high.mean() - low.mean())
    width = max(sqrt((low.var() + high.var()) / 2), REPEAT_CV * float(values.mean()) / 2)
    return gap > _MATTERS * values.mean() and gap > _SEPARATION * width


def _cut(values: npt.NDArray[np.float64]) -> float:
    """The threshold that leaves the least variance within both groups (Otsu 1979)."""
    ordered = np.sort(values)
    within = [
        place * ordered[:place].var() + (len(ordered) - place) * ordered[place:].var()
        for place in range(1, len(ordered))
    ]
    return float(ordered[int(np.argmin(within))]) if within else float(ordered[0])
