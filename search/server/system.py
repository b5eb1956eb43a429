"""The seam to the operating system: everything a supervisor does to the world goes through `Os`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from search.contracts import Clock, RealClock
from search.host.nvml import GpuUser, gpu_memory_used, gpu_users
from search.server import guardian
from search.server.command import GUARDIAN_TAG, LAUNCH_TAG
from search.server.guardian import Process
from search.server.ports import port_is_free

Event = Mapping[str, Any]

_HOLDS = ("LISTEN", "ESTABLISHED", "CLOSE_WAIT", "NONE")
"""States of a socket whose process is still there; what the kernel keeps of closed ones has no process."""


class GuardianLink(Protocol):
    """The two pipes to a guardian."""

    @property
    def pid(self) -> int:
        """Of the guardian."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the guardian is gone; events it left behind may still be waiting."""
        ...

    def send(self, line: str) -> None:
        """Send one command; a guardian that is gone is not an error."""
        ...

    def events(self) -> list[Event]:
        """Events that arrived since the last call; never waits."""
        ...

    def close(self) -> None:
        """Close both pipes and reap the guardian if it is gone. Open servers die of this."""
        ...


class Os(Protocol):
    """What tests replace. Times are seconds of a monotonic clock."""

    def monotonic(self) -> float:
        """Now."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def start_guardian(self, order: Mapping[str, Any]) -> GuardianLink:
        """Start a guardian in a session of its own and give it its order."""
        ...

    def family(self, *, root: int, group: int) -> list[Process]:
        """Living descendants of `root` and members of `group`."""
        ...

    def tagged(self, tag: str) -> list[Process]:
        """Living processes that carry the launch tag in their environment."""
        ...

    def kill(self, pid: int) -> None:
        """SIGKILL one process; one that is gone is not an error."""
        ...

    def port_is_free(self, port: int) -> bool:
        """Whether a server could bind `port` on loopback again."""
        ...

    def listeners(self, processes: Sequence[Process], port: int) -> list[int]:
        """Those of `processes`, by pid, that listen on `port`."""
        ...

    def holders(self, port: int) -> list[int | None]:
        """Processes, by pid, with a socket bound to `port`; None for one of another user."""
        ...

    def tag_of(self, pid: int) -> str | None:
        """The launch tag of a process, empty without one or for another user's; None when it is gone."""
        ...

    def gpu_memory(self, uuids: Sequence[str]) -> Mapping[str, int] | None:
        """Bytes in use per GPU; None when it cannot be known."""
        ...

    def gpu_users(self, uuids: Sequence[str]) -> tuple[GpuUser, ...] | None:
        """Processes with memory on these GPUs; None when it cannot be known."""
        ...

    def file_size(self, path: Path) -> int:
        """Bytes; 0 for a file that does not exist yet."""
        ...


class RealOs:
    """This machine."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or RealClock()

    def monotonic(self) -> float:
        """See `Os`."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """See `Os`."""
        time.sleep(seconds)

    def start_guardian(self, order: Mapping[str, Any]) -> GuardianLink:
        """See `Os`."""
        return _PipedGuardian(order)

    def family(self, *, root: int, group: int) -> list[Process]:
        """See `Os`."""
        return guardian.family(guardian.process_table(), root=root, group=group)

    def tagged(self, tag: str) -> list[Process]:
        """See `Os`."""
        return tagged_processes().get(tag, [])

    def kill(self, pid: int) -> None:
        """See `Os`."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def port_is_free(self, port: int) -> bool:
        """See `Os`."""
        return port_is_free(port, ignore_old_connections=True)

    def listeners(self, processes: Sequence[Process], port: int) -> list[int]:
        """See `Os`."""
        import psutil

        found = []
        for process in processes:
            try:
                sockets = psutil.Process(process.pid).net_connections(kind="tcp")
            except psutil.Error:
                continue
            if any(s.status == psutil.CONN_LISTEN and s.laddr and s.laddr.port == port for s in sockets):
                found.append(process.pid)
        return found

    def holders(self, port: int) -> list[int | None]:
        """See `Os`."""
        import psutil

        sockets = psutil.net_connections(kind="tcp")
        return list(dict.fromkeys(s.pid for s in sockets if s.laddr and s.laddr.port == port and s.status in _HOLDS))

    def tag_of(self, pid: int) -> str | None:
        """See `Os`."""
        try:
            owner = Path(f"/proc/{pid}").stat().st_uid
        except OSError:
            return None
        return "" if owner != os.geteuid() != 0 else variable_of(pid, LAUNCH_TAG)

    def gpu_memory(self, uuids: Sequence[str]) -> Mapping[str, int] | None:
        """See `Os`."""
        return gpu_memory_used(uuids)

    def gpu_users(self, uuids: Sequence[str]) -> tuple[GpuUser, ...] | None:
        """See `Os`."""
        return gpu_users(uuids)

    def file_size(self, path: Path) -> int:
        """See `Os`."""
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0


class _PipedGuardian:
    """A guardian started as a script by path, isolated from `PYTHONPATH` and site packages."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        guards = f"{order['env'].get(LAUNCH_TAG, '')} {os.getpid()}"
        with Path(order["log"]).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, GUARDIAN_TAG: guards},
                start_new_session=True,
            )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._sending = threading.Lock()
        self._unread = b""
        os.set_blocking(self._stdout.fileno(), False)
        self.send(json.dumps(dict(order)))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, line: str) -> None:
        with self._sending:
            if self._stdin.closed:
                return
            try:
                self._stdin.write(f"{line}\n".encode())
                self._stdin.flush()
            except BrokenPipeError:
                return

    def events(self) -> list[Event]:
        if not self._stdout.closed:
            while piece := _read_now(self._stdout.fileno()):
                self._unread += piece
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        with self._sending, contextlib.suppress(BrokenPipeError):  # bytes that nobody will read
            self._stdin.close()
        self._stdout.close()
        self._process.poll()


class Heart(threading.Thread):
    """Renews a guardian's lease from a thread, so that only a stopped or dead process lets it lapse."""

    def __init__(self, beat: Callable[[], None], *, every_s: float) -> None:
        super().__init__(name="guardian-lease", daemon=True)
        self._beat = beat
        self._every_s = every_s
        self._stopped = threading.Event()

    def run(self) -> None:
        """Beat until stopped."""
        while not self._stopped.wait(self._every_s):
            self._beat()

    def stop(self) -> None:
        """Stop and wait for the thread."""
        self._stopped.set()
        if self.is_alive():
            self.join()


def _read_now(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return b""


def tagged_processes() -> dict[str, list[Process]]:
    """Living processes of all launches on this host, by launch tag.

    Processes of other users cannot be read and are left out; guardians carry no tag.
    """
    found: dict[str, list[Process]] = {}
    for process in guardian.process_table().values():
        if process.alive and (tag := variable_of(process.pid, LAUNCH_TAG)):
            found.setdefault(tag, []).append(process)
    return found


def variable_of(pid: int, name: str) -> str:
    """A variable of another process's environment; empty when unset, unreadable, or the process is gone."""
    mark = f"{name}=".encode()
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.removeprefix(mark).decode(errors="replace") for word in words if word.startswith(mark)), "")
