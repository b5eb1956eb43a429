"""Variances that are themselves estimates, and Student's t."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, sqrt
from typing import NamedTuple

from scipy import special


class Uncertain(NamedTuple):
    """A variance and the degrees of freedom that it is known with."""

    variance: float
    freedom: float


def satterthwaite(parts: Iterable[Uncertain]) -> Uncertain:
    """The sum of independent variances with its effective degrees of freedom; parts of zero count for nothing."""
    kept = [part for part in parts if part.variance]
    total = sum(part.variance for part in kept)
    below = sum(part.variance**2 / part.freedom for part in kept if part.freedom < inf)
    return Uncertain(total, total**2 / below if below else inf)


def half_width(estimate: Uncertain, level: float = 0.95) -> float:
    """Half of the two-sided interval, in logarithms; infinite without degrees of freedom."""
    if not estimate.freedom:
        return inf
    return quantile(estimate.freedom, (1 + level) / 2) * sqrt(estimate.variance)


def quantile(freedom: float, share: float) -> float:
    """Of Student's t; of the normal distribution where degrees of freedom are infinite."""
    return float(special.ndtri(share) if freedom == inf else special.stdtrit(freedom, share))


def upper_tail(statistic: float, freedom: float) -> float:
    """Chance that Student's t exceeds `statistic`."""
    return float(special.ndtr(-statistic) if freedom == inf else special.stdtr(freedom, -statistic))


def corrected(factor: float, repeats: float, *, square: Uncertain, inverse: float, repeat: Uncertain) -> Uncertain:
    """Variance of a difference from a mean square whose starts had more or fewer repeats than those compared.

    Args:
        factor: Of the variance of a start.
        repeats: Of the variance of a repeat.
        square: Mean square of starts: estimates between² + `inverse` * within².
        inverse: Mean of 1 / repeats in it.
        repeat: Mean square of repeats.
    """
    if not square.freedom:
        return Uncertain(0.0, 0.0)
    base = factor * square.variance
    bound = base * repeats / (factor * inverse)  # were all of it scatter of repeats
    extra = (repeats - factor * inverse) * repeat.variance
    if not repeat.freedom:
        return Uncertain(max(base, bound), square.freedom)
    if base + extra <= min(base, bound):
        return Uncertain(min(base, bound), square.freedom)
    total = base + extra
    return Uncertain(total, total**2 / (base**2 / square.freedom + extra**2 / repeat.freedom))


def wider(own: Uncertain, prior: Uncertain) -> Uncertain:
    """The wider of what data show and of data with the prior."""
    if not own.freedom:
        return prior
    freedom = own.freedom + prior.freedom
    both = Uncertain((own.freedom * own.variance + prior.freedom * prior.variance) / freedom, freedom)
    return max(own, both, key=half_width)
