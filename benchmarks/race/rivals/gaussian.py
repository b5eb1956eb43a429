"""A small Gaussian process: Matérn 5/2 with a length per feature, fitted by likelihood with priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

Array = NDArray[np.float64]

JITTER = 1e-8
LENGTH_PRIOR = (math.log(2.0), 0.8)
"""Mean and standard deviation of the logarithm of a length, in units of the feature."""
NOISE_PRIOR = (math.log(0.05), 1.0)
"""The same of the noise, in units of the values' standard deviation."""


def matern(one: Array, other: Array, lengths: Array) -> Array:
    """Correlations between two sets of points, shapes (n, f) and (m, f) to (n, m)."""
    gap = one[:, None, :] / lengths - other[None, :, :] / lengths
    far = np.sqrt(5.0) * np.sqrt(np.maximum((gap * gap).sum(axis=2), 1e-18))
    result: Array = (1.0 + far + far * far / 3.0) * np.exp(-far)
    return result


@dataclass(frozen=True)
class GaussianProcess:
    """A fitted process over standardised values.

    Attributes:
        lengths: Per feature, in units of the feature.
        scale: Standard deviation of the process, in units of the values.
        noise: Standard deviation of a measurement, in units of the values.
    """

    inputs: Array
    lengths: Array
    scale: float
    noise: float
    mean: float
    _factor: Array
    _weights: Array

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the noise-free value at each point."""
        cross = self.scale**2 * matern(points, self.inputs, self.lengths)
        mean = self.mean + cross @ self._weights
        half = solve_triangular(self._factor, cross.T, lower=True)
        variance = self.scale**2 - (half * half).sum(axis=0)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def fit(inputs: Array, values: Array, *, starts: int = 2) -> GaussianProcess:
    """Fit lengths, scale and noise to `values` (shape (n,)) at `inputs` (shape (n, f)); deterministic."""
    center, unit = float(values.mean()), float(values.std()) or 1.0
    target = (values - center) / unit
    features = inputs.shape[1]
    loss = _loss(inputs, target)
    bounds = [(math.log(0.1), math.log(20.0))] * features + [(math.log(0.2), math.log(5.0)), (math.log(0.005), 0.0)]
    best: tuple[float, Array] | None = None
    for start in range(starts):
        first = np.concatenate((np.full(features, math.log((1.0, 3.0, 0.5)[start])), [0.0, math.log(0.05)]))
        found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
        if best is None or found.fun < best[0]:
            best = (float(found.fun), np.asarray(found.x))
    assert best is not None
    lengths, scale, noise = _unpack(best[1])
    factor = cholesky(_covariance(inputs, lengths, scale, noise), lower=True)
    weights = cho_solve((factor, True), target)
    return GaussianProcess(inputs, lengths, scale * unit, noise * unit, center, factor * unit, weights / unit)


def _unpack(theta: Array) -> tuple[Array, float, float]:
    return np.exp(theta[:-2]), float(np.exp(theta[-2])), float(np.exp(theta[-1]))


def _covariance(inputs: Array, lengths: Array, scale: float, noise: float) -> Array:
    result: Array = scale**2 * matern(inputs, inputs, lengths) + (noise**2 + JITTER) * np.eye(len(inputs))
    return result


def _loss(inputs: Array, target: Array) -> Callable[[Array], tuple[float, Array]]:
    """Negative log posterior of the logarithms of lengths, scale and noise, with its gradient."""
    squares = (inputs[:, None, :] - inputs[None, :, :]) ** 2

    def loss(theta: Array) -> tuple[float, Array]:
        lengths, scale, noise = _unpack(theta)
        scaled = squares / lengths**2
        far = np.sqrt(5.0 * np.maximum(scaled.sum(axis=2), 1e-18))
        decay = np.exp(-far)
        plain = scale**2 * (1.0 + far + far * far / 3.0) * decay
        covariance = plain + (noise**2 + JITTER) * np.eye(len(target))
        factor = cholesky(covariance, lower=True)
        weights = cho_solve((factor, True), target)
        value = 0.5 * float(target @ weights) + float(np.log(np.diag(factor)).sum())
        inner = cho_solve((factor, True), np.eye(len(target))) - np.outer(weights, weights)
        slope = scale**2 * (5.0 / 3.0) * (1.0 + far) * decay
        by_length = 0.5 * np.einsum("ij,ij,ijf->f", inner, slope, scaled)
        by_scale = float((inner * plain).sum())
        by_noise = float(np.trace(inner)) * noise**2
        off_length = (theta[:-2] - LENGTH_PRIOR[0]) / LENGTH_PRIOR[1] ** 2
        off_scale = theta[-2]
        off_noise = (theta[-1] - NOISE_PRIOR[0]) / NOISE_PRIOR[1] ** 2
        value += 0.5 * float(
            (off_length**2).sum() * LENGTH_PRIOR[1] ** 2 + off_scale**2 + off_noise**2 * NOISE_PRIOR[1] ** 2
        )
        gradient = np.concatenate((by_length + off_length, [by_scale + off_scale, by_noise + off_noise]))
        return value, gradient

    return loss
