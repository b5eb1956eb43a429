"""Fits the cost model to the twelve numbers of the Kimi-K2.5 story and writes the parameter file.

python -m benchmarks.fit_story            # refit, write, print
python -m benchmarks.fit_story --profile  # how well each free parameter is determined by the numbers
python -m benchmarks.fit_story --check    # exit 1 where the file on disk is not what the fit gives
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.fitting.fit import Target, fit_physics, solve
from benchmarks.fitting.members import members_of, profile
from benchmarks.fitting.story import STORY
from search.engines.recording import Recording, read_recording
from search.physics.files import dump_physics
from search.physics.provenance import provenance

MEMBERS = 48
SEED = 20260101
ROOT = Path(__file__).parent.parent
PARAMETERS = ROOT / "search" / "physics" / "data" / "kimi_k25_story.json"


def targets(recording: Recording) -> list[Target]:
    """Every rate of a recording, in file order."""
    return [
        Target(row.config, row.concurrency, row.output_tps)
        for row in recording.rows
        if row.concurrency is not None and row.output_tps is not None
    ]


def profiles(numbers: list[Target]) -> Iterator[str]:
    """A line for each free parameter: its miss at two and one standard deviations below, at, and above the fit."""
    best = solve(STORY, numbers)
    yield "root mean square miss with one parameter held and the others refitted, at -2, -1, 0, +1, +2 standard deviations"
    for name, value in best.values.items():
        most = STORY.free[name].most
        steps = [min(max(value + k * best.sds[name], value / 20), most) for k in (-2, -1, 0, 1, 2)]
        shown = "  ".join(f"{miss:.2%}" for _, miss in profile(STORY, numbers, name, steps))
        yield f"{name:14} {value:8.4g} ± {best.sds[name]:<8.2g} {shown}"


def main() -> int:
    """Run the command line above."""
    parser = argparse.ArgumentParser(description="Fit the cost model to the Kimi-K2.5 story.")
    parser.add_argument("--recording", type=Path, default=ROOT / "recordings" / "kimi-k25-story")
    parser.add_argument("--out", type=Path, default=PARAMETERS)
    parser.add_argument("--check", action="store_true", help="compare with --out instead of writing it")
    parser.add_argument("--profile", action="store_true", help="print the profile of each free parameter instead")
    options = parser.parse_args()
    numbers = targets(read_recording(options.recording))
    if options.profile:
        print("\n".join(profiles(numbers)))
        return 0
    physics = fit_physics(STORY, numbers, members=members_of(STORY, numbers, count=MEMBERS, seed=SEED))
    print("\n".join(provenance(physics)))
    text = dump_physics(physics)
    if options.check:
        return int(options.out.read_text(encoding="utf-8") != text)
    options.out.write_text(text, encoding="utf-8")
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
