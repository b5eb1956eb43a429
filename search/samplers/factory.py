"""Samplers by the name a study file or `--sampler` gives."""

from __future__ import annotations

from collections.abc import Sequence

from search.config import SpecConfig
from search.errors import UsageError
from search.metrics import DEFAULTS, Objectives, Traffic
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.frontier import FrontierSampler
from search.samplers.matching import EarlierTable
from search.samplers.outlook import LaunchCost
from search.samplers.traffic import TrafficSampler
from search.spec.samplers import FRONTIER, SAMPLERS, STOCK, TRAFFIC


def make_sampler(
    name: str,
    *,
    configs: Sequence[SpecConfig],
    seed: int,
    objectives: Objectives = DEFAULTS,
    cost: LaunchCost | None = None,
    tables: Sequence[EarlierTable] = (),
    traffic: Traffic | None = None,
) -> FiniteSpaceSampler:
    """The sampler of a name, over the valid configs of a study.

    Args:
        name: One of `search.spec.samplers.SAMPLERS`.
        configs: All valid configs, canonical.
        seed: Of the study.
        objectives: The axes of the front; only `frontier` looks at them.
        cost: Of a launch; only `frontier` weighs it.
        tables: Of earlier studies; only `frontier` learns from them.
        traffic: Of the study; only `traffic` needs it.

    Raises:
        UsageError: There is no such sampler.
    """
    if name == TRAFFIC and traffic is not None:
        return TrafficSampler(traffic, configs=configs, seed=seed, objectives=objectives, cost=cost, tables=tables)
    if name == TRAFFIC:
        raise UsageError(
            f"The sampler {TRAFFIC!r} searches for a study's `traffic`, but there is none. Write it into the study file."
        )
    if name == FRONTIER:
        return FrontierSampler(configs=configs, seed=seed, objectives=objectives, cost=cost, tables=tables)
    if name not in STOCK:
        raise UsageError(f"`--sampler` takes one of {', '.join(SAMPLERS)}, but got {name!r}.")
    return FiniteSpaceSampler(STOCK[name], configs=configs, seed=seed)
