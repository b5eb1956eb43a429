"""GPU hours that a search which knows the truth would need: no choice of a sampler comes far below them.

What is prescribed (a start for the baseline, one more for each known config that the open start does not hold) is paid
by it too. Beyond that it starts only for groups whose configs reach the share, and measures in them what adds most.
Greedy within the groups, over all small sets of groups: so a plan that works; its starts are as few as can be, a
measurement in it may be one too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final

from benchmarks.race.hypervolume import front
from benchmarks.race.prices import Prices, beyond_shape, phases_s
from benchmarks.race.sources import Source, load_table
from benchmarks.race.summary import quantile
from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.spec.study import StudySpec

_MOST_STARTS: Final = 3
"""Beyond those of what is prescribed; more are never the cheapest way to a share of a front of this size."""


def floor_rows(
    sources: Sequence[Source], spec: StudySpec, shares: Sequence[float], prices: Prices
) -> Iterator[dict[str, object]]:
    """By group, share and what is prescribed: median and ninth decile of the hours, apart and shared, and their ratio.

    Args:
        sources: Of the tables.
        spec: Names what their phases measure.
        shares: Of the true hypervolume.
        prices: Of starts and switches.
    """
    found: dict[tuple[str, float, str], list[tuple[float, float]]] = {}
    for table in map(load_table, sources):
        spent_s = phases_s(table, spec)
        for share in shares:
            for words, prescribed in (("baseline and known", table.start), ("baseline", table.start[:1])):
                apart, shared = (
                    least_hours(table, spent_s, share, prices=prices, shared=way, prescribed=prescribed)
                    for way in (False, True)
                )
                found.setdefault((table.group, share, words), []).append((apart, shared))
    for (group, share, words), pairs in found.items():
        row: dict[str, object] = {"group": group, "tables": len(pairs), "share": share, "prescribed": words}
        for name, part in (("median", 0.5), ("p90", 0.9)):
            apart, shared = (quantile([pair[way] for pair in pairs], part) for way in (0, 1))
            row[name] = {"apart": round(apart, 3), "shared": round(shared, 3), "ratio": round(shared / apart, 3)}
        yield row


def least_hours(
    table: Table,
    spent_s: Mapping[SpecConfig, float],
    share: float,
    *,
    prices: Prices,
    shared: bool,
    prescribed: Sequence[SpecConfig],
) -> float:
    """Hours until a share of the front is measured, by a search that knows the truth; infinite where none can.

    Args:
        table: With its truth.
        spent_s: What measuring each config takes once it serves.
        share: Of the true hypervolume.
        prices: Of starts and switches.
        shared: Whether configs that differ in their shape alone share starts.
        prescribed: What is measured first, in order, whatever the search knows.
    """
    group_of: Callable[[SpecConfig], Hashable] = beyond_shape if shared else lambda config: config
    again_s = prices.stop + prices.start
    total_s, have, serving = -prices.stop, list[SpecConfig](), None
    for config in prescribed:
        group = group_of(config) if config.speculates else config
        total_s += spent_s.get(config, 0.0) + (prices.switch if group == serving else again_s)
        serving = group
        have.append(config)
        if table.share(have) >= share:
            return total_s / 3600
    left = [config for config in spent_s if config not in have and table.share([config]) > 0.0]
    if not shared:
        return (total_s + _greedy(table, spent_s, have, _best(table, left), share, again_s)) / 3600
    found = math.inf
    for groups in _sets({group_of(config) for config in left} - {serving}):
        extra_s = len(groups) * (again_s - prices.switch)
        usable = [config for config in left if group_of(config) in groups or group_of(config) == serving]
        if extra_s < found and usable and table.share([*have, *usable]) >= share:
            found = min(found, extra_s + _greedy(table, spent_s, have, _best(table, usable), share, prices.switch))
    return (total_s + found) / 3600


def _sets(groups: set[Hashable]) -> Iterator[tuple[Hashable, ...]]:
    ordered = sorted(groups, key=str)
    for count in range(min(len(ordered), _MOST_STARTS) + 1):
        yield from combinations(ordered, count)


def _best(table: Table, configs: Sequence[SpecConfig]) -> list[SpecConfig]:
    """Those on the front of their own."""
    points = set(front(table.truth[config] for config in configs))
    return [config for config in configs if table.truth[config] in points]


def _greedy(
    table: Table,
    spent_s: Mapping[SpecConfig, float],
    have: Sequence[SpecConfig],
    usable: Sequence[SpecConfig],
    share: float,
    each_s: float,
) -> float:
    """Seconds of the cheaper of two orders: what adds most, and what adds most per second."""

    def spent(per_second: bool) -> float:
        measured, free, total_s = list(have), list(usable), 0.0
        reached = table.share(measured)
        while reached < share and free:
            to = {config: min(table.share([*measured, config]), share) for config in free}
            chosen = max(
                free,
                key=lambda config: (to[config] - reached) / (each_s + spent_s[config] if per_second else 1.0),
            )
            if to[chosen] <= reached:
                return math.inf
            total_s += each_s + spent_s[chosen]
            free.remove(chosen)
            measured.append(chosen)
            reached = table.share(measured)
        return total_s if reached >= share else math.inf

    return min(spent(True), spent(False))
