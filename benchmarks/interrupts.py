"""Strikes simulated runs with SIGINT and SIGTERM at random moments of their whole life, and resumes each.

A strike is accepted from the moment the handler is installed, which `/proc` shows; before it, Python itself starts
up and ends as the system pleases. An accepted strike must end the process with 130, without a traceback; 0 is right
only for a strike after the last line, when everything is complete and stored. Each struck database must resume.

    python benchmarks/interrupts.py [--strikes N] [--seed N] [--jobs N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from typer.testing import CliRunner

from search.cli.app import app
from search.storage.store import Store

HARMLESS_S = 180.0
"""After a strike a process should need seconds; one that is still there by then hangs."""
STUDY = ("--study", "kimi-k25", "--simulate")
LAUNCHES = 3


@dataclass(frozen=True)
class Strike:
    """One run and its end.

    Attributes:
        number: Of the signal.
        after_s: From the start of the process.
        accepted: Our handler was installed.
        complete: The last line had been printed by then.
        code: Of the struck process.
        ended_s: From the strike to its end.
        traceback: Its standard error holds one.
        resumed: Exit code of the same command after it.
        launches: In the database then.
    """

    number: str
    after_s: float
    accepted: bool
    complete: bool
    code: int
    ended_s: float
    traceback: bool
    resumed: int
    launches: int

    @property
    def is_kept(self) -> bool:
        """Whether the promise held."""
        if self.resumed != 0 or self.launches != LAUNCHES or (self.traceback and self.accepted):
            return False
        return not self.accepted or self.code == 130 or (self.code == 0 and self.complete)


RESUMING = threading.Lock()
"""Resumes share this process, which has imported everything."""


def words(folder: Path) -> list[str]:
    where = ("--storage", str(folder / "trials.db"), "--reports", str(folder / "reports"))
    return [*STUDY, "--launches", str(LAUNCHES), *where]


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "search.run", *words(folder)]


def is_handled(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def strike(lasts_s: float, seed: int) -> Strike:
    """One run that is struck at a random moment of the `lasts_s` that it should take, and resumed."""
    rng = random.Random(seed)
    number = rng.choice((signal.SIGINT, signal.SIGTERM))
    after_s = rng.uniform(0.0, lasts_s)
    with TemporaryDirectory(prefix="search-interrupts-") as name:
        folder = Path(name)
        out, err = folder / "out", folder / "err"
        with out.open("w") as stdout, err.open("w") as stderr:
            process = subprocess.Popen(command(folder), stdout=stdout, stderr=stderr, preexec_fn=heeding)
        time.sleep(after_s)
        # SIGTERM is the one that counts: Python itself handles SIGINT from its start.
        accepted = process.poll() is None and is_handled(process.pid, signal.SIGTERM)
        complete = "front.csv" in out.read_text()
        struck = time.perf_counter()
        process.send_signal(number)
        try:
            code = process.wait(HARMLESS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        ended_s = time.perf_counter() - struck
        complete = complete or (code == 0 and "summary.md" in out.read_text())
        with RESUMING:
            resumed = CliRunner().invoke(app, ["run", *words(folder)]).exit_code
        return Strike(
            number=number.name,
            after_s=after_s,
            accepted=accepted,
            complete=complete,
            code=code,
            ended_s=ended_s,
            traceback="Traceback" in err.read_text() or "Exception ignored" in err.read_text(),
            resumed=resumed,
            launches=launches_in(folder),
        )


def heeding() -> None:
    """In the child: as a terminal starts it, whatever a shell's background job inherits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def launches_in(folder: Path) -> int:
    """Launches of the resumed study that ended, those that the strike cut included."""
    with Store(folder / "trials.db") as store:
        (study,) = store.studies()
        return sum(launch.outcome is not None for launch in store.launches(study.name))


def life(folder: Path) -> float:
    """Seconds that a run takes that nobody strikes, once its modules are in the file cache."""
    for attempt in ("cold", "warm"):
        began = time.perf_counter()
        subprocess.run(command(folder / attempt), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def run(strikes: int, *, seed: int, jobs: int) -> Iterator[Strike]:
    """`strikes` runs, `jobs` of them at a time: a busy machine stretches the moments between two lines."""
    with TemporaryDirectory(prefix="search-interrupts-") as name, ThreadPoolExecutor(jobs) as pool:
        folders = [Path(name) / str(job) for job in range(jobs)]
        for folder in folders:
            for attempt in ("cold", "warm"):
                (folder / attempt).mkdir(parents=True)
        lasts_s = max(pool.map(life, folders))
        yield from pool.map(partial(strike, lasts_s), range(seed, seed + strikes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--strikes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: list[Strike] = []
    for one in run(options.strikes, seed=options.seed, jobs=options.jobs):
        found.append(one)
        if not one.is_kept:
            print(f"lost: {one}", flush=True)
        if options.json:  # renewed after each, for it takes an hour
            options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    lost = [one for one in found if not one.is_kept]
    accepted = [one for one in found if one.accepted]
    for code, count in sorted(Counter(one.code for one in accepted).items()):
        print(f"exit {code:>4}  {count:>4} of {len(accepted)} accepted strikes")
    print(f"too early or too late to be accepted: {len(found) - len(accepted)}")
    print(f"slowest end {max((one.ended_s for one in accepted), default=0.0):.1f} s after its strike")
    if lost:
        raise SystemExit(f"{len(lost)} of {len(found)} strikes were lost.")


if __name__ == "__main__":
    main()
