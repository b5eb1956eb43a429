"""Exact expected hypervolume improvement of two independent Gaussians, vectorised over candidates.

Both axes are minimised here. The improvement of a point over a front splits into strips along the
first axis; in each the gain is a width times a height, and the two are independent, so their
expectations multiply (Emmerich et al. 2011; the strip form of Yang et al. 2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]


def below(limit: Array, mean: Array, spread: Array) -> Array:
    """`E[max(limit - Y, 0)]` of a Gaussian `Y`; 0 for a limit of minus infinity."""
    with np.errstate(invalid="ignore"):
        z = (limit - mean) / spread
        density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        value = (limit - mean) * ndtr(z) + spread * density
    return np.where(np.isneginf(limit), 0.0, value)


def nondominated(points: Array) -> Array:
    """The points no other beats, sorted by the first axis; shape (n, 2) to (m, 2)."""
    kept: list[Array] = []
    for point in points[np.lexsort((points[:, 1], points[:, 0]))]:
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return np.array(kept).reshape(-1, 2)


def expected_improvement(mean: Array, spread: Array, points: Array, reference: Array) -> Array:
    """Expected gain in hypervolume of each candidate.

    Args:
        mean: Of each candidate, shape (n, 2).
        spread: Standard deviations, positive, shape (n, 2).
        points: What is measured, shape (m, 2).
        reference: The worst corner, shape (2,).
    """
    inside = points[(points < reference).all(axis=1)]
    edge = nondominated(inside)
    # Strip i reaches from edge i - 1 to edge i on the first axis; its ceiling is what edge i - 1 left.
    left = np.concatenate(([-np.inf], edge[:, 0]))
    right = np.concatenate((edge[:, 0], [reference[0]]))
    ceiling = np.concatenate(([reference[1]], edge[:, 1]))
    m0, s0 = mean[:, :1], spread[:, :1]
    m1, s1 = mean[:, 1:], spread[:, 1:]
    width = below(right[None, :], m0, s0) - below(left[None, :], m0, s0)
    result: Array = (width * below(ceiling[None, :], m1, s1)).sum(axis=1)
    return result
