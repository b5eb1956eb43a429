"""Which measured configs a belief is given once there are many: its work grows with the cube of their number.

A dominated config far from the front says little that its neighbours do not say. Kept are the baselines, the
configs nearest the front of what was measured, and as many again spread over the space, so that no region is
forgotten (a subset of data chosen by distance; Quiñonero-Candela and Rasmussen 2005 on why one suffices where data
are dense).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig
from search.metrics import Direction, Objective, Objectives
from search.model.belief import Prior
from search.model.observations import Observation
from search.samplers.hypervolume import front_of

Floats: TypeAlias = NDArray[np.float64]

MOST_CONFIGS: Final = 120
"""Of this study, whose numbers the belief is given; an ask costs as much with 1,000 measured as with these."""
_NEAR_FRONT: Final = 0.5
"""Share of them that lies nearest the front."""
_DIRECTIONS: Final = 33


def kept_configs(
    prior: Prior, observations: Sequence[Observation], objectives: Objectives, *, most: int = MOST_CONFIGS
) -> set[SpecConfig]:
    """The configs of a study whose numbers are used; all of them up to `most`.

    Args:
        prior: Knows the space and which configs are alike.
        observations: Of the study itself.
        objectives: Of the study.
        most: How many; where the front itself holds more, all of that.
    """
    loads = {axis.concurrency for axis in objectives}
    seen: dict[int, dict[SpecConfig, Observation]] = {load: {} for load in loads}
    every: dict[SpecConfig, None] = {}
    for item in observations:
        if item.config in prior.index:
            every[item.config] = None
            if item.load in loads:
                seen[item.load][item.config] = item
    if len(every) <= most:
        return set(every)
    configs = list(every)
    points = np.stack([_merits(axis, configs, seen[axis.concurrency]) for axis in objectives], axis=1)
    chosen = {place for place, config in enumerate(configs) if not config.speculates}
    whole = np.flatnonzero(np.isfinite(points).all(axis=1))
    if len(whole):
        front = whole[front_of(points[whole])]
        near = whole[np.argsort(_ranks(points[whole]), kind="stable")]
        chosen |= set(front.tolist()) | set(near[: int(_NEAR_FRONT * most)].tolist())
    places = np.array([prior.index[config] for config in configs])
    _spread(prior, places, chosen, most)
    return {configs[place] for place in chosen}


def _merits(axis: Objective, configs: Sequence[SpecConfig], seen: Mapping[SpecConfig, Observation]) -> Floats:
    """Logarithms of an objective's values, more being better; not a number where it was not measured."""
    if axis.link is not None:
        scale, power = axis.link
        paces = np.array([seen[config].pace_ms if config in seen else np.nan for config in configs])
        logs = np.log(scale) + power * np.log(paces)
    else:
        name, floor = axis.metric.name, axis.metric.floor
        values = [seen[config].value_of(name) if config in seen else None for config in configs]
        logs = np.log([np.nan if one is None else max(one.value, floor) for one in values])
    return np.asarray(logs if axis.direction is Direction.MAXIMIZE else -logs)


def _ranks(points: Floats) -> Floats:
    """The best place of each point over several ways to weigh the axes against each other."""
    span = np.ptp(points, axis=0)
    short = (points.max(axis=0) - points) / np.where(span > 0, span, 1.0)
    best = np.full(len(points), np.inf)
    for share in np.linspace(0.02, 0.98, _DIRECTIONS):
        order = np.argsort(np.maximum(short[:, 0] * share, short[:, 1] * (1.0 - share)), kind="stable")
        rank = np.empty(len(points))
        rank[order] = np.arange(len(points))
        best = np.minimum(best, rank)
    return best


def _spread(prior: Prior, places: NDArray[np.int_], chosen: set[int], most: int) -> None:
    """Add the config least like all chosen ones until there are `most`."""
    nearest = np.full(len(places), -np.inf)
    if chosen:
        nearest = prior.kernel(places[sorted(chosen)], places).max(axis=0)
    while len(chosen) < most:
        nearest[sorted(chosen)] = np.inf
        place = int(np.argmin(nearest))
        chosen.add(place)
        nearest = np.maximum(nearest, prior.kernel(places[[place]], places)[0])
