"""Do the intervals hold the truth, and what do verdicts say when nothing is true?

Draws studies with known truth, and hands them to the functions that a study's analysis is made of.

    python -m benchmarks.coverage [--quick] [--only KIND ...] [--draws N] [--jobs N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage.intervals import DESIGNS, Cell, InsideCell, cell, inside_cell
from benchmarks.coverage.studies import Design, Tally, tally
from benchmarks.coverage.worlds import World

RESULTS = Path(__file__).parent.parent / "results" / "coverage.json"
BETWEEN = (0.0, 0.01, 0.02, 0.04)
WITHIN = (0.01, 0.03, 0.05)
UNASSUMED = {
    "heavy tails (t3)": World(0.02, 0.01, tails=3),
    "unequal scatter, two quiet configs compared": World(0.02, 0.01, unequal=2),
    "unequal scatter, two loud configs compared": World(0.02, 0.01, unequal=0.5),
    "repeats rise by 1% each": World(0.02, 0.01, place=0.01),
    "host drifts by 4%": World(0.02, 0.01, drift=0.04),
}
"""Worlds that the model does not know of, with starts that scatter by 2% and repeats by 1% in the mean config."""
GROUPS = ("interval", "inside", "study")
MORE = Design(repeats=(2, 4, 3))
Task = tuple[str, str, tuple[Any, ...]]


def tasks(*, quick: bool) -> Iterator[Task]:
    """(Group, name, arguments) of every cell."""
    freedoms = (1, 4, 7) if quick else tuple(DESIGNS)
    for between in (0.0, 0.02) if quick else BETWEEN:
        for within in (0.01, 0.03) if quick else WITHIN:
            for freedom in freedoms:
                yield "interval", "", (World(between, within), freedom, "2 to 4")
    for name, world in UNASSUMED.items():
        for freedom in (7,) if quick else (4, 7, 12):
            yield "interval", name, (world, freedom, "2 to 4")
    for place in (0.0, 0.005):
        for starts in (3,) if quick else (1, 2, 3, 4):
            yield "inside", "", (0.02, 0.01, place, starts)
    for between in (0.02,) if quick else (0.0, 0.02, 0.04):
        for within in (0.01,) if quick else (0.01, 0.03):
            yield "study", "nothing differs", (World(between, within), Design(), 0.0)
    for within in (0.01,) if quick else (0.01, 0.03):
        yield "study", "one config +10% at C=100", (World(0.02, within), Design(), 0.1)
    if quick:
        return
    yield "study", "one config +10% at C=100", (World(0.02, 0.03), MORE, 0.1)
    yield "study", "one config +10% at C=100", (World(0.04, 0.01), Design(), 0.1)
    yield "study", "one config +10% at C=100", (World(0.04, 0.01), Design(baseline=5, afresh=4, picks=2), 0.1)
    for name, world in UNASSUMED.items():
        yield "study", f"nothing differs; {name}", (world, Design(), 0.0)


def run(task: Task, draws: int) -> Cell | InsideCell | Tally:
    """One cell; its seed derives from what it is, so cells do not depend on one another."""
    group, name, arguments = task
    rng = np.random.default_rng(zlib.crc32(repr((group, name, arguments)).encode()))
    functions: dict[str, Callable[..., Cell | InsideCell | Tally]] = {
        "interval": cell,
        "inside": inside_cell,
        "study": tally,
    }
    return functions[group](*arguments, draws, rng)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cells, print them, write them down."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few cells; without --draws 200 draws each")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="kinds of cells; the others stay")
    parser.add_argument("--draws", type=int, metavar="N", help="draws of a cell (default 2000)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help=f"default {RESULTS.name}; not written with --quick")
    options = parser.parse_args(arguments)
    draws = options.draws or (200 if options.quick else 2000)
    wanted = [task for task in tasks(quick=options.quick) if task[0] in options.only]
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            found = list(pool.map(run, wanted, [draws] * len(wanted)))
    else:
        found = [run(task, draws) for task in wanted]
    rows = [(task[0], task[1], result) for task, result in zip(wanted, found, strict=True)]
    print("\n".join(lines(rows)))
    path = options.json or (None if options.quick else RESULTS)
    if path is not None:
        mine = [{"group": group, "name": name, **asdict(result)} for group, name, result in rows]
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        others = [row for row in before if row["group"] not in options.only]
        result = sorted([*mine, *others], key=lambda row: (*GROUPS, row["group"]).index(row["group"]))
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def lines(rows: Sequence[tuple[str, str, Cell | InsideCell | Tally]]) -> Iterator[str]:
    """Tables in Markdown."""
    cells = [(name, row) for _, name, row in rows if isinstance(row, Cell)]
    freedoms = sorted({row.freedom for name, row in cells if not name})
    yield "95% interval of a ratio: share that holds the truth, (median half width), [that of who knows the scatters]"
    yield ""
    yield f"| starts | repeats | {' | '.join(f'{freedom} df' for freedom in freedoms)} |"
    yield f"|---|---|{'---|' * len(freedoms)}"
    keys = dict.fromkeys((row.world.between, row.world.within) for name, row in cells if not name)
    for between, within in keys:
        mine = [t for name, t in cells if not name and (t.world.between, t.world.within) == (between, within)]
        yield f"| {between:.0%} | {within:.0%} | {' | '.join(map(_cell, mine))} |"
    yield ""
    yield "| worlds that the model does not know of | pooled df | holds (half width) [oracle] | next start |"
    yield "|---|---|---|---|"
    for name, row in cells:
        if name:
            yield f"| {name} | {row.freedom} | {_cell(row)} | {row.next_held:.1%} |"
    yield ""
    yield "| inside a start: change per place | starts | holds | half width | started apart, scatter known | same within 2% |"
    yield "|---|---|---|---|---|---|"
    for _, _, one in rows:
        if isinstance(one, InsideCell):
            yield f"| {one.place:.1%} | {one.starts} | {one.held:.1%} | {one.half:.1%} | {one.across:.1%} | {one.same:.0%} |"
    yield ""
    yield (
        "| study | starts, repeats | baseline, afresh x picks, repeats | any false gain | found | its error | drift "
        "| question | knob | picks' intervals hold (of what the search ranked first) | df |"
    )
    yield f"|{'---|' * 11}"
    for _, name, study in rows:
        if isinstance(study, Tally):
            yield _study_line(name, study)


def _cell(row: Cell) -> str:
    return f"{row.held:.1%} ({row.half:.1%}) [{row.oracle:.1%}]"


def _study_line(name: str, row: Tally) -> str:
    design, world = row.design, row.world
    repeats = "/".join(map(str, design.repeats))
    found = f"{row.found:.1%} | {row.error:+.1%}" if row.gain else "- | -"
    return (
        f"| {name} | {world.between:.0%}, {world.within:.0%} | {design.baseline}, {design.afresh} x {design.picks}, "
        f"{repeats} | {row.any_gain:.1%} | {found} | {row.drift:.1%} | {row.question:.1%} | {row.knob:.1%} "
        f"| {row.held:.1%} ({row.first:.1%}) | {row.freedom:.0f} |"
    )


if __name__ == "__main__":
    raise SystemExit(main())
