"""Two-dimensional hypervolume: exact, and its exact expected improvement by one uncertain point.

Both axes are to be made large; a time counts as its negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats: TypeAlias = NDArray[np.float64]


def front_of(points: Floats) -> NDArray[np.int_]:
    """Indices of the points that no other dominates, by falling first axis; of equal points the first."""
    order = np.lexsort((np.arange(len(points)), -points[:, 1], -points[:, 0]))
    kept: list[int] = []
    best = -np.inf
    for place in order:
        if points[place, 1] > best:
            kept.append(int(place))
            best = points[place, 1]
    return np.array(kept, dtype=int)


def hypervolume(points: Floats, reference: Floats) -> float:
    """Area that the points dominate above the reference."""
    above = points[np.all(points > reference, axis=1)]
    area, height = 0.0, float(reference[1])
    for place in front_of(above):
        first, second = above[place]
        area += (first - reference[0]) * (second - height)
        height = float(second)
    return float(area)


def expected_improvement(front: Floats, reference: Floats, mean: Floats, sd: Floats) -> Floats:
    """Expected growth of the hypervolume by one more point, exact for independent Gaussian axes.

    The region not yet dominated is cut into one strip per front point, along the second axis. In a strip
    from `low` to `high` that reaches from `edge` to infinity on the first axis, the growth is the
    product of `max(0, x - edge)` and the part of the strip below `y`; expectations of products of
    independent variables are products (Emmerich, Deutz and Klinkenberg 2011).

    Args:
        front: Points above the reference, shape (m, 2); dominated ones do no harm.
        reference: Shape (2,).
        mean: Of the candidates, shape (n, 2).
        sd: The same shape, positive.

    Returns:
        Shape (n,).
    """
    return _strips(
        front,
        reference,
        lambda edge: _excess(edge, mean[:, 0], sd[:, 0]),
        lambda edge: _excess(edge, mean[:, 1], sd[:, 1]),
    )


def expected_improvement_lognormal(
    front: Floats,
    reference: Floats,
    log_mean: Floats,
    log_sd: Floats,
    *,
    signs: tuple[int, int] = (-1, 1),
    ceilings: tuple[float | None, float | None] = (None, None),
) -> Floats:
    """As `expected_improvement`, in natural units: a time is to be made small, a rate or a share large.

    Exact where the logarithms of both are independent Gaussians: the expected shortfall of a
    log-normal time below an edge, and excess of a log-normal rate above one, have closed forms.

    Args:
        front: Points such as (-time, rate), shape (m, 2).
        reference: One such point.
        log_mean: Of the logarithms of both values, shape (n, 2).
        log_sd: The same shape, positive.
        signs: -1 for an axis to be made small, whose points are negative; 1 for one to be made large.
        ceilings: The largest value of an axis to be made large, such as 1 for a share: more is worth no more.

    Returns:
        Shape (n,), in the product of both units.
    """

    def excess(axis: int) -> Callable[[float], Floats]:
        mean, sd, ceiling = log_mean[:, axis], log_sd[:, axis], ceilings[axis]
        if signs[axis] < 0:
            return lambda edge: _short_of(-edge, mean, sd)
        if ceiling is None:
            return lambda edge: _above(edge, mean, sd)
        return lambda edge: np.maximum(_above(edge, mean, sd) - _above(ceiling, mean, sd), 0.0)

    return _strips(front, reference, excess(0), excess(1))


def _strips(
    front: Floats, reference: Floats, first: Callable[[float], Floats], second: Callable[[float], Floats]
) -> Floats:
    """Sum over the strips; `first` and `second` give E[max(0, X - edge)] of each candidate on their axis."""
    above = front[np.all(front > reference, axis=1)]
    kept = above[front_of(above)]  # falling first axis, rising second axis
    edges = np.concatenate([kept[:, 0], [reference[0]]])
    reach = second(float(reference[1]))
    result = np.zeros(len(reach))
    for edge, high in zip(edges, [*kept[:, 1], None], strict=True):
        beyond = second(float(high)) if high is not None else np.zeros(len(reach))
        result += first(float(edge)) * (reach - beyond)
        reach = beyond
    return np.asarray(result)


def _excess(edge: float, mean: Floats, sd: Floats) -> Floats:
    """E[max(0, X - edge)] of a Gaussian."""
    z = (mean - edge) / sd
    return np.asarray((mean - edge) * ndtr(z) + sd * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi))


def _above(edge: float, mean: Floats, sd: Floats) -> Floats:
    """E[max(0, X - edge)] of a log-normal X; `edge` is positive."""
    z = (mean - np.log(edge)) / sd
    return np.asarray(np.exp(mean + 0.5 * sd**2) * ndtr(z + sd) - edge * ndtr(z))


def _short_of(edge: float, mean: Floats, sd: Floats) -> Floats:
    """E[max(0, edge - X)] of a log-normal X; `edge` is positive."""
    z = (np.log(edge) - mean) / sd
    return np.asarray(edge * ndtr(z) - np.exp(mean + 0.5 * sd**2) * ndtr(z - sd))
