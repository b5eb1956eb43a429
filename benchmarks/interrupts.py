"""Strikes simulated runs with SIGINT and SIGTERM at random moments of their whole life, and resumes each.

A strike is accepted from the moment the handler is installed, which `/proc` shows; before it, Python itself starts
up and ends as the system pleases. An accepted strike must end the process with 130, without a traceback; 0 is right
only for a strike after the last line, when everything is complete and stored. One that comes between the first line of
the run and its end must say how to resume. Each struck database must resume.

Some runs are whole processes, which mostly import; the others are forked from one that has imported everything, so
that most of their strikes meet launches.

    python benchmarks/interrupts.py [--strikes N] [--seed N] [--jobs N] [--json PATH]
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from typer.testing import CliRunner

from search.cli.app import app
from search.run import _work
from search.storage.store import Store
from search.study.events import Ending
from search.study.signals import interruptible

HARMLESS_S = 180.0
"""After a strike a process should need seconds; one that is still there by then hangs."""
SLOW_S = 4.0
"""After so long a struck process that was forked is asked every few seconds where it is."""
STUDY = ("--study", "kimi-k25", "--simulate")
LAUNCHES = 3
WHOLE = 0.3
"""Share of runs that are whole processes."""


@dataclass(frozen=True)
class Strike:
    """One run and its end.

    Attributes:
        number: Of the signal.
        whole: The run is a whole process; else it is forked with everything imported.
        after_s: From the start of the process.
        accepted: Our handler was installed.
        complete: The last line had been printed by then.
        running: It met the loop: the run had printed its plan and ended before its time.
        says_how: Standard error says how to resume.
        code: Of the struck process.
        ended_s: From the strike to its end.
        traceback: Its standard error holds one.
        resumed: Exit code of the same command after it.
        launches: In the database then.
        where: What its threads were doing while it took longer than `SLOW_S`; innermost first, one text a look.
    """

    number: str
    whole: bool
    after_s: float
    accepted: bool
    complete: bool
    running: bool
    says_how: bool
    code: int
    ended_s: float
    traceback: bool
    resumed: int
    launches: int
    where: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether the promise held."""
        if self.resumed != 0 or self.launches != LAUNCHES or (self.traceback and self.accepted):
            return False
        if self.accepted and self.running and not self.says_how:
            return False
        return not self.accepted or self.code == 130 or (self.code == 0 and self.complete)


RESUMING = threading.Lock()
"""Resumes share this process, which has imported everything."""


def words(folder: Path) -> list[str]:
    where = ("--storage", str(folder / "trials.db"), "--reports", str(folder / "reports"))
    return [*STUDY, "--launches", str(LAUNCHES), *where]


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "search.run", *words(folder)]


class Process(Protocol):
    """A run under way."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def wait(self, timeout: float) -> int:
        """Its exit code once it has one; `subprocess.TimeoutExpired` where that takes too long."""
        ...


class Forked:
    """A run forked from a process that has imported everything.

    Args:
        folder: Of its database, its report and what it says.
    """

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__ if __name__ != "__main__" else "benchmarks.interrupts", *PRELOADED])
        self._process = context.Process(target=forked, args=(folder,))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """See `Process`."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """See `Process`."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked run", timeout)
        return self._process.exitcode


PRELOADED = ("search.app.run", "search.cli.display", "search.model.belief", "search.report.page")
"""What a run imports late."""


def forked(folder: Path) -> None:
    """The run, in its process."""
    for name, stream in (("out", 1), ("err", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), stream)
    heeding()
    stacks = (folder / "stacks").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks)
    sys.argv = ["search.run", *words(folder)]
    interruptible(_work)


def started(folder: Path, *, whole: bool) -> Process:
    """A run whose streams go to `out` and `err` in `folder`."""
    if not whole:
        return Forked(folder)
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        return subprocess.Popen(command(folder), stdout=out, stderr=err, preexec_fn=heeding)


def is_handled(pid: int, number: int) -> bool:
    """Whether a process is there and has a handler of its own for a signal."""
    caught = "0"
    with suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def said(folder: Path, name: str) -> str:
    """What a run has written to `out` or `err` so far."""
    path = folder / name
    return path.read_text() if path.exists() else ""


def is_running(out: str) -> bool:
    """Whether a run that says this has told its plan and has not come to an end of its own."""
    ends = [line.removeprefix("ended: ") for line in out.splitlines() if line.startswith("ended: ")]
    return "\nplan: " in out and all(end == Ending.INTERRUPTED for end in ends)


def strike(lasts_s: Mapping[bool, float], seed: int) -> Strike:
    """One run that is struck at a random moment of the time that it should take, and resumed.

    Args:
        lasts_s: How long a run takes that nobody strikes, by whether it is a whole process.
        seed: Of everything random.
    """
    rng = random.Random(seed)
    number = rng.choice((signal.SIGINT, signal.SIGTERM))
    whole = rng.random() < WHOLE
    after_s = rng.uniform(0.0, lasts_s[whole])
    with TemporaryDirectory(prefix="search-interrupts-") as name:
        folder = Path(name)
        process = started(folder, whole=whole)
        time.sleep(after_s)
        # SIGTERM is the one that counts: Python itself handles SIGINT from its start.
        accepted = process.poll() is None and is_handled(process.pid, signal.SIGTERM)
        complete = "front.csv" in said(folder, "out")
        struck = time.perf_counter()
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        code = awaited(process, asked=accepted and not whole)
        ended_s = time.perf_counter() - struck
        out, err = said(folder, "out"), said(folder, "err")
        complete = complete or (code == 0 and "summary.md" in out)
        with RESUMING:
            resumed = CliRunner().invoke(app, ["run", *words(folder)]).exit_code
        return Strike(
            number=number.name,
            whole=whole,
            after_s=after_s,
            accepted=accepted,
            complete=complete,
            running=is_running(out),
            says_how="\nResume with: " in err,
            code=code,
            ended_s=ended_s,
            traceback="Traceback" in err or "Exception ignored" in err,
            resumed=resumed,
            launches=launches_in(folder),
            where=tuple(said(folder, "stacks").split("\n\n\n")) if said(folder, "stacks") else (),
        )


def awaited(process: Process, *, asked: bool) -> int:
    """The exit code of a struck run; killed once it hangs.

    Args:
        process: The run.
        asked: Where it is, while it takes long: it has a handler for that.
    """
    waited = 0.0
    while waited < HARMLESS_S:
        try:
            return process.wait(SLOW_S)
        except subprocess.TimeoutExpired:
            waited += SLOW_S
        if asked:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGUSR1)
    os.kill(process.pid, signal.SIGKILL)
    return process.wait(HARMLESS_S)


def heeding() -> None:
    """In the child: as a terminal starts it, whatever a shell's background job inherits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def launches_in(folder: Path) -> int:
    """Launches of the resumed study that ended, those that the strike cut included."""
    with Store(folder / "trials.db") as store:
        (study,) = store.studies()
        return sum(launch.outcome is not None for launch in store.launches(study.name))


def life(folder: Path, *, whole: bool) -> float:
    """Seconds that a run takes that nobody strikes."""
    folder.mkdir(parents=True)
    began = time.perf_counter()
    code = started(folder, whole=whole).wait(HARMLESS_S)
    assert code == 0, f"A run that nobody struck ended with {code}: {said(folder, 'err')}"
    return time.perf_counter() - began


def run(strikes: int, *, seed: int, jobs: int) -> Iterator[Strike]:
    """`strikes` runs, `jobs` of them at a time: a busy machine stretches the moments between two lines."""
    with TemporaryDirectory(prefix="search-interrupts-") as name, ThreadPoolExecutor(jobs) as pool:
        # The first of each only fills the file cache and the process that others are forked from.
        lives = [
            (whole, life(Path(name) / str(place), whole=whole)) for place, whole in enumerate((False, False, True))
        ]
        yield from pool.map(partial(strike, dict(lives)), range(seed, seed + strikes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--strikes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: list[Strike] = []
    terminal = sys.stdout  # while a study is resumed in this process, its lines go elsewhere, and so would ours
    for one in run(options.strikes, seed=options.seed, jobs=options.jobs):
        found.append(one)
        if not one.is_kept:
            print(f"lost: {one}", file=terminal, flush=True)
        if options.json:  # renewed after each, for it takes an hour
            options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    lost = [one for one in found if not one.is_kept]
    accepted = [one for one in found if one.accepted]
    for code, count in sorted(Counter(one.code for one in accepted).items()):
        print(f"exit {code:>4}  {count:>4} of {len(accepted)} accepted strikes")
    print(f"in the loop, and told how to resume: {sum(one.running and one.says_how for one in accepted)}")
    print(f"too early or too late to be accepted: {len(found) - len(accepted)}")
    print(f"slowest end {max((one.ended_s for one in accepted), default=0.0):.1f} s after its strike")
    if lost:
        raise SystemExit(f"{len(lost)} of {len(found)} strikes were lost.")


if __name__ == "__main__":
    main()
