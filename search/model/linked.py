"""Belief about a metric that is no rate: time to first token, end-to-end latency, goodput.

The belief of `search.model.belief` knows what a pass costs and what drafts bring, so it predicts the pace of a
load: milliseconds per token. Other metrics are modelled on top of it, in logarithms: level + slope times log pace,
plus a Gaussian-process residual on the kernel that knows the tree. All of it is one closed-form Gaussian
regression; the residual's scale is chosen by its evidence.

What this is and is not: no physics of queues, prefills or limits stands behind it. The slope's prior comes from
the metric (`Metric.pays`), wide enough to be overruled by a few launches. A share within limits falls off a cliff
where the limit is met, which a straight line in logarithms describes badly: expect wide bands near the cliff, and
nothing beyond the metric's ceiling. Repeats of one launch show the noise; where there is one repeat, the
typical noise of the pace is doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky

from search.metrics import Objective
from search.model.belief import Belief
from search.model.observations import Observation
from search.model.rows import TYPICAL_NOISE

Floats: TypeAlias = NDArray[np.float64]

_SLOPE_SD: Final = 0.7
"""How far the slope may be from what the metric says, one standard deviation."""
_LEVEL: Final = 4.0
"""Of the logarithm at the level of all that was seen; before anything was, nothing is known of it."""
_RESIDUALS: Final = (0.003, 0.03, 0.1, 0.3)
"""Scales of the residual that the measurements choose among."""


@dataclass(frozen=True)
class Axis:
    """What is believed of one objective, for each component of the belief's mixture.

    Attributes:
        mean: Of the logarithm of the value, shape (components, configs).
        sd: Its standard deviation, the same shape.
        noise: Of one launch, relative: how far the mean over its repeats lies from the truth.
    """

    mean: Floats
    sd: Floats
    noise: float


def axis_of(objective: Objective, belief: Belief, observations: Sequence[Observation]) -> Axis:
    """The objective's own axis: the pace in other units where it is that, else a regression on it.

    Args:
        objective: To be predicted.
        belief: About the pace, given the same observations.
        observations: Of which those at the objective's concurrency that hold its metric are used.
    """
    at = belief.prior.load_index(objective.concurrency)
    link = objective.link
    if link is None:
        return _regressed(objective, belief, observations)
    scale, power = link
    mean = belief.mean[:, :, at] if power > 0 else np.log(scale) - belief.mean[:, :, at]
    return Axis(mean if power < 0 or scale == 1.0 else np.log(scale) + mean, belief.sd[:, :, at], belief.noise[at])


def value_of_pace(objective: Objective, log_pace: Floats) -> Floats:
    """The objective's value where it is the pace in other units, see `Objective.link`."""
    assert objective.link is not None
    scale, power = objective.link
    return scale * np.exp(log_pace) if power > 0 else scale / np.exp(log_pace)


def _regressed(objective: Objective, belief: Belief, observations: Sequence[Observation]) -> Axis:
    """Gaussian regression of log values on log paces, per component of the belief."""
    index, floor = belief.prior.index, objective.metric.floor
    seen = [
        (index[item.config], value, item.weight)
        for item in observations
        if item.load == objective.concurrency and item.config in index
        if (value := item.value_of(objective.metric.name)) is not None
    ]
    at = belief.prior.load_index(objective.concurrency)
    pays = objective.metric.pays
    shape = belief.mean[:, :, at].shape
    if not seen:
        sd = np.hypot(pays * belief.sd[:, :, at], _LEVEL)
        return Axis(pays * belief.mean[:, :, at], np.broadcast_to(sd, shape), 2.0 * TYPICAL_NOISE)
    places = np.array([place for place, _, _ in seen], dtype=int)
    values = np.log([max(value.value, floor) for _, value, _ in seen])
    spreads = [value.relative_sd for _, value, _ in seen if value.relative_sd is not None]
    # A handful of spreads says little: they are drawn towards the typical one.
    noise = float(np.sqrt((3 * (2 * TYPICAL_NOISE) ** 2 + np.sum(np.square(spreads))) / (3 + len(spreads))))
    weights = np.array([weight for _, _, weight in seen])
    variance = noise**2 / weights + np.where(weights < 1.0, 0.1**2 * (1.0 - weights) / weights, 0.0)
    every = np.arange(shape[1])
    near = belief.prior.kernel(every, places)
    means, sds = np.empty(shape), np.empty(shape)
    for part in range(shape[0]):
        pace, sd = belief.mean[part, :, at], belief.sd[part, :, at]
        means[part], sds[part] = _posterior(pace, sd, places, values, variance, near, pays)
    if objective.metric.ceiling is not None:
        means = np.minimum(means, float(np.log(objective.metric.ceiling)))
    return Axis(means, sds, noise)


def _posterior(
    pace: Floats,
    sd: Floats,
    places: NDArray[np.int_],
    values: Floats,
    variance: Floats,
    near: Floats,
    pays: float,
) -> tuple[Floats, Floats]:
    """Mean and deviation of the log value of every config, mixed over the residual's scales.

    Args:
        pace: Mean log pace of every config, shape (configs,).
        sd: Its standard deviation.
        places: Configs that were seen, shape (n,).
        values: Their log values.
        variance: Of the noise in them.
        near: Likeness of every config to the seen ones, shape (configs, n).
        pays: Prior mean of the slope.
    """
    centre = pace[places].mean()
    left = values - pays * (pace[places] - centre)
    level = left.mean()
    left = left - level
    x, seen = pace - centre, pace[places] - centre
    among = near[places]
    weights, means, seconds = [], [], []
    for scale in _RESIDUALS:
        # What the pace itself is unsure of, is unsure here too, by the slope.
        own = (pays * sd[places]) ** 2
        covariance = _LEVEL**2 + _SLOPE_SD**2 * np.outer(seen, seen) + scale**2 * among + np.diag(variance + own)
        factor = cholesky(covariance, lower=True)
        pull = cho_solve((factor, True), left)
        weights.append(-0.5 * left @ pull - np.log(np.diag(factor)).sum())
        cross = _LEVEL**2 + _SLOPE_SD**2 * np.outer(x, seen) + scale**2 * near
        mean = level + pays * x + cross @ pull
        prior = _LEVEL**2 + (_SLOPE_SD * x) ** 2 + scale**2
        gone = np.einsum("cn,nc->c", cross, cho_solve((factor, True), cross.T))
        means.append(mean)
        seconds.append(np.maximum(prior - gone, 1e-10) + (pays * sd) ** 2 + mean**2)
    shares = np.exp(np.array(weights) - max(weights))
    shares /= shares.sum()
    mean = shares @ np.stack(means)
    return mean, np.sqrt(np.maximum(shares @ np.stack(seconds) - mean**2, 1e-10))
