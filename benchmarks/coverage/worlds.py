"""Studies with known truth: what is drawn, by which scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from search.stats.readings import Reading

Repeats = tuple[int, ...]
"""Of the starts of a config, in turn."""


@dataclass(frozen=True, slots=True)
class World:
    """How numbers scatter; relative standard deviations.

    Attributes:
        between: Of starts.
        within: Of repeats.
        tails: Degrees of freedom of Student's t that starts and repeats are drawn from, scaled to the same standard
            deviation; 0: normal.
        unequal: Configs' scatters differ by this factor: 1 / factor, 1 and factor in turn, from the baseline on.
        place: Change from one repeat to the next in a start.
        drift: Change of the host over a whole study.
    """

    between: float
    within: float
    tails: int = 0
    unequal: float = 1.0
    place: float = 0.0
    drift: float = 0.0


class Host:
    """Draws starts in the order in which they are asked for."""

    def __init__(self, world: World, rng: np.random.Generator, *, starts: int) -> None:
        self.world, self._rng, self._starts, self._made = world, rng, starts, 0
        self._pool: list[float] = []

    def start(
        self, value: float, repeats: int, *, config: int = 0, fresh: bool = False, prompt_set: str = ""
    ) -> list[Reading]:
        """One start of one config and its repeats.

        Args:
            value: Logarithm of the config's true value.
            repeats: Measured.
            config: Its number, for worlds in which configs scatter unequally.
            fresh: See `Reading`.
            prompt_set: Likewise.
        """
        world, number = self.world, self._made
        self._made += 1
        loud = world.unequal ** (config % 3 - 1)
        mean = value + loud * world.between * self._draw() + world.drift * number / max(1, self._starts - 1)
        return [
            Reading(
                number,
                exp(mean + world.place * repeat + loud * world.within * self._draw()),
                repeat=repeat,
                fresh=fresh,
                prompt_set=prompt_set,
            )
            for repeat in range(repeats)
        ]

    def starts(self, value: float, repeats: Sequence[int], *, config: int = 0) -> list[Reading]:
        """Several starts of one config."""
        return [one for count in repeats for one in self.start(value, count, config=config)]

    def _draw(self) -> float:
        if not self._pool:
            tails = self.world.tails
            drawn = (
                self._rng.standard_t(tails, 256) * ((tails - 2) / tails) ** 0.5 if tails else self._rng.normal(size=256)
            )
            self._pool = drawn.tolist()
        return self._pool.pop()
