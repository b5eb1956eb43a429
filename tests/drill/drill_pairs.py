"""Two drivers on one study, the second in a PID namespace of its own and with another time of day.

The first is held before its first launch, whose row is open, until the second has looked at it, let it live and
measures something else. Then one of them is struck under load, or none. The other one finishes what is left, and the
same command, run again, closes and measures what was struck.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from drill_cases import CLEAN_S, CLEAN_STOPPED_DRIVER_S, RUN_S, SIGNALS, Result, look, place_of, start
from drill_databases import POSTGRES, SQLITE, binaries
from drill_driver import SHARED_CONFIGS
from drill_moments import Scene
from drill_processes import can_be_bound, launch_tag, launch_tags, marked, named, nothing_stays, until

from search.outcomes import Outcome

CLOCKS = {"behind": -3600.0, "ahead": 3600.0}
"""Seconds by which the second driver's clock is off."""

ENDS_S = 2 * RUN_S
"""For two drivers side by side, one of which watches the other before it begins."""


@dataclass(frozen=True)
class Pair:
    """One case; the names are those of `drill_cases.Case`."""

    victims: tuple[str, ...]
    signal: str
    clock: str
    database: str
    moment: str = "beside"
    runaways: bool = False

    def __str__(self) -> str:
        return "-".join(["+".join(self.victims) or "nobody", self.signal, f"beside-{self.clock}", self.database])


def all_pairs() -> list[Pair]:
    """Nobody, the first or the second struck, with both signals, clocks and databases; none where namespaces are denied."""
    if not can_unshare():
        return []
    strikes = [((), "none"), *(((victim,), sign) for victim in ("first", "second") for sign in SIGNALS)]
    databases = (SQLITE, POSTGRES) if binaries() else (SQLITE,)
    return [Pair(*strike, clock, database) for strike in strikes for clock in CLOCKS for database in databases]


def can_unshare() -> bool:
    """Whether this user may make a PID namespace."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(words, capture_output=True, check=False).returncode
    )


class _Failed(Exception):
    """The case cannot go on; the text is the reason."""


def run_pair(case: Pair) -> Result:
    """Both drivers, the strike, the survivor's end, the same command again, and a look at everything."""
    result = Result(case)
    with place_of(result) as (folder, storage, mark):
        try:
            with nothing_stays(mark):
                _side_by_side(case, folder, storage, mark, result)
            with nothing_stays(mark):
                _end(start(folder, storage, mark, "--shared"), "the run afterwards", result)
            measured = {one.config.config_id for one in look(storage, result) if one.outcome is Outcome.MEASURED}
            if unmeasured := set(SHARED_CONFIGS) - measured:
                result.wrong.append(f"never measured: {', '.join(sorted(unmeasured))}")
        except _Failed as error:
            tail = (folder / "driver.log").read_text(errors="replace").strip().splitlines()[-6:]
            result.wrong.append(f"{error}: {' | '.join(tail)}")
    return result


def _side_by_side(case: Pair, folder: Path, storage: str, mark: str, result: Result) -> None:
    first = start(folder, storage, mark, "--shared", "--hold", "before")
    drivers = {"first": first}
    try:
        _wait((folder / "reached").exists, first, "the first driver never came to its launch")
        words = ("--shared", "--clock", str(CLOCKS[case.clock]))
        drivers["second"] = second = start(folder, storage, mark, *words, apart=True)
        scene = Scene(folder, psutil.Process(second.pid), storage)
        _wait(lambda: scene.phases(2) is not None, second, "the second driver never launched anything")
        if scene.phases(1) is None:
            result.wrong.append("the second driver closed the launch of the first, which lives")
        (folder / "go").touch()
        if case.victims:
            _strike(case, drivers, scene, mark, result)
        for name, driver in drivers.items():
            if name not in case.victims:
                _end(driver, f"the {name} driver", result)
    finally:
        for driver in drivers.values():
            driver.kill()
            driver.wait()


def _strike(case: Pair, drivers: dict[str, subprocess.Popen[bytes]], scene: Scene, mark: str, result: Result) -> None:
    """Strike a driver while its launch has a phase behind it, and wait until nothing of that launch is left."""
    (name,) = case.victims
    launch = 1 if name == "first" else 2
    _wait(lambda: scene.phases(launch) == 1, drivers[name], f"launch {launch} was never under load")
    victim = psutil.Process(drivers[name].pid)
    if name == "second":
        (victim,) = victim.children()  # below `unshare`, the first process of its namespace
    tags, ports = launch_tags(_family(victim)), scene.ports(launch)
    result.in_flight = 1
    struck = time.monotonic()
    victim.send_signal(SIGNALS[case.signal])

    def clean() -> bool:
        return not [p for p in marked(mark) if launch_tag(p) in tags] and all(map(can_be_bound, ports))

    limit_s = CLEAN_STOPPED_DRIVER_S if case.signal == "STOP" else CLEAN_S
    if until(clean, limit_s):
        result.clean_s = round(time.monotonic() - struck, 1)
    else:
        result.processes += named([p for p in marked(mark) if launch_tag(p) in tags])
        result.ports += [port for port in ports if not can_be_bound(port)]
        result.wrong.append(f"not clean within {limit_s:g} s")
    result.survivor = "stopped" if case.signal == "STOP" else "killed"


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _wait(true: Callable[[], bool], driver: subprocess.Popen[bytes], otherwise: str) -> None:
    def over() -> bool:
        return true() or driver.poll() is not None

    if not until(over, RUN_S) or not true():
        raise _Failed(f"{otherwise} (exit {driver.poll()})")


def _end(driver: subprocess.Popen[bytes], name: str, result: Result) -> None:
    if not until(lambda: driver.poll() is not None, ENDS_S):
        result.wrong.append(f"{name} hung")
        driver.send_signal(signal.SIGKILL)
    elif driver.returncode != 0:
        result.wrong.append(f"{name} ended with {driver.returncode}")
    else:
        result.survivor = result.survivor or "exit 0"
