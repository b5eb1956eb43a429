"""Which modules of the package one simulated trial enters, by room: what somebody reads who follows a launch.

A module counts where one of its functions runs between two launches of `search run --simulate`, the display left out.

    python -m benchmarks.modules_entered [--launches N] [--sampler NAME]
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import search
from search.analysis.findings import Judgement
from search.app.options import RunOptions
from search.app.plan import Estimates
from search.app.run import RunEnd, run
from search.storage.records import LaunchRecord
from search.study.events import Ending, Judgements, Launching, RunStart, Step
from search.study.signals import Interrupts

ROOT = Path(search.__file__).parent


class Entered:
    """Collects the files of the package whose functions are called; a display that shows nothing and cuts at launches.

    Attributes:
        trials: Files entered from the beginning of one launch to the next, relative to the package.
    """

    def __init__(self) -> None:
        self.trials: list[list[str]] = []
        self._files: set[str] = set()
        self._began = False

    def seen(self, frame: FrameType, event: str, _: Any) -> None:
        """Take a call in; for `sys.setprofile`. Importing a module does not enter it."""
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(f"{ROOT}/"):
            self._files.add(frame.f_code.co_filename)

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:  # noqa: ARG002
        """See `Listener`."""
        if self._began:
            self.trials.append(sorted(str(Path(file).relative_to(ROOT)) for file in self._files))
        self._files, self._began = set(), True

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""

    def noticed(self, line: str) -> None:
        """See `Display`."""

    def remarked(self, line: str) -> None:
        """See `Display`."""

    def finished(self, end: RunEnd) -> None:
        """See `Display`."""

    def expecting(self, estimates: Estimates, folder: Path) -> None:
        """See `Display`."""

    def stepped(self, step: Step) -> None:
        """See `Display`."""

    def close(self) -> None:
        """See `Display`."""


def entered(launches: int, sampler: str | None) -> list[list[str]]:
    """Files of each launch but the last of a simulated kimi-k25."""
    watch = Entered()
    with TemporaryDirectory() as folder:
        here = Path(folder)
        options = RunOptions(
            here=here,
            study="kimi-k25",
            simulate=True,
            storage=str(here / "trials.db"),
            reports=here / "reports",
            launches=launches,
            sampler=sampler,
        )
        threading.setprofile(watch.seen)
        sys.setprofile(watch.seen)
        try:
            run(options, lambda: watch, Interrupts())
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return watch.trials


def main(argv: Sequence[str] | None = None) -> None:
    """Print the counts of all launches, and the rooms of the median one."""
    parser = argparse.ArgumentParser(description="Modules that one simulated trial enters.")
    parser.add_argument("--launches", type=int, default=25)
    parser.add_argument("--sampler")
    options = parser.parse_args(argv)
    trials = entered(options.launches, options.sampler)
    print("modules entered, launch by launch:", *map(len, trials))
    median = sorted(trials, key=len)[len(trials) // 2]
    print(f"the median launch enters {len(median)}:")
    for room, files in groupby(median, key=lambda file: file.split("/")[0].removesuffix(".py")):
        names = [Path(file).stem for file in files]
        print(f"  {room:12} {len(names):3}  {' '.join(names)}")


if __name__ == "__main__":
    main()
