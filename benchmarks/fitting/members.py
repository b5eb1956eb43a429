"""Parameter sets that fit about as well as the best one, structure included.

Randomise, then optimise (Bardsley and others 2014, SIAM J. Sci. Comput. 36): each member draws what was
held from what is thought of it, moves the targets by their tolerance and the priors by their widths, and
refits. What the numbers determine stays put in all members; what they leave open does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Final

from benchmarks.fitting.fit import TOLERANCE, Free, Held, Recipe, Target, model_of, rounded, solve
from search.physics.cost import predict
from search.physics.model import LIMITS, POSITIVE, PROBABILITIES, CostModel, Kind

MISS: Final = 0.03
"""A member that misses a number by more than this share does not fit about as well."""

TRIES_PER_MEMBER: Final = 8


def members_of(recipe: Recipe, targets: Sequence[Target], *, count: int, seed: int) -> tuple[CostModel, ...]:
    """`count` parameter sets, equally likely; the same arguments give the same ones.

    Args:
        recipe: What is free and what is held, with how sure either is.
        targets: The numbers.
        count: How many to keep.
        seed: Of all draws.

    Raises:
        ValueError: Fewer than `count` fit, of `TRIES_PER_MEMBER` tries each.
    """
    found = [model for _, model in zip(range(count), _fitting(recipe, targets, Random(seed), count), strict=False)]
    if len(found) < count:
        raise ValueError(f"Only {len(found)} of {count * TRIES_PER_MEMBER} drawn recipes of `{recipe.name}` fit.")
    return tuple(found)


def profile(recipe: Recipe, targets: Sequence[Target], name: str, steps: Sequence[float]) -> list[tuple[float, float]]:
    """Root mean square miss when one free parameter is held at each of `steps` and the others are refitted.

    Args:
        recipe: With `name` free.
        targets: The numbers.
        name: The parameter that is held.
        steps: Its values.

    Returns:
        (value, miss) pairs; a miss of 0.01 is 1%. A flat profile is a parameter that the numbers do not determine.
    """
    held = [
        replace(recipe, parameters=MappingProxyType({**recipe.parameters, name: Held(step, Kind.ASSUMED, "profiled")}))
        for step in steps
    ]
    return [
        (step, _miss(model_of(one, solve(one, targets).values), targets)) for step, one in zip(steps, held, strict=True)
    ]


def _fitting(recipe: Recipe, targets: Sequence[Target], rng: Random, count: int) -> Iterator[CostModel]:
    for _ in range(count * TRIES_PER_MEMBER):
        drawn = replace(
            recipe,
            parameters=MappingProxyType({name: _drawn(name, one, rng) for name, one in recipe.parameters.items()}),
        )
        moved = [replace(one, output_tps=one.output_tps * math.exp(TOLERANCE * rng.gauss(0.0, 1.0))) for one in targets]
        try:
            values = solve(drawn, moved).values
        except ValueError:  # this draw does not converge, which is one way not to fit
            continue
        model = model_of(drawn, {name: rounded(value) for name, value in values.items()})
        if max(abs(predict(model, t.config, t.concurrency).output_tps / t.output_tps - 1.0) for t in targets) <= MISS:
            yield model


def _drawn(name: str, parameter: Free | Held, rng: Random) -> Free | Held:
    if isinstance(parameter, Free):
        mean = max(0.1 * parameter.mean, rng.gauss(parameter.mean, parameter.sd))
        return replace(parameter, mean=min(mean, 0.99 * parameter.most))
    if parameter.others:
        return replace(parameter, value=rng.choice((parameter.value, *parameter.others)))
    if parameter.sd is None or parameter.value is None or name in LIMITS:
        return parameter
    return replace(parameter, value=rounded(_inside(name, rng.gauss(parameter.value, parameter.sd))))


def _inside(name: str, value: float) -> float:
    """A value that the model takes: a normal draw may fall below zero, or a probability above one."""
    value = abs(value)
    if name in PROBABILITIES:
        return min(value, 1.0)
    return max(value, 1e-3) if name in POSITIVE else value


def _miss(model: CostModel, targets: Sequence[Target]) -> float:
    errors = [predict(model, t.config, t.concurrency).output_tps / t.output_tps - 1.0 for t in targets]
    return math.sqrt(sum(error**2 for error in errors) / len(errors))
