"""How often the 95% interval of a ratio holds the true ratio, and how wide it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import median

import numpy as np

from benchmarks.coverage.worlds import Host, World
from search.stats.compare import compare
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
        comparison = compare(groups["1"], groups["0"], pooled_scatter(groups))
        assert comparison is not None
        half = (np.log(comparison.hi) - np.log(comparison.lo)) / 2
        held += abs(comparison.log_ratio - truth) <= half
        low, high = comparison.next_start
        ahead += low <= more <= high
        halves.append(half)
    oracle = _oracle(world, counts, pattern)
    return Cell(world, freedom, repeats, draws, float(held / draws), float(median(halves)), oracle, ahead / draws)


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


@dataclass(frozen=True, slots=True)
class InsideCell:
    """Comparisons inside starts that hold the baseline first and last and shapes between.

    Attributes:
        place: Change of the logarithm from one place to the next.
        starts: Made; the order of the shapes turns from start to start.
        held: Share of intervals that hold the truth.
        half: Median half width, relative.
        across: The same, had each of the two been started as often on its own.
        same: Share of equal shapes said to be the same within 2%.
    """

    between: float
    within: float
    place: float
    starts: int
    draws: int
    held: float
    half: float
    across: float
    same: float


def inside_cell(
    between: float, within: float, place: float, starts: int, draws: int, rng: np.random.Generator, *, repeats: int = 3
) -> InsideCell:
    """Draw starts with five measurements each, compare the first shape with the baseline."""
    held, same, halves = 0, 0, []
    shapes = ["1", "2", "3"]
    for _ in range(draws):
        groups: dict[str, list[Reading]] = {}
        for start in range(starts):
            luck = between * rng.normal()
            turned = shapes[start % 3 :] + shapes[: start % 3]
            for at, config in enumerate(["0", *turned, "0"]):
                noise = within * rng.normal(size=repeats)
                groups.setdefault(config, []).extend(
                    Reading(start, float(np.exp(luck + place * at + one)), place=at, repeat=repeat)
                    for repeat, one in enumerate(noise)
                )
        comparison = compare(groups["1"], groups["0"], pooled_scatter(groups))
        assert comparison is not None
        held += comparison.lo <= 1 <= comparison.hi
        same += comparison.same_within(0.02) is True
        halves.append((np.log(comparison.hi) - np.log(comparison.lo)) / 2)
    across = 1.959964 * sqrt(2 * (between**2 + within**2 / repeats) / starts)
    return InsideCell(between, within, place, starts, draws, held / draws, float(median(halves)), across, same / draws)
