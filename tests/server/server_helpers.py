"""Fakes at the seam, and small real processes, for the tests of `search.server`."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from search.host.nvml import GpuUser
from search.server.command import LAUNCH_TAG, ServerCommand
from search.server.guardian import Process, process_table
from search.server.ports import PortBlock
from search.server.system import RealOs

PORTS = PortBlock(http=21000, nccl=21001)

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
DOUBLE_FORK = f"""
import os, sys, time
if os.fork() == 0:
    if "setsid" in sys.argv:
        os.setsid()
    if os.fork() == 0:
        {DEAF}
    os._exit(0)
os.wait()
time.sleep(60)
"""


def until(condition: Callable[[], Any], *, within_s: float = 10.0) -> Any:
    """The first truthy value of `condition`; fails the test when none comes."""
    end = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


def order(tmp_path: Path, code: str, *args: str, tag: str, lease_s: float = 30.0) -> dict[str, Any]:
    """An order for a guardian: a Python one-liner as the launcher."""
    env = {**os.environ, LAUNCH_TAG: tag}
    return {"argv": [sys.executable, "-c", code, *args], "env": env, "log": str(tmp_path / "log"), "lease_s": lease_s}


def command(code: str, *args: str, tag: str) -> ServerCommand:
    """A launch of a Python one-liner."""
    return ServerCommand((sys.executable, "-c", code, *args), {LAUNCH_TAG: tag})


def living(tag: str) -> list[int]:
    """Pids of living processes of a launch."""
    return [process.pid for process in RealOs().tagged(tag)]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    process = process_table().get(pid)
    return process is not None and process.alive


def sweep(tag: str) -> None:
    """Leave nothing behind, whatever a test proved."""
    for pid in living(tag):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


class FakeLink:
    """A guardian on paper: it does at once what it is told, unless `obeys` is false."""

    pid = 500

    def __init__(self, obeys: bool = True) -> None:
        self.obeys = obeys
        self.sent: list[str] = []
        self.waiting: list[Mapping[str, Any]] = [{"event": "started", "pid": 501}]
        self.ended = False
        self.closed = False

    def send(self, line: str) -> None:
        self.sent.append(line)
        if line.startswith("stop") and self.obeys:
            self.waiting += [{"event": "exited", "code": -9}, {"event": "stopped", "leftovers": []}]
            self.ended = True

    def events(self) -> list[Mapping[str, Any]]:
        events, self.waiting = self.waiting, []
        return events

    def close(self) -> None:
        self.closed = True


class FakeOs:
    """A host on paper. `sleep` moves its clock; `script(now)` may change it meanwhile."""

    def __init__(self, *, obeys: bool = True) -> None:
        self.now = 0.0
        self.waited_s = 0.0
        self.link = FakeLink(obeys)
        self.script: Callable[[float], None] = lambda now: None
        self.cpu_s = 0.0
        self.log_bytes = 0
        self.gpu: dict[str, int] | None = {}
        self.users: tuple[GpuUser, ...] | None = None
        self.held_ports: set[int] = set()
        self.port_holders: dict[int, list[int | None]] = {}
        self.tags: dict[int, str] = {}
        self.listening = True
        self.survivors: list[Process] = []
        self.killed: list[int] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.script(self.now)
        time.sleep(0.0002)  # lets the thread that asks for a token run

    def start_guardian(self, order: Mapping[str, Any]) -> FakeLink:
        self.order = order
        return self.link

    def family(self, *, root: int, group: int) -> list[Process]:
        return [Process(group, root, group, "S", self.cpu_s, "python")]

    def tagged(self, tag: str) -> list[Process]:
        return self.survivors

    def kill(self, pid: int) -> None:
        self.killed.append(pid)
        if pid == self.link.pid:
            self.link.ended = True
        self.survivors = [process for process in self.survivors if process.pid != pid or process.state == "D"]

    def port_is_free(self, port: int) -> bool:
        return port not in self.held_ports

    def listeners(self, processes: Sequence[Process], port: int) -> list[int]:
        return [501] if self.listening else []

    def holders(self, port: int) -> list[int | None]:
        return self.port_holders.get(port, [])

    def tag_of(self, pid: int) -> str | None:
        return self.tags.get(pid)

    def gpu_memory(self, uuids: Sequence[str]) -> Mapping[str, int] | None:
        return None if self.gpu is None else {uuid: self.gpu.get(uuid, 0) for uuid in uuids}

    def gpu_users(self, uuids: Sequence[str]) -> tuple[GpuUser, ...] | None:
        return self.users

    def file_size(self, path: Path) -> int:
        return self.log_bytes
