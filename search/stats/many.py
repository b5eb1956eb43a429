"""Many comparisons at once: chances that hold for all of them together.

Gains over one baseline share that baseline's luck. With equal configs the statistics are multivariate t with
correlations λᵢλⱼ, λᵢ² being the baseline's part of the variance (Dunnett 1955), so the chance that the largest
exceeds a bound is a double integral, taken here by Gauss quadrature. Testing the largest first and each next one
among those that are left is the closed test of all of them (Marcus, Peritz and Gabriel 1976): the chance of any false
claim stays at the level whichever of them are equal, and costs less than dividing the level by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]

_SHARED_LUCK = 32
"""Nodes of the integral over the baseline's luck."""
_SCALE = 64
"""Nodes of the integral over how well the variance is known."""


def max_t_tail(statistic: float, shared: Sequence[float], freedom: float) -> float:
    """Chance that the largest of several t statistics against one baseline exceeds `statistic`, were all configs equal.

    Args:
        statistic: Of the comparison in question.
        shared: The baseline's part of the variance of each comparison, 0 to 1.
        freedom: Degrees of freedom of the variance they have in common.
    """
    nodes, weights = _luck()
    scales, chances = _scales(freedom)
    part = np.clip(np.asarray(shared, dtype=float), 0.0, 0.999)[:, None, None]
    inner = (statistic * scales[None, :, None] - np.sqrt(part) * nodes) / np.sqrt(1 - part)
    below = special.ndtr(inner).prod(axis=0) @ weights
    return float(min(1.0, max(0.0, 1 - chances @ below)))


def step_down(
    statistics: Sequence[float], shared: Sequence[float], freedom: float, *, enough: float = 1.0
) -> list[float]:
    """One-sided adjusted p-values of gains over one baseline, in the order given; see the module.

    Args:
        statistics: t statistics of the gains; large ones speak for a gain.
        shared: See `max_t_tail`.
        freedom: Likewise; the least of the comparisons' own.
        enough: Those above it are not worth their integral: once one is, it and all that follow count as 1.
    """
    order = sorted(range(len(statistics)), key=lambda place: -statistics[place])
    adjusted = [1.0] * len(statistics)
    worst = 0.0
    for rank, place in enumerate(order):
        left = [shared[other] for other in order[rank:]]
        worst = max(worst, max_t_tail(statistics[place], left, freedom))
        if worst > enough:
            break
        adjusted[place] = worst
    return adjusted


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values whatever the dependence (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    worst = 0.0
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = worst
    return adjusted


@lru_cache(maxsize=1024)
def modulus_quantile(count: int, freedom: float, level: float = 0.95) -> float:
    """Bound that all of `count` independent t statistics of one variance keep, either way, with chance `level`.

    The studentized maximum modulus; for correlated ones it is on the safe side (Sidak 1967).
    """
    scales, chances = _scales(freedom)
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        held = float(chances @ (2 * special.ndtr(middle * scales) - 1) ** count)
        low, high = (middle, high) if held < level else (low, middle)
    return high


@lru_cache(maxsize=1)
def _luck() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SHARED_LUCK)
    return nodes, weights / weights.sum()


@lru_cache(maxsize=1024)
def _scales(freedom: float) -> tuple[Floats, Floats]:
    """Estimated / true standard deviation at quadrature nodes, and their weights."""
    if freedom == inf:
        return np.ones(1), np.ones(1)
    nodes, weights = np.polynomial.legendre.leggauss(_SCALE)
    shares = (nodes + 1) / 2
    return np.sqrt(2 * special.gammaincinv(freedom / 2, shares) / freedom), weights / 2
