"""How often the 95% interval of a ratio holds the true ratio, and how wide it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import median

import numpy as np

from benchmarks.coverage.worlds import Host, World
from search.stats.comparison import compare
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter

DESIGNS: dict[int, tuple[int, ...]] = {
    1: (2, 1),
    2: (2, 2),
    3: (3, 2),
    4: (3, 2, 2),
    5: (3, 2, 2, 2),
    6: (3, 2, 2, 2, 2),
    7: (3, 2, 2, 2, 2, 2),
    8: (3, 3, 3, 3),
    9: (4, 3, 3, 3),
    10: (4, 3, 3, 3, 2),
    12: (5, 3, 3, 3, 3),
}
"""Starts of the baseline and of each other config that was started more than once, by pooled degrees of freedom."""
REPEATS = {"2": (2,), "2 to 4": (2, 4, 3)}


@dataclass(frozen=True, slots=True)
class Cell:
    """One world, one design.

    Attributes:
        held: Share of draws whose interval holds the true ratio of the first config and the baseline.
        half: Median half width, relative.
        oracle: Half width of who knows both scatters.
        next_held: Share of draws whose `next_start` interval holds the ratio of one more start of each.
    """

    world: World
    freedom: int
    repeats: str
    draws: int
    held: float
    half: float
    oracle: float
    next_held: float


def cell(world: World, freedom: int, repeats: str, draws: int, rng: np.random.Generator) -> Cell:
    """Draw studies, compare the first config with the baseline."""
    counts, pattern = DESIGNS[freedom], REPEATS[repeats]
    held, ahead, halves = 0, 0, []
    truth = 0.05
    for _ in range(draws):
        groups, more = _study(world, counts, pattern, truth, rng)
        told = compare(groups["1"], groups["0"], pooled_scatter(groups))
        assert told is not None
        half = (np.log(told.hi) - np.log(told.lo)) / 2
        held += abs(told.log_ratio - truth) <= half
        low, high = told.next_start
        ahead += low <= more <= high
        halves.append(half)
    return Cell(world, freedom, repeats, draws, held / draws, median(halves), _oracle(world, counts, pattern), ahead / draws)


def _study(
    world: World, counts: tuple[int, ...], pattern: tuple[int, ...], truth: float, rng: np.random.Generator
) -> tuple[dict[str, list[Reading]], float]:
    """Starts in rounds, so that a drift meets all configs; and the ratio of one more start of the two compared."""
    host = Host(world, rng, starts=sum(counts))
    groups: dict[str, list[Reading]] = {str(config): [] for config in range(len(counts))}
    for turn in range(max(counts)):
        for config, count in enumerate(counts):
            if turn < count:
                repeats = pattern[(turn + config) % len(pattern)]
                groups[str(config)] += host.start(truth if config == 1 else 0.0, repeats, config=config)
    ends = [host.start(value, pattern[0], config=config) for config, value in ((1, truth), (0, 0.0))]
    means = [np.mean([np.log(one.value) for one in readings]) for readings in ends]
    return groups, float(np.exp(means[0] - means[1]))


def _oracle(world: World, counts: tuple[int, ...], pattern: tuple[int, ...]) -> float:
    inverse = [
        sum(1 / pattern[(turn + config) % len(pattern)] for turn in range(counts[config])) / counts[config] ** 2
        for config in (0, 1)
    ]
    louds = [world.unequal ** (config % 3 - 1) for config in (0, 1)]
    variance = sum(
        loud**2 * (world.between**2 / counts[config] + world.within**2 * inverse[config])
        for config, loud in enumerate(louds)
    )
    return 1.959964 * sqrt(variance)
