"""Which configs start at all: learned from launches that failed through the config's own fault.

The prior is an ensemble of invented deployments, as for times: each has a memory edge (more tokens,
wider and deeper trees, buffers of a knob: never less memory), or none, and a few odd rules
("v1 with this knob crashes"), or none. Draws that explain successes and failures keep their weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig
from search.model.mechanisms import knob_values

Floats: TypeAlias = NDArray[np.float64]

_DRAWS: Final = 4000
_SLIP: Final = 0.05
"""Chance of a failure that no rule explains, and of a start where a rule says no."""


@dataclass(frozen=True, slots=True)
class Start:
    """Whether a config started.

    Attributes:
        started: False where the config was to blame.
        of_memory: Whether a failure was one of memory; None where not told.
        weight: Below 1 for an earlier study.
    """

    config: SpecConfig
    started: bool
    of_memory: bool | None = None
    weight: float = 1.0


class Feasibility:
    """Chance that each config of a space starts.

    Args:
        configs: Of the space.
        seed: Of the draws.
    """

    def __init__(self, configs: Sequence[SpecConfig], *, seed: int = 0) -> None:
        rng = np.random.default_rng((seed, 21))
        draws = _DRAWS if len(configs) <= 1500 else 600
        self._index: Mapping[SpecConfig, int] = {config: place for place, config in enumerate(configs)}
        self._memory = _memory_rules(configs, draws, rng)
        self._odd = _odd_rules(configs, draws, rng)

    def probability(self, starts: Sequence[Start]) -> Floats:
        """Given what started and what did not, shape (configs,)."""
        log_weight = np.zeros(len(self._memory))
        known: dict[int, bool] = {}
        for start in starts:
            place = self._index.get(start.config)
            if place is None:
                continue
            memory, odd = self._memory[:, place], self._odd[:, place]
            if start.started:
                blocked = memory | odd
                chance = np.where(blocked, _SLIP, 1.0 - _SLIP)
            else:
                guilty = memory | odd if start.of_memory is None else memory if start.of_memory else odd
                chance = np.where(guilty, 1.0 - _SLIP, _SLIP)
            log_weight += start.weight * np.log(chance)
            if start.weight == 1.0:
                known[place] = start.started
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        blocked_share = weight @ (self._memory | self._odd)
        result = (1.0 - blocked_share) * (1.0 - _SLIP) + blocked_share * _SLIP
        for place, started in known.items():
            result[place] = 1.0 - _SLIP if started else _SLIP
        return np.asarray(result)


def _memory_rules(configs: Sequence[SpecConfig], draws: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draws x configs: beyond the memory edge. Needs rise in each direction, by how much differs."""
    tokens = np.array([np.log2(config.verify_tokens) for config in configs])
    width = np.array([np.log2(config.topk or 1) for config in configs])
    depth = np.array([np.log2(config.num_steps or 1) for config in configs])
    knobs = np.array([len(knob_values(config)) for config in configs], dtype=float)
    speculates = np.array([config.speculates for config in configs])
    share = rng.dirichlet((2.0, 1.0, 0.7, 0.4), draws)
    need = np.stack([tokens / 7.0, width / 3.0, depth / 2.6, np.minimum(knobs, 1.0)])
    demand = share @ need
    edge = rng.uniform(0.35, 1.5, draws)  # beyond 1, where no config of a usual space reaches it
    return np.asarray((demand > edge[:, None]) & speculates[None, :])


def _odd_rules(configs: Sequence[SpecConfig], draws: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draws x configs: hit by a rule of one or two knob values that no reason in physics explains."""
    facts: dict[tuple[str, object], NDArray[np.bool_]] = {}
    for place, config in enumerate(configs):
        if not config.speculates:
            continue
        for fact in (
            ("spec_version", config.spec_version),
            ("topk", config.topk),
            ("num_steps", config.num_steps),
            ("chain", config.topk == 1),
            ("spare", (config.num_draft_tokens or 0) > (config.num_steps or 0) + 1),
            *knob_values(config),
        ):
            facts.setdefault(fact, np.zeros(len(configs), dtype=bool))[place] = True
    result = np.zeros((draws, len(configs)), dtype=bool)
    every = list(facts.values())
    if not every:
        return result
    # Crashes hang on workers and backends more often than on one depth.
    pull = np.array([1.0 if name in ("topk", "num_steps") else 3.0 for name, _ in facts])
    pull /= pull.sum()
    for draw in range(draws):
        for _ in range(rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1])):
            size = min(len(every), int(rng.choice([1, 2, 3], p=[0.2, 0.55, 0.25])))
            chosen = rng.choice(len(every), size=size, replace=False, p=pull)
            result[draw] |= np.all([every[index] for index in chosen], axis=0)
    return result
