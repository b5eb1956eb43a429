"""The table of cases, and one case from its first process to its verdict."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import optuna
import psutil
from drill_databases import POSTGRES, SQLITE, binaries, database_of
from drill_driver import CONFIGS, LATENCY, NAME, SCALE, SLOW, SWITCHED_CONFIGS, THROUGHPUT
from drill_moments import MOMENTS, SWITCHES, Moment, Scene
from drill_processes import MARK, can_be_bound, is_ours, launch_tag, launch_tags, marked, named, nothing_stays, until

from search.outcomes import Outcome, Reason
from search.storage.optuna_side import optuna_session
from search.storage.records import LaunchRecord
from search.storage.store import Store

UNSCALED_S = 6.0
"""Part of each deadline that does not shrink with the product's waits: starting and scheduling processes."""

CLEAN_S = 30 / SCALE + UNSCALED_S
CLEAN_STOPPED_DRIVER_S = 60 / SCALE + UNSCALED_S
FOUND_OUT_S = 10.0 * SLOW
"""A stopped server or guardian is first found out, by silence, and then has its grace."""

RUN_S = 60.0 * SLOW
"""For the whole study from a standing start; longer is a hang."""

HUNG_S = 40.0 * SLOW
"""From the fault to the end of a driver that survives it."""

CTRL_C_S = 5.0 * SLOW
"""From Ctrl-C to the end of a driver that hung."""

TRIES = 3
"""Attempts at a case whose moment was missed."""

FINISHED = "exit 0"
"""Of a driver that survived and finished the study by itself: nothing is left to be run again."""

SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}
SINGLES = ("driver", "actor", "guardian", "launcher", "scheduler", "raylet")
PAIRS = (
    ("driver", "guardian"), ("driver", "actor"), ("driver", "raylet"),
    ("actor", "guardian"), ("actor", "launcher"), ("guardian", "launcher"), ("guardian", "scheduler"),
)  # fmt: skip
PAIR_MOMENTS = ("loading", "loaded")
RUNAWAYS = (("driver",), ("actor",), ("guardian",), ("launcher",), ("scheduler",), ("actor", "guardian"))
"""Whom to strike while a server has runaways. Of driver and guardian together nobody is left to stop them: that is
the next run's first work, or that of `search clean`."""
RUNAWAY_MOMENTS = ("loading", "loaded", "stopping")
ON_POSTGRES = (*((victim,) for victim in SINGLES), ("actor", "guardian"))
"""Struck under load with the study in PostgreSQL; those that a launch has leave runaways there."""
NEED_LAUNCH = frozenset({"guardian", "launcher", "scheduler"})


@dataclass(frozen=True)
class Case:
    """One fault."""

    victims: tuple[str, ...]
    signal: str
    moment: str
    runaways: bool = False
    """Whether the server leaves two processes that forked twice, one of them in a session of its own, deaf to SIGTERM."""
    database: str = SQLITE

    @property
    def at(self) -> Moment:
        return (MOMENTS | SWITCHES)[self.moment]

    def __str__(self) -> str:
        words = [*(["runaways"] if self.runaways else []), *([self.database] if self.database != SQLITE else [])]
        return "-".join(["+".join(self.victims), self.signal, self.moment, *words])

    @property
    def stops_driver(self) -> bool:
        return "driver" in self.victims and self.signal == "STOP"


def all_cases() -> list[Case]:
    """Every victim, signal and moment that go together, pairs at two moments, runaways, switches, and PostgreSQL."""
    singles = [
        Case((victim,), sign, moment)
        for victim in SINGLES
        for sign in SIGNALS
        for moment in MOMENTS
        if MOMENTS[moment].launch or victim not in NEED_LAUNCH
    ]
    pairs = [Case(pair, sign, moment) for pair in PAIRS for sign in SIGNALS for moment in PAIR_MOMENTS]
    hidden = [
        Case(victims, sign, moment, runaways=True)
        for victims in RUNAWAYS
        for sign in SIGNALS
        for moment in (RUNAWAY_MOMENTS if len(victims) == 1 else PAIR_MOMENTS)
    ]
    served = [
        Case(victims, sign, "loaded", runaways=victims in RUNAWAYS, database=POSTGRES)
        for victims in ON_POSTGRES
        for sign in SIGNALS
    ]
    switched = [Case((victim,), sign, moment) for victim in SINGLES for sign in SIGNALS for moment in SWITCHES]
    return singles + pairs + hidden + switched + (served if binaries() else [])


def sample(seed: int, count: int) -> list[Case]:
    """A seeded draw: each single victim with each signal, a guardian lost with runaways, an actor in a build, then others."""
    rng = random.Random(seed)
    shuffled = rng.sample(all_cases(), len(all_cases()))
    first = {(case.victims, case.signal): case for case in reversed(shuffled) if len(case.victims) == 1}
    chosen = sorted(first.values(), key=str)
    always = (Case(("guardian",), "KILL", "loaded", runaways=True), Case(("actor",), "KILL", "building"))
    chosen += [case for case in always if case not in chosen]
    chosen += [case for case in shuffled if case not in chosen and len(case.victims) == 2]
    return chosen[:count]


@dataclass
class Result:
    """One line of the table; `wrong` is empty for a case that passed."""

    case: Any
    """A `Case`, or a `Pair` of drivers."""
    clean_s: float | None = None
    in_flight: int = 0
    lost: int = 0
    processes: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    daemons: int = 0
    survivor: str = ""
    missed: bool = False
    total_s: float = 0.0

    def as_row(self) -> dict[str, Any]:
        """For JSON."""
        case = {**asdict(self.case), "victims": list(self.case.victims)}
        return {**case, **{name: value for name, value in vars(self).items() if name != "case"}}


def run_case(case: Case) -> Result:
    """Run the study, strike, wait until nothing is left, run the same command again, look at everything.

    On a busy machine a moment may pass between two looks: then nothing was struck, and the case starts over.
    """
    for _ in range(TRIES):
        result = _run_once(case)
        if not result.missed:
            break
    return result


def _run_once(case: Case) -> Result:
    result = Result(case)
    with place_of(result) as (folder, storage, mark):
        try:
            with nothing_stays(mark):
                _strike(case, folder, storage, mark, result)
            if result.survivor != FINISHED:
                with nothing_stays(mark):
                    _run_again(case, folder, storage, mark, result)
            _look(case, storage, result)
        except _CaseFailed as error:
            result.missed = isinstance(error, _MomentMissed)
            result.wrong.append(str(error))
    return result


@contextlib.contextmanager
def place_of(result: Result) -> Iterator[tuple[Path, str, str]]:
    """Folder, database and mark of one case, which is timed; what went wrong is kept below `SEARCH_DRILL_KEEP`."""
    began = time.monotonic()
    # Short: the names of Ray's sockets below it may have 107 characters in all.
    folder = Path(tempfile.mkdtemp(prefix="drill-", dir="/tmp"))
    try:
        yield folder, database_of(folder, result.case.database), uuid.uuid4().hex
    finally:
        if result.wrong and (keep := os.environ.get("SEARCH_DRILL_KEEP")):
            ignored = shutil.ignore_patterns("*sock*")
            shutil.copytree(folder, Path(keep) / str(result.case), dirs_exist_ok=True, ignore=ignored)
        shutil.rmtree(folder, ignore_errors=True)
        result.total_s = round(time.monotonic() - began, 1)


class _CaseFailed(Exception):
    """The case cannot go on; the text is the reason."""


class _MomentMissed(_CaseFailed):
    """The study went on to its end before anything was struck."""


def _strike(case: Case, folder: Path, storage: str, mark: str, result: Result) -> None:
    moment = case.at
    driver = start(folder, storage, mark, "--hold", moment.hold, *_misbehaving(case))
    scene = Scene(folder, psutil.Process(driver.pid), storage)
    try:
        _strike_when_due(case, driver, scene, mark, result)
    finally:
        driver.kill()
        driver.wait()


def _strike_when_due(case: Case, driver: subprocess.Popen[bytes], scene: Scene, mark: str, result: Result) -> None:
    folder, moment = scene.folder, case.at
    victims: list[psutil.Process] = []

    def due() -> bool:
        if driver.poll() is not None:
            raise _MomentMissed(f"the driver ended before the moment came: {_tail(folder)}")
        if not moment.reached(scene):
            return False
        victims[:] = [process for victim in case.victims if (process := scene.process(victim))]
        return len(victims) == len(case.victims)

    if not until(due, RUN_S):
        raise _CaseFailed(f"the moment never came: {_tail(folder)}")
    result.in_flight = scene.in_flight()
    tags, ports = launch_tags(marked(mark)), scene.ports(moment.server or moment.launch)
    struck = time.monotonic()
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, SIGNALS[case.signal])
    (folder / "go").touch()

    def left() -> list[psutil.Process]:
        return [p for p in marked(mark) if launch_tag(p) in tags]

    def clean() -> bool:
        return not left() and all(map(can_be_bound, ports))

    limit_s = CLEAN_STOPPED_DRIVER_S if case.stops_driver else CLEAN_S
    if case.signal == "STOP" and not NEED_LAUNCH.isdisjoint(case.victims):
        limit_s += FOUND_OUT_S
    if until(clean, limit_s):
        result.clean_s = round(time.monotonic() - struck, 1)
    else:
        result.processes += named(left())
        result.ports += [port for port in ports if not can_be_bound(port)]
        result.wrong.append(f"not clean within {limit_s:g} s")
    if "driver" in case.victims:
        stopped = {process.pid for process in victims} if case.signal == "STOP" else set()
        _after_driver(case, mark, result, limit_s - (time.monotonic() - struck), stopped)
    else:
        _after_others(driver, folder, mark, result, HUNG_S - (time.monotonic() - struck))


def _after_driver(case: Case, mark: str, result: Result, limit_s: float, stopped: set[int]) -> None:
    """Whatever held GPUs for a driver that is gone, or stopped, has to be gone too.

    An actor that was stopped itself holds nothing any more once its server is gone; it leaves when it goes on.
    """

    def ours() -> list[psutil.Process]:
        return [process for process in marked(mark) if is_ours(process) and process.pid not in stopped]

    _expect_none(ours, limit_s, result)
    # Ray's daemons hold no GPU, and their waits are not ours: they are counted only.
    result.daemons = len(marked(mark)) - (1 if case.stops_driver else 0)
    result.survivor = "stopped" if case.stops_driver else "killed"


def _after_others(driver: subprocess.Popen[bytes], folder: Path, mark: str, result: Result, limit_s: float) -> None:
    """The driver has survived, and has to come to an end by itself."""
    if not until(lambda: driver.poll() is not None, max(limit_s, UNSCALED_S)):
        result.survivor = "hung"
        result.wrong.append(f"the driver hung in {_where_it_hangs(driver, folder)}")
        driver.send_signal(signal.SIGINT)
        if not until(lambda: driver.poll() is not None, CTRL_C_S):
            result.wrong.append("it did not heed Ctrl-C")
        return
    result.survivor = f"exit {driver.returncode}"
    _expect_none(lambda: [process for process in marked(mark) if is_ours(process)], CLEAN_S, result)
    result.daemons = len(marked(mark))


def _expect_none(left: Callable[[], list[psutil.Process]], limit_s: float, result: Result) -> None:
    if until(lambda: not left(), max(limit_s, UNSCALED_S)):
        return
    names = [name for name in named(left()) if name not in result.processes]
    result.processes += names
    result.wrong.append(f"{len(names)} processes outlived the driver by {limit_s:.0f} s")


def _where_it_hangs(driver: subprocess.Popen[bytes], folder: Path) -> str:
    """The innermost of our own functions that the newest thread is in, as `file:line function`."""
    log = folder / "driver.log"
    told = log.stat().st_size
    driver.send_signal(signal.SIGUSR1)
    frames: list[tuple[str, str, str]] = []

    def dumped() -> bool:
        frames[:] = re.findall(r'File "[^"]*/(search/[^"]+)", line (\d+) in (\w+)', log.read_text()[told:])
        return bool(frames)

    until(dumped, 2)
    return "{}:{} {}".format(*frames[0]) if frames else "a place that it does not tell"


def _misbehaving(case: Case) -> tuple[str, ...]:
    slow = ("--slow", case.at.slow) if case.at.slow else ()
    return (*slow, *(("--runaways",) if case.runaways else ()))


def _run_again(case: Case, folder: Path, storage: str, mark: str, result: Result) -> None:
    driver = start(folder, storage, mark, *_misbehaving(case))
    if not until(lambda: driver.poll() is not None, RUN_S):
        result.wrong.append("the second run hung")
        driver.kill()
        driver.wait()
    elif driver.returncode != 0:
        result.wrong.append(f"the second run ended with {driver.returncode}: {_tail(folder)}")


def _look(case: Case, storage: str, result: Result) -> None:
    launches = look(storage, result)
    measured = {launch.config.config_id for launch in launches if launch.outcome is Outcome.MEASURED}
    blamed = {launch.config.config_id for launch in launches if _may_blame_config(case, launch)}
    if unmeasured := set(SWITCHED_CONFIGS if case.at.slow else CONFIGS) - measured - blamed:
        result.wrong.append(f"never measured: {', '.join(sorted(unmeasured))}")


def look(storage: str, result: Result) -> tuple[LaunchRecord, ...]:
    """Count what the database holds once all runs are over: what was lost, is torn, or is there twice."""
    with Store(storage) as store:
        launches = store.launches(NAME)
    with optuna_session(storage) as tables:
        trials = optuna.load_study(study_name=NAME, storage=tables).trials
    measured = Counter(launch.config.config_id for launch in launches if launch.outcome is Outcome.MEASURED)
    numbers = Counter(launch.number for launch in launches)

    result.lost = sum(launch.outcome is not Outcome.MEASURED for launch in launches)
    result.torn += [f"launch {launch.number} has no outcome" for launch in launches if launch.outcome is None]
    result.torn += [
        f"launch {launch.number} is measured without both phases"
        for launch in launches
        if launch.outcome is Outcome.MEASURED and not {LATENCY, THROUGHPUT} <= {p.concurrency for p in launch.phases}
    ]
    result.torn += [f"trial {trial.number} is {trial.state.name}" for trial in trials if not trial.state.is_finished()]
    result.duplicates += [f"launch number {number}" for number, count in numbers.items() if count > 1]
    result.duplicates += [f"{config} measured {count} times" for config, count in measured.items() if count > 1]
    completed = Counter(trial.user_attrs["config_id"] for trial in trials if trial.state.name == "COMPLETE")
    result.duplicates += [f"{config} completed {count} times" for config, count in completed.items() if count > 1]

    if result.lost > result.in_flight:
        ends = ", ".join(
            f"{launch.number} {launch.outcome} {launch.reason}"
            for launch in launches
            if launch.outcome is not Outcome.MEASURED
        )
        result.wrong.append(f"{result.lost} launches lost of {result.in_flight} in flight: {ends}")
    result.wrong += [f"torn: {line}" for line in result.torn] + [f"twice: {line}" for line in result.duplicates]
    return launches


def _may_blame_config(case: Case, launch: LaunchRecord) -> bool:
    """Whether a launch ended as it may when its server itself was struck under load.

    From inside, a server that somebody kills or stops cannot be told from one that dies or hangs
    by itself, and a server that does so under load is the config's fault.
    """
    struck = launch.number == case.at.launch and not NEED_LAUNCH.isdisjoint(case.victims)
    return struck and launch.reason in (Reason.SERVER_CRASH_LOAD, Reason.SERVER_HANG_LOAD)


def start(folder: Path, storage: str, mark: str, *words: str, apart: bool = False) -> subprocess.Popen[bytes]:
    """A driver of the study.

    Args:
        folder: Of the case.
        storage: Its database.
        mark: What its processes are known by.
        words: Of `drill_driver.py`.
        apart: In a PID namespace of its own, as in a container.
    """
    name = "apart" if apart else "ray"
    (folder / name).mkdir(exist_ok=True)
    own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if apart else []
    script = Path(__file__).with_name("drill_driver.py")
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [*own, sys.executable, str(script), str(folder), "--storage", storage, *words],
            env={**os.environ, MARK: mark, "RAY_TMPDIR": str(folder / name)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _tail(folder: Path) -> str:
    lines = (folder / "driver.log").read_text(errors="replace").strip().splitlines()
    return " | ".join(lines[-3:])
