"""`python -m benchmarks.race`: see `--help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.race.files import as_json, write_plot
from benchmarks.race.printing import lines
from benchmarks.race.rivals import RIVALS, parse_entry
from benchmarks.race.running import run_tasks, tasks
from benchmarks.race.scoring import Score
from benchmarks.race.sources import HERE, Source, folders, load_table, own_worlds
from benchmarks.race.summary import summarize
from benchmarks.race.worlds import HALVES, write_world
from search.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _race(options)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.race",
        description="Race samplers on tables. Without a choice of tables: the recordings, the simulator and the building half.",
        epilog="entries:\n"
        + "\n".join(f"  {name:11} {rival.text}" for name, rival in RIVALS.items())
        + "\nOptions of an entry follow a colon: `finite-gp:feasibility=no,gating=yes`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--samplers", nargs="+", metavar="ENTRY", help="who races; all that can without it")
    parser.add_argument(
        "--worlds", nargs="+", type=Path, default=[], metavar="DIR", help="recordings, or folders of them"
    )
    parser.add_argument("--half", nargs="+", choices=HALVES, default=[], help="worlds of our own")
    parser.add_argument("--count", type=int, default=24, metavar="N", help="worlds of each half (default 24)")
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N", help="leave out the first N of each half: to judge by fresh ones"
    )
    parser.add_argument("--recordings", action="store_true", help="the recordings of this repository")
    parser.add_argument("--simulator", action="store_true", help="the study kimi-k25 on its cost model")
    parser.add_argument(
        "--seeds", type=int, default=5, metavar="N", help="races of each entry on each table (default 5)"
    )
    parser.add_argument("--budget", type=int, default=40, metavar="N", help="launches of a race (default 40)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every figure there")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="write a page with plots there")
    parser.add_argument(
        "--write-worlds", type=Path, metavar="DIR", help="write the worlds of `--half` as recordings; no race"
    )
    return parser


def _race(options: argparse.Namespace) -> int:
    for name in ("seeds", "budget", "jobs", "count"):
        if getattr(options, name) < 1:
            raise UsageError(f"`--{name} >= 1` must hold, but got {getattr(options, name)}.")
    if options.skip < 0:
        raise UsageError(f"`--skip >= 0` must hold, but got {options.skip}.")
    if options.write_worlds:
        _write_worlds(options)
        return 0
    sources = _sources(options)
    entries = list(_entries(options.samplers))
    todo = tasks(sources, entries, seeds=options.seeds, budget=options.budget)

    def tell(done: int, score: Score) -> None:
        if done % 100 == 0:
            sys.stderr.write(f"{done} of {len(todo)} races, now {score.table}\n")

    scores = run_tasks(todo, jobs=options.jobs, tell=tell)
    summaries = summarize(scores)
    print("\n".join(lines(summaries, budget=options.budget)))
    if options.json:
        asked = {"entries": entries, "tables": [f"{source.group}/{Path(source.where).name}" for source in sources]}
        options.json.write_text(
            as_json(scores, summaries, asked | {"seeds": options.seeds, "budget": options.budget}) + "\n",
            encoding="utf-8",
        )
    if options.plot:
        write_plot(options.plot, summaries)
    return 0


def _write_worlds(options: argparse.Namespace) -> None:
    if not options.half:
        raise UsageError("`--write-worlds` writes the worlds of `--half building`, `--half heldout` or both; name one.")
    for half in options.half:
        for source in own_worlds(half, options.count, skip=options.skip):
            table = load_table(source)
            write_world(options.write_worlds / table.name, table)


def _sources(options: argparse.Namespace) -> list[Source]:
    anything = options.worlds or options.half or options.recordings or options.simulator
    sources = [source for path in options.worlds for source in folders(path)]
    if options.recordings or not anything:
        sources += folders(HERE / "recordings")
    if options.simulator or not anything:
        sources.append(Source("simulator", "kimi-k25", "simulator"))
    for half in options.half or ([] if anything else ["building"]):
        sources += own_worlds(half, options.count, skip=options.skip)
    return sources


def _entries(wanted: Sequence[str] | None) -> Sequence[str]:
    """Entries that can race here; who cannot is named on stderr and left out.

    Raises:
        UsageError: An entry is not understood, or nobody is left.
    """
    able: list[str] = []
    for entry in dict.fromkeys(wanted or RIVALS):
        if reason := parse_entry(entry)[0].missing():
            sys.stderr.write(f"{entry} does not race: {reason}.\n")
        else:
            able.append(entry)
    if not able:
        raise UsageError("A race needs at least one entry that can race here, but none is left.")
    return able


if __name__ == "__main__":
    sys.exit(main())
