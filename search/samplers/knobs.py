"""Configs as Optuna parameters: distributions, lookup of a proposal, distance between configs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from optuna.distributions import CategoricalDistribution

from search.config import CORE_KNOBS, TREE_KNOBS, KnobValue, SpecConfig

Params = Mapping[str, KnobValue]


def distributions_of(configs: Iterable[SpecConfig]) -> dict[str, CategoricalDistribution]:
    """One categorical distribution per knob, over the values it has in `configs`.

    `off` appears as a value of `spec_version` and has no part in the tree knobs. Values are
    sorted, so equal spaces have equal distributions; Optuna refuses changed ones.
    """
    values: dict[str, set[KnobValue]] = {}
    for config in configs:
        for name, value in config.params.items():
            values.setdefault(name, set()).add(value)
    order = [*CORE_KNOBS, *sorted(values.keys() - set(CORE_KNOBS))]
    return {
        name: CategoricalDistribution(sorted(values[name], key=lambda value: (isinstance(value, str), value)))
        for name in order
        if name in values
    }


def view_distributions_of(configs: Iterable[SpecConfig]) -> dict[str, CategoricalDistribution]:
    """As `distributions_of`, with None for an optional knob that a config leaves at its default.

    So every config has every parameter, and a joint model can propose the default too.
    """
    known = tuple(configs)
    space = distributions_of(known)
    for name, distribution in space.items():
        if any(name not in config.params for config in known):
            space[name] = CategoricalDistribution((None, *distribution.choices))
    return space


def key_of(params: Params) -> tuple[tuple[str, KnobValue], ...]:
    """A proposal's identity. With topk 1 the server sets the draft tokens, so they do not count."""
    ignored = "num_draft_tokens" if params.get("topk") == 1 else ""
    return tuple(sorted((name, value) for name, value in params.items() if name != ignored))


def distance(one: Params, other: Params) -> float:
    """How unlike two proposals are: doublings apart in each number, 1 for each differing word.

    A knob that only one of them has counts 1.
    """
    total = 0.0
    for name in sorted(one.keys() | other.keys()):
        first, second = one.get(name), other.get(name)
        if name in TREE_KNOBS and first is not None and second is not None:
            low, high = sorted((int(first), int(second)))
            total += math.log2(high / low)
        elif first != second:
            total += 1.0
    return total


def nearest(params: Params, configs: Sequence[SpecConfig]) -> SpecConfig:
    """The config nearest to a proposal; the earlier one of equals."""
    return min(configs, key=lambda config: distance(params, config.params))
