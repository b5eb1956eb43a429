"""Samplers by the name a study file or `--sampler` gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from search.config import SpecConfig
from search.errors import UsageError
from search.metrics import DEFAULTS, Objectives
from search.samplers import finite
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.frontier import FrontierSampler
from search.samplers.matching import EarlierTable
from search.samplers.outlook import LaunchCost

SAMPLERS: Final = ("frontier", *finite.STOCK)
"""Names that `make_sampler` takes: our own, then the stock ones."""


def make_sampler(
    name: str,
    *,
    configs: Sequence[SpecConfig],
    seed: int,
    objectives: Objectives = DEFAULTS,
    cost: LaunchCost | None = None,
    tables: Sequence[EarlierTable] = (),
) -> FiniteSpaceSampler:
    """The sampler a study file or `--sampler` names.

    Args:
        name: One of `SAMPLERS`.
        configs: All valid configs, canonical.
        seed: Of the study.
        objectives: The axes of the front; only `frontier` looks at them.
        cost: Of a launch; only `frontier` weighs it.
        tables: Of earlier studies; only `frontier` learns from them.

    Raises:
        UsageError: There is no such sampler.
    """
    if name == "frontier":
        return FrontierSampler(configs=configs, seed=seed, objectives=objectives, cost=cost, tables=tables)
    if name not in finite.STOCK:
        raise UsageError(f"`--sampler` takes one of {', '.join(SAMPLERS)}, but got {name!r}.")
    return finite.make_sampler(name, configs=configs, seed=seed)
