"""GPU hours to a share of the front: starts that hold many shapes against one start per config.

    nice python -m benchmarks.race.hours --half heldout --skip 512 --count 18 --seeds 2

The same sampler races twice on each table under the same prices: a start, a switch, and the phases of `kimi-k25` at
the pace each config really has. Once every config has a start of its own; once configs that differ in their shape
alone share starts, as a study shares them: places are bounded, a failure beside others is tried once more alone, and
what broke under load ends the open start. Beside it stands what a search would need that knows the truth
(`benchmarks.race.floors`): no choice brings a race far below that. No phase of any table, and no price,
was chosen by what comes out here.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.processes import one_thread_each
from benchmarks.race.contest import launched
from benchmarks.race.floors import floor_rows
from benchmarks.race.prices import Prices, beyond_shape, tokens_at
from benchmarks.race.rivals.frontier import FrontierEntrant
from benchmarks.race.running import sampler_seed, spread
from benchmarks.race.sources import HERE, Source, folders, load_table, own_worlds
from benchmarks.race.summary import quantile
from benchmarks.race.tables import Table
from benchmarks.race.worlds import HALVES
from search.app.assembly import read_spec
from search.app.options import RunOptions
from search.config import SpecConfig
from search.engines import ReplayEngine
from search.outcomes import Outcome, Reason
from search.samplers.outlook import LaunchCost
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord, Stage
from search.study.forecasts import MOST_HELD
from search.study.starts import ANCHORED_AT, MOST_PLACES

SHARES: Final = (0.80, 0.85, 0.90, 0.95, 0.99)
STUDY: Final = "kimi-k25"
PUT_BACK: Final = frozenset({Reason.OOM_GRAPH, Reason.OOM_KV, Reason.OOM_WEIGHTS, Reason.ARG_INVALID_COMBO})
"""Failures while a shape is built, after which a server that is switched puts everything back and goes on."""


@dataclass(frozen=True, slots=True)
class Task:
    """One table and seed, raced both ways."""

    source: Source
    seed: int
    budget: int
    prices: Prices


@dataclass(frozen=True, slots=True)
class Hours:
    """One race.

    Attributes:
        shares: Of the true hypervolume, after each measurement.
        hours: Of the GPUs, up to and with each measurement.
        starts: Of servers, in the whole race.
    """

    table: str
    group: str
    seed: int
    shared: bool
    shares: tuple[float, ...]
    hours: tuple[float, ...]
    starts: int

    def to(self, share: float) -> float:
        """Hours until a share was reached; infinite where it was not."""
        return next((h for s, h in zip(self.shares, self.hours, strict=True) if s >= share), math.inf)


class _Priced(FrontierEntrant):
    """The product's sampler, told what a measurement costs now: as `search.study.forecasts.launch_cost` tells it."""

    def __init__(self, table: Table, *, seed: int, cost: LaunchCost) -> None:
        super().__init__(table, seed=seed)
        self.cost = cost

    def ask(self, fixed: SpecConfig | None) -> SpecConfig | None:
        self._sampler.expect_cost(self.cost)
        return super().ask(fixed)

    def to_hold(self, group: Sequence[SpecConfig]) -> frozenset[SpecConfig]:
        """What a start should be able to hold, as `search.study.forecasts.FrontierProspects.to_hold` has it."""
        outlook, free = self._sampler.outlook(self._study), set(self._sampler.remaining(self._study))
        wanted = sorted((one for one in group if one in free), key=lambda one: -outlook.worth(one))
        return frozenset(wanted[:MOST_HELD])


class _Server:
    """What runs, who may be measured in it, and what all that took."""

    def __init__(self, table: Table, prices: Prices, entrant: _Priced, *, shares: bool) -> None:
        self._entrant = entrant
        groups: dict[tuple[object, ...], list[SpecConfig]] = {}
        for config in table.space.configs if shares else ():
            if config.speculates:
                groups.setdefault(beyond_shape(config), []).append(config)
        self._groups = {one: group for group in groups.values() if len(group) > 1 for one in group}
        self._prices = prices
        self._places, self._first_s = 0, 0.0
        self.held: frozenset[SpecConfig] = frozenset()
        self.seconds = 0.0
        self.starts = 0

    def run(self, config: SpecConfig, *, fails: bool, usable: bool) -> None:
        """Switch or start; a config that fails beside others is started once more alone."""
        if config in self.held:
            self.seconds += self._prices.switch
            self._places += 1
        else:
            self._begin()
            self.held, self._places = self._group(config), 1
        if fails and self.held and usable and self._places > 1:
            self._alone()  # when the start is over, which goes on until then
        elif fails:
            if self.held:
                self._alone()
            self.held = frozenset()  # the failed one is gone by itself
        elif not self.held or self._places >= MOST_PLACES:
            self._end()

    def spend(self, phases_s: float) -> None:
        """Phases of what was switched to or started; where it is due, the first of the start is measured again."""
        self.seconds += phases_s
        if self._places == 1:
            self._first_s = phases_s
        if self.held and self._places in ANCHORED_AT:
            self.seconds += self._prices.switch + self._first_s
            self._places += 1

    def _begin(self) -> None:
        if self.held:
            self._end()
        self.seconds += self._prices.start
        self.starts += 1

    def _alone(self) -> None:
        """Once more in a start of its own, where it fails again."""
        self.seconds += self._prices.start
        self.starts += 1

    def _end(self) -> None:
        self.seconds += self._prices.stop
        self.held = frozenset()

    def _group(self, config: SpecConfig) -> frozenset[SpecConfig]:
        others = [other for other in self._groups.get(config, ()) if other != config]
        return self._entrant.to_hold(others) | {config} if others else frozenset()


def race(table: Table, task: Task, spec: StudySpec, *, shared: bool) -> Hours:
    """One race, to its budget of measurements.

    Args:
        table: What is measured.
        task: Its seed, budget and prices.
        spec: Names what the phases measure.
        shared: Whether configs share starts.
    """
    tokens = tuple(tokens_at(spec, load) for load in table.spec.objective_loads)
    prices = task.prices
    whole = LaunchCost(prices.start + prices.stop, tokens, switch_s=prices.switch)
    entrant = _Priced(table, seed=sampler_seed(table.name, task.seed), cost=whole)
    engine = ReplayEngine(table.dealt(task.seed))
    server = _Server(table, prices, entrant, shares=shared)
    start = list(table.start)
    measured: list[SpecConfig] = []
    shares: list[float] = []
    hours: list[float] = []
    while len(hours) < min(task.budget, len(table.space.configs)):
        fixed = start.pop(0) if start else None
        entrant.cost = replace(whole, held=server.held)
        config = entrant.ask(fixed)
        if config is None:
            break
        stage: Stage = "search" if fixed is None else "known" if hours else "baseline"
        launch, _ = launched(table, engine, entrant, config, number=len(hours) + 1, stage=stage)
        entrant.tell(launch)
        server.run(config, fails=launch.reason is not None, usable=launch.reason in PUT_BACK)
        server.spend(_phases_s(launch, tokens, table.spec.objective_loads))
        measured += [config] if launch.outcome is Outcome.MEASURED else []
        shares.append(table.share(measured))
        hours.append(server.seconds / 3600)
    return Hours(table.name, table.group, task.seed, shared, tuple(shares), tuple(hours), server.starts)


def _phases_s(launch: LaunchRecord, tokens: Sequence[float], loads: Sequence[int]) -> float:
    """At the pace that was measured."""
    total = 0.0
    for load, count in zip(loads, tokens, strict=True):
        if rates := [phase.output_tps for phase in launch.repeats(load)]:
            total += count * len(rates) / sum(rates)
    return total


def run_task(task: Task) -> tuple[Hours, Hours]:
    """Both races of one table and seed: apart, shared."""
    table, spec = load_table(task.source), read_spec(RunOptions(here=HERE, study=STUDY))
    return race(table, task, spec, shared=False), race(table, task, spec, shared=True)


def rows(found: Sequence[tuple[Hours, Hours]]) -> Iterator[dict[str, object]]:
    """By group and share: median and ninth decile of the hours, apart and shared, and their ratio."""
    for group in dict.fromkeys(apart.group for apart, _ in found):
        mine = [pair for pair in found if pair[0].group == group]
        for share in SHARES:
            ends = [[pair[way].to(share) for pair in mine] for way in (0, 1)]
            row: dict[str, object] = {"group": group, "races": len(mine), "share": share}
            for name, part in (("median", 0.5), ("p90", 0.9)):
                apart, shared = (quantile(values, part) for values in ends)
                row[name] = {"apart": _finite(apart), "shared": _finite(shared), "ratio": _finite(shared / apart)}
            row["missed"] = [sum(map(math.isinf, values)) / len(mine) for values in ends]
            yield row


def _finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Race and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.hours")
    parser.add_argument("--worlds", nargs="+", type=Path, default=[], metavar="DIR")
    parser.add_argument("--half", nargs="+", choices=HALVES, default=[])
    parser.add_argument("--count", type=int, default=18)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=int, default=40, help="measurements of a race")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--races", type=Path, help="append every race there, a line of JSON each, as it ends")
    options = parser.parse_args(arguments)
    sources = [source for path in options.worlds for source in folders(path)]
    sources += [source for half in options.half for source in own_worlds(half, options.count, skip=options.skip)]
    prices = Prices()
    todo = [Task(source, seed, options.budget, prices) for source in sources for seed in range(options.seeds)]
    found: list[tuple[Hours, Hours]] = []
    with one_thread_each():
        for pair in spread(run_task, todo, jobs=options.jobs, chunk=1):
            found.append(pair)
            ends = ", ".join(f"{one.to(0.95):.2f} h ({one.starts} starts)" for one in pair)
            sys.stderr.write(
                f"{len(found)} of {len(todo)}: {pair[0].group} {pair[0].table}: apart, shared {ends} to 95%\n"
            )
            if options.races:
                with options.races.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(asdict(one)) + "\n" for one in pair)
    table = list(rows(found))
    floors = list(floor_rows(sources, read_spec(RunOptions(here=HERE, study=STUDY)), SHARES, prices))
    for row in [*table, *floors]:
        print(json.dumps(row))
    if options.json:
        tables = [f"{source.group}/{Path(source.where).name}" for source in sources]
        asked = {"tables": tables, "seeds": options.seeds, "budget": options.budget}
        options.json.write_text(
            json.dumps({"asked": asked, "rows": table, "floors": floors}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
