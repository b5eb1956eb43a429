"""What the measurements so far cannot separate, and the launch that would.

Two measured configs that differ in more than one way (worker and width, say) give the sum of the
effects, not each. A config that differs from one of them in a single way splits the sum. So every
such in-between config names a pair of rival explanations; the more uncertain its time per token is
still, the less the data separate them, and the more its launch would.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from search.config import CORE_KNOBS, SpecConfig
from search.model.belief import Belief

_WAYS: Final = {
    "spec_version": "worker", "topk": "width", "num_steps": "depth", "num_draft_tokens": "draft tokens",
    "allreduce_fusion": "fusion",
}  # fmt: skip
"""What each knob is called; further knobs go by their own names."""


@dataclass(frozen=True, slots=True)
class Confounded:
    """Effects that two measured configs show only in sum.

    Attributes:
        one: A measured config.
        other: Another one.
        effect: The way in which `launch` differs from `one`, such as `worker`.
        rivals: The other ways in which the two measured ones differ.
        launch: The config that shows `effect` alone; not measured, and allowed to be launched.
        std: Relative standard deviation of the effect at `load`: 0.2 is ±20%.
        load: Concurrency at which the uncertainty is largest.
    """

    one: SpecConfig
    other: SpecConfig
    effect: str
    rivals: tuple[str, ...]
    launch: SpecConfig
    std: float
    load: int

    def __str__(self) -> str:
        return (
            f"{self.one} and {self.other} differ in {self.effect} and {' and '.join(self.rivals)}: what is {self.effect} "
            f"is not known (±{self.std:.0%} at concurrency {self.load}). {self.launch} would show it."
        )


def confounded(
    belief: Belief, measured: Sequence[SpecConfig], *, launchable: Collection[SpecConfig], std_from: float = 0.03
) -> tuple[Confounded, ...]:
    """Effects that the measurements leave confounded, the most uncertain first; each launch once.

    Args:
        belief: Given those measurements.
        measured: Configs with a measurement.
        launchable: Configs that may be launched; locked ones are not proposed.
        std_from: Effects known better than this are known well enough.
    """
    seen = [config for config in dict.fromkeys(measured) if config.speculates and config in belief.prior.index]
    separated = {(way, *_ends(one, other, way)) for one, other in permutations(seen, 2) for way in _alone(one, other)}
    stds = np.stack([belief.std(load) for load in belief.prior.loads], axis=1)
    best: dict[SpecConfig, Confounded] = {}
    for one, other in permutations(seen, 2):
        ways = _differences(one, other)
        if len(ways) < 2:
            continue
        for way in ways:
            launch = _between(one, other, way, launchable)
            if launch is None or launch in seen or (way, *_ends(one, other, way)) in separated:
                continue
            own = np.hypot(stds[belief.prior.index[launch]], stds[belief.prior.index[one]])
            at = int(np.argmax(own))
            found = Confounded(
                one=one,
                other=other,
                effect=_WAYS.get(way, way),
                rivals=tuple(_WAYS.get(rival, rival) for rival in ways if rival != way),
                launch=launch,
                std=float(own[at]),
                load=belief.prior.loads[at],
            )
            rank = (-len(found.rivals), found.std)
            if found.std >= std_from and (launch not in best or rank > (-len(best[launch].rivals), best[launch].std)):
                best[launch] = found
    return tuple(sorted(best.values(), key=lambda item: (-item.std, item.launch.config_id)))


def _knobs(config: SpecConfig) -> dict[str, object]:
    return {"allreduce_fusion": "off", **config.params}


def _differences(one: SpecConfig, other: SpecConfig) -> list[str]:
    """Knobs in which two configs differ; of two chains draft tokens are no further one, since they follow the depth."""
    mine, theirs = _knobs(one), _knobs(other)
    chains = one.topk == other.topk == 1
    names = [name for name in CORE_KNOBS if name != "num_draft_tokens" or not chains]
    names += sorted((mine.keys() | theirs.keys()) - set(CORE_KNOBS))
    return [name for name in names if mine.get(name) != theirs.get(name)]


def _alone(one: SpecConfig, other: SpecConfig) -> list[str]:
    """The way two configs differ, if it is just one."""
    ways = _differences(one, other)
    return ways if len(ways) == 1 else []


def _ends(one: SpecConfig, other: SpecConfig, way: str) -> tuple[object, object]:
    return _knobs(one).get(way), _knobs(other).get(way)


def _between(one: SpecConfig, other: SpecConfig, way: str, allowed: Collection[SpecConfig]) -> SpecConfig | None:
    """The launchable config that differs from `one` in this way alone; its draft tokens as near as the tree allows."""
    free = () if way == "num_draft_tokens" else ("num_draft_tokens",)
    fitting = [
        config
        for config in allowed
        if config.speculates
        and [name for name in _differences(one, config) if name not in free] == [way]
        and _knobs(config).get(way) == _knobs(other).get(way)
    ]
    wanted = one.verify_tokens
    return min(
        fitting, key=lambda config: (abs(np.log2(config.verify_tokens / wanted)), config.config_id), default=None
    )
