"""Do the belief's 90% bands hold 90%? Asked after so many launches of a search, on tables it was not fitted to.

The product's sampler searches each table as in the race. After some numbers of launches the belief
that its launches give predicts every config that was not launched. The bands it chooses by are held
against the truth of the table (the true values of a synthetic one), and those that are reported, with
noise and the model's own uncertainty in them, against what a launch of the config records.

    python -m benchmarks.calibration --half building --count 24 [--worlds DIR …] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks.race.contest import run_course
from benchmarks.race.rivals import make_entrant
from benchmarks.race.running import sampler_seed
from benchmarks.race.sources import Source, folders, load_table, own_worlds
from benchmarks.race.tables import Table
from benchmarks.race.worlds import HALVES
from search.config import SpecConfig
from search.engines.recording import result_of
from search.model.belief import Belief, Prior
from search.outcomes import Outcome
from search.samplers.evidence import observations_of

AFTER = (3, 5, 8, 12)
"""Launches that the belief has seen."""
ENDS = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Held:
    """One table after so many launches at one load.

    Attributes:
        truth: Share of the unlaunched configs whose true value lies in the band that is chosen by.
        recorded: Share of those whose first recorded repeats lie, in the mean, in the band that is reported.
        width: Median ratio of the reported band's ends.
    """

    group: str
    table: str
    launches: int
    load: int
    truth: float
    recorded: float
    width: float


def held(table: Table, seed: int) -> Iterator[Held]:
    """Search a table once, and look at the belief on the way."""
    entrant = make_entrant("frontier", table, seed=sampler_seed(table.name, seed))
    course = run_course(table, entrant, budget=max(AFTER), seed=seed)
    low, high = (axis.concurrency for axis in table.spec.axes)
    prior = Prior.of(table.space.configs, (low, high), seed=sampler_seed(table.name, seed))
    for count in AFTER:
        launches = course.launches[:count]
        seen = [
            item
            for launch in launches
            if launch.outcome in (Outcome.MEASURED, Outcome.GATED)
            for item in observations_of(launch.config, launch.phases)
        ]
        belief = Belief.given(prior, seen)
        launched = {launch.config for launch in launches}
        fresh = [config for config in table.truth if config not in launched]
        for load in (low, high) if fresh else ():
            at = [prior.index[config] for config in fresh]
            true = [math.log(_ms(load, table.truth[config][load == high], high)) for config in fresh]
            values = [_recorded(table, config, load) for config in fresh]
            ends = [belief.quantile(end, load)[at] for end in ENDS]
            wide = [belief.quantile(end, load, of_launch=True)[at] for end in ENDS]
            yield Held(
                group=table.group,
                table=table.name,
                launches=count,
                load=load,
                truth=fmean(a <= x <= b for a, x, b in zip(ends[0], true, ends[1], strict=True)),
                recorded=fmean(a <= x <= b for a, x, b in zip(wide[0], values, wide[1], strict=True)),
                width=math.exp(median(wide[1] - wide[0])),
            )


def _ms(load: int, value: float, high: int) -> float:
    """Milliseconds per token of one request, of an objective's value."""
    return 1000.0 * load / value if load == high else value


def _recorded(table: Table, config: SpecConfig, load: int) -> float:
    """Log milliseconds per token of a launch: the mean over as many repeats as one measures."""
    rows = table.repeats[config, load][: table.spec.measure.repeats]
    phases = [result_of(row, repeat=place, requests=0, computed=False) for place, row in enumerate(rows, 1)]
    (seen,) = observations_of(config, phases)
    return math.log(seen.pace_ms)


def lines(found: Sequence[Held]) -> Iterator[str]:
    """A table by group, launches and load; every config counts alike within a table, and every table within a group."""
    yield f"{'group':<18}{'launches':>9}{'load':>6}{'truth held':>12}{'recorded held':>15}{'band, high/low':>16}{'tables':>8}"
    keys = dict.fromkeys((one.group, one.launches, one.load) for one in found)
    for key in sorted(keys):
        mine = [one for one in found if (one.group, one.launches, one.load) == key]
        truth, recorded = fmean(one.truth for one in mine), fmean(one.recorded for one in mine)
        width = median(one.width for one in mine)
        yield f"{key[0]:<18}{key[1]:>9}{key[2]:>6}{truth:>12.1%}{recorded:>15.1%}{width:>16.2f}{len(mine):>8}"


def main() -> None:
    """Print the table; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", type=Path, default=[], metavar="DIR", help="recordings, or folders")
    parser.add_argument("--half", nargs="+", choices=HALVES, default=[], help="worlds of our own")
    parser.add_argument("--count", type=int, default=24, metavar="N", help="worlds of each half")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="leave out the first N of each half")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH")
    options = parser.parse_args()
    sources: list[Source] = [source for path in options.worlds for source in folders(path)]
    for half in options.half or ([] if options.worlds else ["building"]):
        sources += own_worlds(half, options.count, skip=options.skip)
    found = [one for source in sources for one in held(load_table(source), options.seed)]
    print("\n".join(lines(found)))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
