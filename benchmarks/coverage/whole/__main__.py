"""Run whole studies with known truth, and print what they say.

    nice python -m benchmarks.coverage.whole --to studies.jsonl [--studies N] [--rows PLACE ...] [--processes N]
        [--seconds S]

Studies are seeded by their number. They are written to `--to` as they end; the same command again goes on where that
file ends, so a run may be cut short at any moment, here or on another machine. Rows take turns, so whatever time there
is, all of them have about as many studies.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage.__main__ import RESULTS
from benchmarks.coverage.whole.counting import counted, lines
from benchmarks.coverage.whole.files import line_of, read, write_results
from benchmarks.coverage.whole.running import run
from benchmarks.coverage.whole.worlds import ASIDE, ROWS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.whole", description=__doc__)
    parser.add_argument("--to", type=Path, metavar="PATH", help="write every study there, and go on where it ends")
    parser.add_argument("--studies", type=int, default=400, metavar="N", help="of each row (default 400)")
    parser.add_argument("--first", type=int, default=ASIDE, metavar="N", help=f"number of the first study ({ASIDE})")
    parser.add_argument("--rows", nargs="+", type=int, metavar="PLACE", help="of the table, from 0; all without it")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="side by side (default 1)")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no study after so long")
    parser.add_argument(
        "--read", nargs="+", type=Path, metavar="PATH", help="run nothing, print what was written there"
    )
    parser.add_argument("--results", action="store_true", help=f"put the counts into {RESULTS.name} too")
    options = parser.parse_args(arguments)
    found = {row: dict(studies) for row, studies in read(options.read or ()).items()}
    if not options.read:
        if options.to and options.to.exists():
            found = {row: dict(studies) for row, studies in read([options.to], only_this_version=True).items()}
        rows = [ROWS[place] for place in options.rows] if options.rows else ROWS
        numbers = range(options.first, options.first + options.studies)
        tasks = [(row, number) for number in numbers for row in rows if number not in found.get(row, {})]
        for (row, number), studies in run(tasks, processes=options.processes, seconds=options.seconds):
            found.setdefault(row, {})[number] = studies
            if options.to:
                with options.to.open("a", encoding="utf-8") as file:
                    file.write(line_of(row, number, studies))
    print("\n".join(lines(found)))
    if options.results:
        write_results(RESULTS, [one.as_json() for one in counted(found)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
