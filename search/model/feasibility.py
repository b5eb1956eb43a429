"""Which configs start at all: learned from launches that failed through the config's own fault.

Two causes are believed in apart. **Memory**: an ensemble of edges; more tokens, wider and deeper
trees, the overlapped worker and the buffers of a knob never need less of it. **Odd rules** that no
physics explains ("v1 with this knob crashes", "trees cut to a chain's tokens crash"): `rules` lists every
conjunction of a few facts about a config, and none, one or two of them hold. A launch that started speaks against
all edges and rules that would have stopped it; a failure, for those that would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig, SpecVersion
from search.model.mechanisms import knob_values
from search.model.rules import Rules

Floats: TypeAlias = NDArray[np.float64]

_DRAWS: Final = 4000
_SLIP: Final = 0.04
"""Chance of a failure that nothing explains, and of a start where a rule says no."""


@dataclass(frozen=True, slots=True)
class Start:
    """Whether a config started.

    Attributes:
        started: False where the config was to blame.
        of_memory: Whether a failure was one of memory; None where unknown.
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
        self._memory = _memory_edges(configs, draws, rng)
        self._rules = Rules(configs)

    def probability(self, starts: Sequence[Start]) -> Floats:
        """Given what started and what did not, shape (configs,)."""
        inside = [start for start in starts if start.config in self._index]
        explained = [start for start in inside if start.started or start.of_memory is not None]
        memory, odd = self._blocked(explained, np.ones(len(explained)), np.ones(len(explained)))
        if len(explained) < len(inside):
            # Who is to blame where nobody says: each cause as far as it was expected.
            at = [self._index[start.config] for start in inside]
            to_memory = memory[at] / np.maximum(memory[at] + odd[at], 1e-9)
            silent = np.array([not start.started and start.of_memory is None for start in inside])
            memory, odd = self._blocked(
                inside, np.where(silent, to_memory, 1.0), np.where(silent, 1.0 - to_memory, 1.0)
            )
        result = (1.0 - _SLIP) * np.maximum((1.0 - memory) * (1.0 - odd), _SLIP)
        for start in inside:
            if start.weight == 1.0:
                result[self._index[start.config]] = 1.0 - _SLIP if start.started else _SLIP
        return np.asarray(result)

    def _blocked(self, starts: Sequence[Start], to_memory: Floats, to_odd: Floats) -> tuple[Floats, Floats]:
        """Chance that memory, and that a rule, stops each config; the shares say how much each learns from a start."""
        places = np.array([self._index[start.config] for start in starts], dtype=int)
        started = np.array([start.started for start in starts], dtype=bool)
        weight = np.array([start.weight for start in starts], dtype=float)
        of_memory = np.array([start.started or start.of_memory is not False for start in starts], dtype=bool)
        of_rule = np.array([start.started or start.of_memory is not True for start in starts], dtype=bool)
        # By how much likelier the end of each launch is if something stops its config than if nothing does.
        odds = weight * np.where(started, -1.0, 1.0) * float(np.log((1.0 - _SLIP) / _SLIP))
        memory = self._memory[:, places] @ (odds * to_memory * of_memory)
        draws = np.exp(memory - memory.max())
        stopped = np.asarray((draws / draws.sum()) @ self._memory)
        return stopped, self._rules.stops(places, odds * to_odd * of_rule)


def _memory_edges(configs: Sequence[SpecConfig], draws: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draws x configs: beyond the memory edge. Needs rise in each direction, by how much differs."""
    speculates = np.array([config.speculates for config in configs])
    need = np.stack(
        [
            np.array([np.log2(config.verify_tokens) for config in configs]) / 7.0,
            np.array([np.log2(config.topk or 1) for config in configs]) / 3.0,
            np.array([np.log2(config.num_steps or 1) for config in configs]) / 2.6,
            np.array([float(bool(knob_values(config))) for config in configs]),
            np.array([float(config.spec_version is SpecVersion.V2) for config in configs]),
        ]
    )
    share = rng.dirichlet((2.4, 0.8, 0.5, 0.3, 0.3), draws)
    edge = rng.uniform(0.35, 1.5, draws)  # beyond 1, where no config of a usual space reaches it
    return np.asarray((share @ need > edge[:, None]) & speculates[None, :])
