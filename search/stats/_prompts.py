"""What prompts add to the uncertainty of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from search.stats._variances import Uncertain
from search.stats.readings import Reading

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Paired:
    """Two configs on the prompts that every reading of both answered.

    Attributes:
        a: Readings with the mean over those prompts as their value.
        b: Likewise.
        spread: Variance of the logarithm of the ratio that comes from how differently prompts take to the two.
    """

    a: Sequence[Reading]
    b: Sequence[Reading]
    spread: Uncertain


def paired(a: Sequence[Reading], b: Sequence[Reading]) -> Paired | None:
    """Readings reduced to shared prompts; None where fewer than two are shared.

    What makes a prompt slow for both drops out. What is left is the interaction of prompt and config: the variance
    over prompts of the difference of relative times, less what repeats of one prompt differ by.
    """
    if not (a[0].prompts and b[0].prompts):
        return None
    tables = [dict(reading.prompts) for reading in (*a, *b)]
    shared = sorted(set.intersection(*map(set, tables))) if tables else []
    if len(shared) < 2:
        return None
    rows = np.array([[table[name] for name in shared] for table in tables])
    if not np.all(np.isfinite(rows)) or rows.min() <= 0:
        return None
    means = rows.mean(axis=1)
    relative = rows / means[:, None]
    mine, theirs = relative[: len(a)], relative[len(a) :]
    count = len(shared)
    spread = float(np.var(mine.mean(axis=0) - theirs.mean(axis=0), ddof=1)) - _noise(mine, theirs)
    whole = all(len(table) == count for table in tables)
    return Paired(
        a if whole else [_with(reading, float(mean)) for reading, mean in zip(a, means[: len(a)], strict=True)],
        b if whole else [_with(reading, float(mean)) for reading, mean in zip(b, means[len(a) :], strict=True)],
        Uncertain(max(0.0, spread) / count, count - 1),
    )


def apart(readings: Sequence[Reading]) -> Uncertain:
    """Variance of one config's mean that comes from its prompts, for configs that share none; 0 where unknown."""
    logs: dict[str, list[float]] = {}
    for reading in readings:
        for name, value in reading.prompts:
            if value > 0:
                logs.setdefault(name, []).append(log(value))
    means = [sum(mine) / len(mine) for mine in logs.values()]
    if len(means) < 2:
        return Uncertain(0.0, 1)
    return Uncertain(float(np.var(means, ddof=1)) / len(means), len(means) - 1)


def _noise(mine: Floats, theirs: Floats) -> float:
    """Variance of a prompt's difference that repeats of the prompt explain; 0 where none was repeated."""
    squares = sum(float(np.sum((one - one.mean(axis=0)) ** 2)) for one in (mine, theirs))
    freedom = (len(mine) + len(theirs) - 2) * (mine.shape[1] - 1)
    return squares / freedom * (1 / len(mine) + 1 / len(theirs)) if freedom else 0.0


def _with(reading: Reading, value: float) -> Reading:
    return Reading(reading.start, value, reading.place, reading.repeat, reading.slot, reading.prompt_set, reading.fresh)
