"""The samplers that a study file or `--sampler` may name: the one place to add a stock one.

Optuna is imported when a sampler is made, so that reading a study file and printing help stay quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def _tpe(seed: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(multivariate=True, group=True, seed=seed)


def _nsga2(seed: int) -> BaseSampler:
    from optuna.samplers import NSGAIISampler

    # Optuna's default population of 50 would make a whole study one random generation.
    return NSGAIISampler(population_size=10, seed=seed)


def _random(seed: int) -> BaseSampler:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


STOCK: Final[Mapping[str, Callable[[int], BaseSampler] | None]] = {
    "tpe": _tpe,
    "nsga2": _nsga2,
    "random": _random,
    "grid": None,
}
"""Stock samplers by name, made from a seed; `grid` goes through the list in its order and draws nothing."""

FRONTIER: Final = "frontier"
"""Our own, which learns from the model of the server (`search.samplers.frontier`)."""

TRAFFIC: Final = "traffic"
"""The same belief, searching for the one config that serves a study's `traffic` best (`search.samplers.traffic`)."""

SAMPLERS: Final = (FRONTIER, TRAFFIC, *STOCK)
"""All names, the default first."""
