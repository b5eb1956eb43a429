"""Two things measured in turn, round after round: their difference, and the smallest one that so many rounds can show.

Rounds go a b, b a, a b, …, so a steady drift adds to one round what it takes from the next. Model (in logarithms):
difference of round i = difference + (-1)^i * drift + noise; two coefficients by least squares, so `rounds - 2` degrees of
freedom. With an even number of rounds both columns are orthogonal and the drift leaves the estimate alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from search.errors import UsageError
from search.stats._variances import quantile

FEWEST_ROUNDS = 4
_POWER = 0.80


@dataclass(frozen=True, slots=True)
class Alternated:
    """`b / a` from rounds in turn.

    Attributes:
        ratio: Geometric mean over rounds.
        lo: Lower end of its 95% interval.
        hi: Upper end of it.
        smallest: Relative difference that an equal number of such rounds would show with a chance of 80%.
        freedom: Degrees of freedom of the interval.
    """

    ratio: float
    lo: float
    hi: float
    smallest: float
    freedom: int


def order_of(rounds: int) -> tuple[str, ...]:
    """`a` and `b` in the order in which they are measured.

    Raises:
        UsageError: The number of rounds is odd or below four.
    """
    if rounds < FEWEST_ROUNDS or rounds % 2:
        raise UsageError(
            f"Rounds must be an even number from {FEWEST_ROUNDS}, so that a drift cancels, but got {rounds}."
        )
    return tuple(letter for number in range(rounds) for letter in ("ab" if number % 2 == 0 else "ba"))


def alternated(a: Sequence[float], b: Sequence[float]) -> Alternated:
    """What rounds in the order of `order_of` show of `b / a`.

    Args:
        a: Its value of each round, positive.
        b: Likewise.
    """
    order_of(len(a))
    gaps = np.array([log(other / one) for one, other in zip(a, b, strict=True)])
    count = len(gaps)
    signs = np.array([1.0, -1.0] * (count // 2))
    gap, drift = float(gaps.mean()), float((gaps * signs).mean())
    left = gaps - gap - drift * signs
    freedom = count - 2
    error = sqrt(float(left @ left) / freedom / count)
    reach = quantile(freedom, 0.975)
    smallest = (reach + quantile(freedom, _POWER)) * error
    return Alternated(exp(gap), exp(gap - reach * error), exp(gap + reach * error), exp(smallest) - 1, freedom)
