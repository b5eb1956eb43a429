"""What a fitted cost model leaves open: bands over the parameter sets that fit about as well.

The noise of a simulated measurement says nothing about whether the model is right. The members do: each
refits the free parameters with its own draw of what was held, assumed or chosen, so a band is as wide as
forms of about equal fit disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from search.config import SpecConfig
from search.physics.cost import predict
from search.physics.model import CostModel, Physics

SHARE = 0.9
"""Of the members inside a band."""


@dataclass(frozen=True, slots=True)
class Band:
    """A value of the fitted model and the central `SHARE` of its members."""

    value: float
    low: float
    high: float


def rate_band(
    physics: Physics, config: SpecConfig, concurrency: int, *, running_limit: int | None = None
) -> Band | None:
    """Output tokens per second of a config at a load; None without members.

    Args:
        physics: With its members.
        config: Any config, measured or not.
        concurrency: Requests kept in flight.
        running_limit: What the study's servers admit.
    """

    def rate(model: CostModel) -> float:
        return predict(model, config, concurrency, running_limit=running_limit).output_tps

    return _band(physics, rate)


def ratio_band(
    physics: Physics, config: SpecConfig, other: SpecConfig, concurrency: int, *, running_limit: int | None = None
) -> Band | None:
    """Rate of `config` / rate of `other` at a load, 1.1 for 10% faster; None without members.

    Narrower than the two bands suggest, because what a member gets wrong it mostly gets wrong of both.

    Args:
        physics: With its members.
        config: The numerator.
        other: The denominator, such as a baseline.
        concurrency: Requests kept in flight.
        running_limit: What the study's servers admit.
    """

    def ratio(model: CostModel) -> float:
        here, there = (
            predict(model, which, concurrency, running_limit=running_limit).output_tps for which in (config, other)
        )
        return here / there

    return _band(physics, ratio)


def _band(physics: Physics, of: Callable[[CostModel], float]) -> Band | None:
    if not physics.members:
        return None
    value, values = of(physics.model), sorted(of(member) for member in physics.members)
    low, high = (_quantile(values, (1 + sign * SHARE) / 2) for sign in (-1, 1))
    return Band(value, min(low, value), max(high, value))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between neighbours, as numpy's default; without its import."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
