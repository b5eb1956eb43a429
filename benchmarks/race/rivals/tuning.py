"""The fixed list: an order of configs that does best, on average, over the worlds it was tuned on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from benchmarks.race.hypervolume import Point, hypervolume
from benchmarks.race.tables import Table
from benchmarks.race.worlds import make_world

WORLDS = 16
"""Worlds of the building half that the list is tuned on."""

LENGTH = 40


@cache
def building_list() -> tuple[str, ...]:
    """Config ids in the order of their mean gain over the first worlds of the building half."""
    return tuned_list([make_world(2 * number) for number in range(WORLDS)])


def tuned_list(tables: Sequence[Table], *, length: int = LENGTH) -> tuple[str, ...]:
    """Greedily, the config that adds most to the mean share of the hypervolume, again and again.

    Gains only shrink as more is launched, so a config whose old gain is already too small need not
    be looked at again.
    """
    truths = [{config.config_id: point for config, point in table.truth.items()} for table in tables]
    have: list[list[Point]] = [
        [table.truth[config] for config in table.start if config in table.truth] for table in tables
    ]
    shares = [hypervolume(points, table.reference) / table.volume for points, table in zip(have, tables, strict=True)]
    started = {config.config_id for table in tables for config in table.start}
    bounds = {name: float("inf") for name in sorted({name for truth in truths for name in truth} - started)}

    def gain(name: str) -> float:
        total = 0.0
        for table, truth, points, share in zip(tables, truths, have, shares, strict=True):
            if name in truth:
                total += hypervolume([*points, truth[name]], table.reference) / table.volume - share
        return total

    order: list[str] = []
    while bounds and len(order) < length:
        best, most = "", -1.0
        for name, bound in sorted(bounds.items(), key=lambda item: (-item[1], item[0])):
            if bound <= most:
                break
            bounds[name] = gain(name)
            if bounds[name] > most:
                best, most = name, bounds[name]
        order.append(best)
        del bounds[best]
        for place, truth in enumerate(truths):
            if best in truth:
                have[place].append(truth[best])
                shares[place] = hypervolume(have[place], tables[place].reference) / tables[place].volume
    return tuple(order)
