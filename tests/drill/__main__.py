"""`python tests/drill`: every case, two at a time; a table on stdout, `--json FILE` for machines."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drill_cases import Case, Result, all_cases, run_case, sample
from drill_pairs import Pair, all_pairs, run_pair

_HEAD = (
    "victim",
    "signal",
    "moment",
    "database",
    "clean s",
    "lost",
    "processes",
    "ports",
    "torn",
    "twice",
    "ray",
    "driver",
    "case s",
    "",
)


def _cells(result: Result) -> tuple[object, ...]:
    case = result.case
    beside = f" {case.clock}" if isinstance(case, Pair) else ""
    return (
        "+".join(case.victims), case.signal, f"{case.moment}{beside}{' +' if case.runaways else ''}", case.database,
        "-" if result.clean_s is None else f"{result.clean_s:.1f}",
        result.lost, len(result.processes), len(result.ports), len(result.torn), len(result.duplicates),
        result.daemons, result.survivor, f"{result.total_s:.0f}", "; ".join(result.wrong) or "ok",
    )  # fmt: skip


def _line(cells: tuple[object, ...]) -> str:
    widths = (18, 6, 15, 8, 7, 4, 9, 5, 4, 5, 3, 8, 6, 0)
    return "  ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _run(case: Case | Pair) -> Result:
    return run_pair(case) if isinstance(case, Pair) else run_case(case)


def main() -> int:
    """Exit status 1 when a case went wrong."""
    parser = argparse.ArgumentParser(prog="python tests/drill", description=__doc__)
    parser.add_argument("--only", default="*", help="cases by name, such as 'driver-KILL-*'")
    parser.add_argument("--sample", type=int, default=0, help="so many cases, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cases = sample(args.seed, args.sample) if args.sample else [*all_cases(), *all_pairs()]
    cases = [case for case in cases if fnmatch.fnmatch(str(case), args.only)]
    print(_line(_HEAD))
    results = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for result in pool.map(_run, cases):
            results.append(result)
            print(_line(_cells(result)), flush=True)
            if args.json:
                args.json.write_text(json.dumps([result.as_row() for result in results], indent=1) + "\n")
    wrong = sum(bool(result.wrong) for result in results)
    print(f"{len(results)} cases, {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
