"""Noise that depends on what is measured, never on when or in which process.

Every draw has a generator of its own, seeded by text: the standard library hashes it with SHA-512,
so it is the same on every machine and under every executor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random


class Noise:
    """Seeded draws, each named by its keys."""

    def __init__(self, seed: int, *, enabled: bool = True) -> None:
        self._seed = seed
        self._enabled = enabled

    def factor(self, spread: float, *keys: object) -> float:
        """A factor around 1 with relative standard deviation `spread`."""
        return math.exp(spread * self._rng(*keys).gauss(0.0, 1.0)) if self._enabled else 1.0

    def factors(self, spread: float, count: int, *keys: object) -> list[float]:
        """Factors around 1, scaled so that their mean is exactly 1."""
        if not self._enabled:
            return [1.0] * count
        rng = self._rng(*keys)
        raw = [math.exp(spread * rng.gauss(0.0, 1.0)) for _ in range(count)]
        return mean_one(raw)

    def counts(self, total: int, probabilities: Sequence[float], *keys: object) -> tuple[int, ...]:
        """How many of `total` fall into each bin; sums to `total`. Without noise, the expected ones."""
        rng = self._rng(*keys)
        counts: list[int] = []
        left, mass = total, 1.0
        for probability in probabilities[:-1]:
            share = min(1.0, max(0.0, probability / mass)) if mass > 0 else 0.0
            spread = math.sqrt(left * share * (1.0 - share)) if self._enabled else 0.0
            drawn = min(left, max(0, round(left * share + spread * rng.gauss(0.0, 1.0))))
            counts.append(drawn)
            left -= drawn
            mass -= probability
        return (*counts, left)

    def _rng(self, *keys: object) -> Random:
        return Random("|".join(map(str, (self._seed, *keys))))


def mean_one(values: Sequence[float]) -> list[float]:
    """The values, scaled to a mean of 1."""
    mean = math.fsum(values) / len(values)
    return [value / mean for value in values]
