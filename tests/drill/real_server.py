"""The drill on a host with a GPU and the real server: `python tests/drill/real_server.py --study h200-lab STRIKE ...`.

A strike is VICTIM[+VICTIM]-SIGNAL-MOMENT, such as `actor-KILL-loaded`. Boots are dear, so one
study is struck again and again: a driver that survives goes on, one that does not is started
again by the same command, and the study has to come to its end. After each strike the driver's
processes, ports and GPU memory are watched until all is as it was before the first launch.

Run it in a folder of its own: `trials.db` and `reports/` are made there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from drill_cases import SIGNALS
from drill_moments import Scene
from drill_processes import MARK, can_be_bound, is_ours, launch_tag, marked, named, until

from search.host.hardware import probe_host
from search.outcomes import Outcome
from search.storage.store import Store

BOOT_S = 400.0
"""Until a moment must have come; a first boot compiles kernels for two minutes."""

CLEAN_S = 30.0
CLEAN_STOPPED_DRIVER_S = 60.0
FOUND_OUT_S = 60.0
"""A stopped server is found out by silence or a stalled log first, which takes what the product says."""

SAME_MEMORY = 64 * 2**20
"""Bytes by which an idle GPU may differ from itself."""

_LOG_MOMENTS = {"loading": "Load weight begin", "graphs": "Capture cuda graph begin", "ready": "The server is fired up"}
_LOADED_CONNECTIONS = 4


class _DriverEnded(Exception):
    """The driver stopped, as it must after several losses in a row, before the next moment came."""


class RealScene(Scene):
    """As `Scene`, for `search.run`, whose reports lie in a folder named after the study."""

    def _launch_folders(self, launch: int, name: str) -> list[Path]:
        return list((self.folder / "reports").glob(f"**/launches/{launch:04d}-*/{name}"))

    def current(self) -> int:
        """Number of the newest launch; 0 before the first."""
        database = self.folder / "trials.db"
        if not database.exists():
            return 0
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as connection:
            try:
                return int(connection.execute("SELECT coalesce(max(number), 0) FROM search_launches").fetchone()[0])
            except sqlite3.OperationalError:
                return 0


@dataclass
class Struck:
    """One line of the table. Seconds are from the strike; None where the limit passed."""

    strike: str
    launch: int = 0
    processes_s: float | None = None
    ports_s: float | None = None
    memory_s: float | None = None
    memory_before_mib: int = 0
    memory_at_strike_mib: int = 0
    memory_after_mib: int = 0
    driver: str = ""
    left: list[str] = field(default_factory=list)
    ok: bool = False


def gpu_memory() -> int:
    """Bytes in use on the GPUs that are ours."""
    return sum(gpu.memory_used for gpu in probe_host().gpus)


def start(command: Sequence[str], folder: Path, mark: str) -> subprocess.Popen[bytes]:
    """A driver in a session of its own, with SIGINT as a terminal would give it."""
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "import os,signal,sys; signal.signal(signal.SIGINT, signal.default_int_handler); os.execvp(sys.argv[1], sys.argv[1:])", *command],
            env={**os.environ, MARK: mark},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )  # fmt: skip


def reached(scene: RealScene, launch: int, moment: str) -> bool:
    """Whether `launch` is at `moment`, told from its log, its rows and its connections."""
    if moment in _LOG_MOMENTS:
        return _LOG_MOMENTS[moment] in scene.log(launch)
    if moment == "loaded":
        return bool(scene.phases(launch)) and scene.requests(launch) >= _LOADED_CONNECTIONS
    raise SystemExit(f"a moment is one of {', '.join(_LOG_MOMENTS)}, loaded, but got {moment!r}")


def strike(name: str, driver: subprocess.Popen[bytes], scene: RealScene, mark: str, after: int, idle: int) -> Struck:
    """Wait for the moment in a launch newer than `after`, strike, and watch until all is clean."""
    result = Struck(name, memory_before_mib=idle >> 20)
    who, sign, moment = name.rsplit("-", 2)
    victims: list[psutil.Process] = []

    def due() -> bool:
        if driver.poll() is not None:
            raise _DriverEnded
        result.launch = scene.current()
        if result.launch <= after or not reached(scene, result.launch, moment):
            return False
        victims[:] = [found for victim in who.split("+") if (found := scene.process(victim))]
        return len(victims) == len(who.split("+"))

    if not until(due, BOOT_S):
        raise SystemExit(f"{name}: the moment did not come within {BOOT_S:g} s")
    tags, ports = {tag for process in marked(mark) if (tag := launch_tag(process))}, scene.ports(result.launch)
    result.memory_at_strike_mib = gpu_memory() >> 20
    struck = time.monotonic()
    for process in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, SIGNALS[sign])

    def clean() -> bool:
        now = round(time.monotonic() - struck, 2)
        living = {tag for process in marked(mark) if (tag := launch_tag(process))} & tags
        if result.processes_s is None and not living:
            result.processes_s = now
        if result.ports_s is None and all(map(can_be_bound, ports)):
            result.ports_s = now
        if result.memory_s is None:  # a driver that goes on takes it again soon
            used = gpu_memory()
            result.memory_after_mib = used >> 20
            if used <= idle + SAME_MEMORY:
                result.memory_s = now
        return None not in (result.processes_s, result.ports_s, result.memory_s)

    limit_s = CLEAN_STOPPED_DRIVER_S if "driver" in who and sign == "STOP" else CLEAN_S
    if sign == "STOP" and "driver" not in who:
        limit_s += FOUND_OUT_S
    result.ok = until(clean, limit_s)
    if not result.ok:
        result.left = named([process for process in marked(mark) if launch_tag(process) in tags])
    if "driver" in who:
        survivors: list[psutil.Process] = []

        def alone() -> bool:
            survivors[:] = [process for process in marked(mark) if is_ours(process)]
            return not survivors

        until(alone, limit_s - (time.monotonic() - struck))
        result.driver = "stopped" if sign == "STOP" else "killed"
        result.left += named(survivors)
        result.ok = result.ok and not survivors
        driver.kill()
        driver.wait()
        for process in marked(mark):  # Ray's daemons, which hold no GPU
            with contextlib.suppress(psutil.Error):
                process.kill()
    else:
        result.driver = "goes on" if driver.poll() is None else f"exit {driver.returncode}"
    return result


def accounts(folder: Path, study: str) -> dict[str, object]:
    """What the database holds at the end."""
    with Store(folder / "trials.db") as store:
        launches = store.launches(study)
    measured = Counter(launch.config.config_id for launch in launches if launch.outcome is Outcome.MEASURED)
    return {
        "launches": [
            f"{launch.number} {launch.stage} {launch.asked} {launch.outcome} {launch.reason or ''}".strip()
            for launch in launches
        ],
        "lost": sum(launch.outcome is not Outcome.MEASURED for launch in launches),
        "without an outcome": [launch.number for launch in launches if launch.outcome is None],
        "measured": dict(measured),
    }


def main() -> int:
    """Exit status 1 when a strike left something, or the study did not come to its end."""
    parser = argparse.ArgumentParser(prog="python tests/drill/real_server.py", description=__doc__)
    parser.add_argument("strikes", nargs="+", metavar="STRIKE")
    parser.add_argument("--study", required=True)
    parser.add_argument("--name", default="", help="of the study in the database, when --study is a path")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--command", default="", help="the driver, in place of `search.run`; split as a shell would")
    parser.add_argument("--finish-s", type=float, default=900)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder, mark = args.folder.resolve(), os.urandom(8).hex()
    usual = [sys.executable, "-m", "search.run", "--study", args.study, "--launches", str(args.launches)]
    command = shlex.split(args.command) or usual
    idle = gpu_memory()
    rows: list[Struck] = []
    ends: list[int] = []
    driver = start(command, folder, mark)
    try:
        for name in args.strikes:
            while True:
                scene = RealScene(folder, psutil.Process(driver.pid), str(folder / "trials.db"))
                try:
                    rows.append(strike(name, driver, scene, mark, rows[-1].launch if rows else 0, idle))
                    break
                except (_DriverEnded, psutil.NoSuchProcess):
                    ends.append(driver.wait())
                    if len(ends) > len(args.strikes):
                        raise SystemExit(f"{name}: its moment never comes, drivers ended with {ends}") from None
                    driver = start(command, folder, mark)
            print(json.dumps(asdict(rows[-1])), flush=True)
            if driver.poll() is not None:
                driver = start(command, folder, mark)
        ended = driver.wait(args.finish_s)
        if ended == 4:  # the breaker had opened over what was struck; once more, as it says
            driver = start(command, folder, mark)
            ended = driver.wait(args.finish_s)
        until(lambda: gpu_memory() <= idle + SAME_MEMORY, CLEAN_S)
    finally:
        if driver.poll() is None:
            driver.send_signal(signal.SIGINT)
            until(lambda: driver.poll() is not None, 60)
        for process in marked(mark):
            with contextlib.suppress(psutil.Error):
                process.kill()
    table = {
        "strikes": [asdict(row) for row in rows],
        "drivers that stopped in between": ends,
        "last driver": f"exit {ended}",
        "memory at the end, MiB": gpu_memory() >> 20,
        **accounts(folder, args.name or args.study),
    }
    print(json.dumps(table, indent=1))
    if args.json:
        args.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0 if ended == 0 and all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
