"""How drafts fare in a made-up world: acceptance by depth, and what width adds.

No form here is the geometric decay that the project's own physics assumes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Literal

from search.config import SpecConfig

DraftKind = Literal["weibull", "mixture", "trained", "power"]
KINDS: tuple[DraftKind, ...] = ("weibull", "mixture", "trained", "power")


@dataclass(frozen=True, slots=True)
class Drafts:
    """One draft model on one mix of prompts.

    Attributes:
        kind: Form of the survival over depth.
        first: Probability that the first guess at depth 1 is accepted.
        a: Weibull scale, easy share, depth trained for, or power.
        b: Weibull shape, acceptance of hard tokens, or conditional acceptance past the trained depth.
        siblings: Share of misses that infinitely many siblings would find at depth 1.
        saturation: Power with which more siblings find less.
        fading: Factor on `siblings` for each further depth.
        loads: Factor on every conditional acceptance at high load, by worker.
    """

    kind: DraftKind
    first: float
    a: float
    b: float
    siblings: float
    saturation: float
    fading: float
    loads: tuple[float, float]

    @classmethod
    def draw(cls, rng: Random) -> Drafts:
        """A draft somewhere between poor and very good."""
        kind = rng.choice(KINDS)
        first = rng.uniform(0.5, 0.9)
        a, b = {
            "weibull": (rng.uniform(1.5, 6.0), rng.uniform(0.6, 1.8)),
            "mixture": (rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.45)),
            "trained": (float(rng.randint(2, 4)), rng.uniform(0.1, 0.45)),
            "power": (rng.uniform(0.5, 1.8), 0.0),
        }[kind]
        collapse = rng.random() < 0.3
        return cls(
            kind=kind,
            first=first,
            a=a,
            b=b,
            siblings=rng.uniform(0.15, 0.75),
            saturation=rng.uniform(0.4, 1.3),
            fading=rng.uniform(0.6, 1.0),
            loads=(rng.uniform(0.3, 0.65) if collapse else rng.uniform(0.96, 1.0), rng.uniform(0.97, 1.0)),
        )

    def reach(self, config: SpecConfig, *, loaded: bool) -> tuple[float, ...]:
        """Probability that a verify pass accepts at least 1, 2, … drafts; empty without speculation."""
        if not config.speculates:
            return ()
        factor = self.loads[0 if config.spec_version == "v1" else 1] if loaded else 1.0
        reached: list[float] = []
        alive = 1.0
        for depth, width in enumerate(widths(config), start=1):
            alone = self._survival(depth) / self._survival(depth - 1)
            found = self.siblings * self.fading ** (depth - 1) * (1.0 - width**-self.saturation)
            alive *= factor * min(0.995, alone + (1.0 - alone) * found)
            reached.append(alive)
        return tuple(reached)

    def _survival(self, depth: int) -> float:
        """Of the chain alone: all of the first `depth` guesses are right."""
        if depth == 0:
            return 1.0
        if self.kind == "weibull":
            return self.first * math.exp(-(((depth - 1) / self.a) ** self.b))
        if self.kind == "mixture":
            easy = min(0.97, self.first + 0.15)
            return self.a * easy**depth + (1 - self.a) * self.b**depth
        if self.kind == "trained":
            inside = min(depth, int(self.a))
            return float(self.first**inside * self.b ** (depth - inside))
        return self.first * math.pow(depth, -self.a)


def widths(config: SpecConfig) -> tuple[int, ...]:
    """How many nodes a tree has at each depth it reaches: one each, then filled from the root down.

    A tree cut to few tokens is shallower than its steps.
    """
    assert config.topk and config.num_steps and config.num_draft_tokens
    drafts = config.num_draft_tokens - 1
    depth = min(config.num_steps, drafts)
    rooms = [config.topk, *[config.topk**2] * (depth - 1)]
    nodes = [1] * depth
    left = drafts - depth
    while left > 0:
        open_depths = [level for level in range(depth) if nodes[level] < rooms[level]]
        if not open_depths:
            break
        # Each level gets about 0.6 of the one above.
        level = max(open_depths, key=lambda level: 0.6**level / nodes[level])
        nodes[level] += 1
        left -= 1
    return tuple(nodes)
