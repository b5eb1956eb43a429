"""Samplers by the name a study file or `--sampler` gives."""

from __future__ import annotations

from collections.abc import Sequence

from search.config import SpecConfig
from search.errors import UsageError
from search.metrics import DEFAULTS, Objectives
from search.model.feasibility import Start
from search.model.observations import Observation
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.frontier import FrontierSampler
from search.samplers.outlook import LaunchCost
from search.spec.samplers import FRONTIER, SAMPLERS, STOCK


def make_sampler(
    name: str,
    *,
    configs: Sequence[SpecConfig],
    seed: int,
    objectives: Objectives = DEFAULTS,
    cost: LaunchCost | None = None,
    earlier: Sequence[Observation] = (),
    earlier_starts: Sequence[Start] = (),
) -> FiniteSpaceSampler:
    """The sampler of a name, over the valid configs of a study.

    Args:
        name: One of `search.spec.samplers.SAMPLERS`.
        configs: All valid configs, canonical.
        seed: Of the study.
        objectives: The axes of the front; only `frontier` looks at them.
        cost: Of a launch; only `frontier` weighs it.
        earlier: Numbers of an earlier study; only `frontier` learns from them.
        earlier_starts: What started there and what did not, likewise.

    Raises:
        UsageError: There is no such sampler.
    """
    if name == FRONTIER:
        return FrontierSampler(
            configs=configs, seed=seed, objectives=objectives, cost=cost, earlier=earlier, earlier_starts=earlier_starts
        )
    if name not in STOCK:
        raise UsageError(f"`--sampler` takes one of {', '.join(SAMPLERS)}, but got {name!r}.")
    return FiniteSpaceSampler(STOCK[name], configs=configs, seed=seed)
