"""The value of one config with its uncertainty: where the mean of many further starts would come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from search.stats._prompts import apart
from search.stats._variances import half_width, satterthwaite
from search.stats.readings import Reading, start_means, usable
from search.stats.scatter import Scatter

_LARGEST = 700.0


@dataclass(frozen=True, slots=True)
class Level:
    """A value in the readings' unit and the ends of its 95% interval; `assumed` as in `Comparison`."""

    value: float
    lo: float
    hi: float
    assumed: bool


def level_of(readings: Sequence[Reading], scatter: Scatter) -> Level | None:
    """Geometric mean over starts, each counting alike; None without a usable reading.

    Its interval holds scatter between starts and repeats and, where prompts are known, what other prompts would do.

    Args:
        readings: Of one config, one metric and concurrency, one set of prompts.
        scatter: Pooled over the study.
    """
    kept = usable(readings)
    if not kept:
        return None
    means = start_means(kept).values()
    count = len(means)
    scatter = scatter.beside(kept)
    spread = scatter.across(1 / count, sum(mean.inverse for mean in means) / count**2)
    half = min(half_width(satterthwaite([spread, apart(kept)])), _LARGEST)
    value = exp(sum(mean.log_value for mean in means) / count)
    return Level(value, value * exp(-half), value * exp(half), scatter.assumed)
