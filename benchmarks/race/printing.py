"""The figures as text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from benchmarks.race.scoring import TARGETS
from benchmarks.race.summary import Reach, Summary

AFTER = (5, 7, 10, 14, 20, 30, 40)
"""Launches after which the mean share is printed."""


def lines(summaries: Sequence[Summary], *, budget: int) -> Iterator[str]:
    """Everything, one group of tables after the other."""
    ordered = sorted(summaries, key=lambda summary: _order(summary, summaries))
    for group, some in groupby(ordered, key=lambda summary: summary.group):
        entries = list(some)
        most = max(summary.races for summary in entries)
        tables = len(entries[0].worlds)
        yield f"\n== {group}: {tables} tables, up to {most // tables} seeds, {budget} launches =="
        yield f"launches to that share of the hypervolume: median / 90th percentile / not reached in {budget}"
        yield from _grid(_main_rows(entries, budget))
        yield "mean share of the hypervolume after so many launches, ± its standard deviation between seeds"
        yield from _grid(_share_rows(entries, budget))
        yield "median launches to 95%, by table"
        yield from _grid(_world_rows(entries, budget))


def _order(summary: Summary, all_of_them: Sequence[Summary]) -> int:
    return list(dict.fromkeys(other.group for other in all_of_them)).index(summary.group)


def _main_rows(entries: Sequence[Summary], budget: int) -> Iterator[list[str]]:
    targets = [f"{target:.0%}" for target in TARGETS]
    yield [
        "entry",
        *targets,
        "min to 95%",
        "min in all",
        "loads",
        "failed",
        "gated",
        "regret both",
        "front",
        "s/launch",
    ]
    for entry in entries:
        both, front = entry.regret["both"], entry.regret["front"]
        yield [
            entry.entry,
            *(_reach(entry.launches[target], budget) for target in TARGETS),
            _number(entry.minutes[0.95].median, None),
            f"{entry.total_minutes:.0f}",
            f"{entry.load_share:.0%}",
            f"{entry.failed:.1%}",
            f"{entry.gated:.0%}",
            f"{both.median:.1%} / {both.p90:.1%}",
            f"{front.median:.1%} / {front.p90:.1%}",
            f"{entry.seconds[0]:.3f}",
        ]


def _share_rows(entries: Sequence[Summary], budget: int) -> Iterator[list[str]]:
    after = [launches for launches in AFTER if launches <= budget]
    yield ["entry", *map(str, after)]
    for entry in entries:
        yield [entry.entry, *(f"{mean:.3f} ± {spread:.3f}" for mean, spread in (entry.share_at[n - 1] for n in after))]


def _world_rows(entries: Sequence[Summary], budget: int) -> Iterator[list[str]]:
    yield ["table", *(entry.entry for entry in entries)]
    for table in entries[0].worlds:
        yield [table, *(_number(entry.worlds[table][0.95], budget) for entry in entries)]


def _reach(reach: Reach, budget: int) -> str:
    return f"{_number(reach.median, budget)} / {_number(reach.p90, budget)} / {reach.missed:.0%}"


def _number(value: float | None, beyond: int | None) -> str:
    if value is not None:
        return f"{value:.0f}"
    return "-" if beyond is None else f">{beyond}"


def _grid(rows: Iterator[list[str]]) -> Iterator[str]:
    cells = list(rows)
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        first, *rest = row
        yield (
            "  "
            + first.ljust(widths[0])
            + "".join("  " + cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        )
