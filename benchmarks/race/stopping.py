"""When a search ends by itself, and what it has of the front by then.

    nice python -m benchmarks.race.stopping WORLDS --seeds 3

Each race goes on to its budget; at each launch the stop rule of the product is asked, and the first launch at which
it would stop is told, with the share of the exhaustive front's hypervolume (true values) measured by then.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.race.contest import run_course
from benchmarks.race.rivals.frontier import FrontierEntrant
from benchmarks.race.sources import folders, load_table
from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.storage.records import LaunchRecord
from search.study.forecasts import Settled, settled_by


@dataclass(frozen=True, slots=True)
class Stop:
    """One race.

    Attributes:
        launch: After which the rule stopped it; None if it never did.
        share: Of the front's hypervolume by then, or at the end of the budget.
        gains: Expected growth by the best next launch, before each proposal.
        noise_gains: What noise alone would show, at the same moments.
        shares: Of the front's hypervolume, then.
    """

    table: str
    seed: int
    launch: int | None
    share: float
    gains: tuple[float, ...]
    noise_gains: tuple[float, ...]
    shares: tuple[float, ...]


class _Watched(FrontierEntrant):
    """Asks the stop rule before each proposal, and goes on whatever it says."""

    def __init__(self, table: Table, *, seed: int) -> None:
        super().__init__(table, seed=seed)
        self.found: list[Settled] = []
        self.past: list[LaunchRecord] = []

    def ask(self, fixed: SpecConfig | None) -> SpecConfig | None:
        if fixed is None and (stop := settled_by(self._sampler, self._study, self._axes, self.past)) is not None:
            self.found.append(stop)
        return super().ask(fixed)

    def tell(self, launch: LaunchRecord) -> None:
        super().tell(launch)
        self.past.append(launch)


def race(table: Table, *, seed: int, budget: int = 30) -> Stop:
    """One race on one table."""
    entrant = _Watched(table, seed=seed)
    launches = run_course(table, entrant, budget=budget, seed=seed).launches
    first = len(table.start)
    measured = [launch.asked for launch in launches]
    shares = tuple(table.share(measured[: first + place]) for place in range(len(entrant.found)))
    stop = next((place for place, found in enumerate(entrant.found) if found.is_reached), None)
    return Stop(
        table.name,
        seed,
        None if stop is None else first + stop,
        table.share(measured) if stop is None else shares[stop],
        tuple(found.gain for found in entrant.found),
        tuple(found.noise_gain for found in entrant.found),
        shares,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.stopping", description="Race the stop rule.")
    parser.add_argument("worlds", nargs="+", type=Path, metavar="DIR", help="recordings, or folders of them")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="races on each table (default 3)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every race there")
    options = parser.parse_args(arguments)
    tables = [load_table(source) for path in options.worlds for source in folders(path)]
    stops = [race(table, seed=seed) for table in tables for seed in range(options.seeds)]
    shares = [stop.share for stop in stops]
    used = [stop.launch or len(stop.gains) for stop in stops]
    print(
        f"{len(stops)} races: share of the front at the stop {median(shares):.1%} (10th percentile "
        f"{float(np.quantile(shares, 0.1)):.1%}, worst {min(shares):.1%}); launches {median(used):g} (90th percentile "
        f"{float(np.quantile(used, 0.9)):g}); {sum(stop.launch is None for stop in stops)} did not stop by themselves"
    )
    if options.json:
        rows = [{name: getattr(stop, name) for name in Stop.__slots__} for stop in stops]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
