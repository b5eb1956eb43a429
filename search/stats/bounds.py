"""How far chance alone takes an estimate, where its variance is an estimate too."""

from __future__ import annotations

from math import inf

from search.stats._variances import Uncertain, half_width


def two_sided(variance: float, level: float, freedom: float = inf) -> float:
    """What an estimate of zero exceeds, either way, with a chance of `level`; infinite without degrees of freedom.

    Args:
        variance: Of the estimate.
        level: Chance, 0.05 for the ends of a 95% interval.
        freedom: Degrees of freedom that the variance is known with.
    """
    return half_width(Uncertain(variance, freedom), 1 - level)
