"""What an earlier table is worth to a search, and what a wrong one costs.

    nice python -m benchmarks.race.earlier [--count 24] [--skip 300] [--launches 5] [--json PATH]

On each fresh world the product's sampler races with nothing, with a table of the same world measured on a host half
as fast, with one of another world, and with one that has no baseline. Given is the share of the exhaustive front's
hypervolume after so many launches, in the mean over worlds, and how often the table was dropped by then.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.race.contest import run_course
from benchmarks.race.rivals.frontier import FrontierEntrant
from benchmarks.race.running import sampler_seed
from benchmarks.race.sources import load_table, own_worlds
from benchmarks.race.tables import Table
from search.engines.recording import Recording
from search.samplers.matching import EarlierTable
from search.samplers.warm_start import recorded_evidence

WEIGHT = 0.3
"""Of an earlier number, as in `docs/searching.md`."""
HALF_AS_FAST = 2.0


@dataclass(frozen=True, slots=True)
class Race:
    """One world, raced with one kind of earlier table."""

    world: str
    earlier: str
    share: float
    dropped: bool


def earlier_of(recording: Recording, *, slower: float = 1.0, baseline: bool = True) -> EarlierTable:
    """A recording as an earlier study of a host that is so much slower, with its baseline or without."""
    observations, starts = recorded_evidence(recording)
    kept = [one for one in observations if baseline or one.config.speculates]
    return EarlierTable(
        recording.name,
        tuple(replace(one, ms_per_token=one.pace_ms * slower, weight=WEIGHT) for one in kept),
        tuple(replace(one, weight=WEIGHT) for one in starts),
    )


KINDS: dict[str, Callable[[Table, Table], tuple[EarlierTable, ...]]] = {
    "none": lambda mine, other: (),  # noqa: ARG005
    "same world, half as fast": lambda mine, other: (earlier_of(mine.dealt(1), slower=HALF_AS_FAST),),  # noqa: ARG005
    "same world, no baseline": lambda mine, other: (earlier_of(mine.dealt(1), baseline=False),),  # noqa: ARG005
    "another world": lambda mine, other: (earlier_of(other.recording),),  # noqa: ARG005
}
"""By name: of a world and another one, the tables that the search is given."""


def races(tables: Sequence[Table], *, launches: int) -> Iterator[Race]:
    """Every world with every kind; another world is the next one."""
    for place, table in enumerate(tables):
        other = tables[(place + 1) % len(tables)]
        for name, kind in KINDS.items():
            entrant = FrontierEntrant(table, seed=sampler_seed(table.name, 0), tables=kind(table, other))
            course = run_course(table, entrant, budget=launches, seed=0)
            share = table.share(launch.asked for launch in course.launches)
            yield Race(table.name, name, share, bool(entrant.dropped()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Race and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.earlier", description="What earlier tables pay.")
    parser.add_argument("--count", type=int, default=24, metavar="N", help="worlds (default 24)")
    parser.add_argument("--skip", type=int, default=300, metavar="N", help="of the held-out half, the first N (300)")
    parser.add_argument("--launches", type=int, default=5, metavar="N", help="of a race (default 5)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every race there")
    options = parser.parse_args(arguments)
    tables = [load_table(source) for source in own_worlds("heldout", options.count, skip=options.skip)]
    found = list(races(tables, launches=options.launches))
    print(f"| earlier table | share after {options.launches} launches | dropped |")
    print("|---|---|---|")
    for name in KINDS:
        mine = [one for one in found if one.earlier == name]
        shares = [one.share for one in mine]
        error = stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
        dropped = f"{sum(one.dropped for one in mine)} of {len(mine)}" if name != "none" else "-"
        print(f"| {name} | {fmean(shares):.3f} ± {error:.3f} | {dropped} |")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
