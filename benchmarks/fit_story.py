"""Fits the cost model to the twelve numbers of the Kimi-K2.5 story and writes the parameter file.

python -m benchmarks.fit_story            # refit, write, print
python -m benchmarks.fit_story --check    # exit 1 where the file on disk is not what the fit gives
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.fitting.fit import Target, fit_physics
from benchmarks.fitting.story import STORY
from search.engines.recording import Recording, read_recording
from search.physics.files import dump_physics
from search.physics.provenance import provenance

ROOT = Path(__file__).parent.parent
PARAMETERS = ROOT / "search" / "physics" / "data" / "kimi_k25_story.json"


def targets(recording: Recording) -> list[Target]:
    """Every rate of a recording, in file order."""
    return [
        Target(row.config, row.concurrency, row.output_tps)
        for row in recording.rows
        if row.concurrency is not None and row.output_tps is not None
    ]


def main() -> int:
    """Run the command line above."""
    parser = argparse.ArgumentParser(description="Fit the cost model to the Kimi-K2.5 story.")
    parser.add_argument("--recording", type=Path, default=ROOT / "recordings" / "kimi-k25-story")
    parser.add_argument("--out", type=Path, default=PARAMETERS)
    parser.add_argument("--check", action="store_true", help="compare with --out instead of writing it")
    options = parser.parse_args()
    physics = fit_physics(STORY, targets(read_recording(options.recording)))
    print("\n".join(provenance(physics)))
    text = dump_physics(physics)
    if options.check:
        return int(options.out.read_text(encoding="utf-8") != text)
    options.out.write_text(text, encoding="utf-8")
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
