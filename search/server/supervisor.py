"""One server's life as a state machine, and the proof that nothing of it is left.

::

    PLANNED -> STARTING -> READY <-> MEASURING
                  |          |          |
                  +----------+----------+-> STOPPING -> STOPPED
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from search.contracts import StopReport
from search.masking import MASK
from search.server.command import ServerCommand
from search.server.gpu_account import GpuAccount
from search.server.guardian import Process
from search.server.ports import PortBlock
from search.server.strangers import stranger_on_port
from search.server.system import GuardianLink, Heart, Os


class State(StrEnum):
    """Where a server is in its life."""

    PLANNED = "PLANNED"
    STARTING = "STARTING"
    READY = "READY"
    MEASURING = "MEASURING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


ALLOWED = {
    State.PLANNED: {State.STARTING, State.STOPPING},
    State.STARTING: {State.READY, State.STOPPING},
    State.READY: {State.MEASURING, State.STOPPING},
    State.MEASURING: {State.READY, State.STOPPING},
    State.STOPPING: {State.STOPPED},
    State.STOPPED: set(),
}

_POLL_S = 0.05
_KILLED = -9


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a supervisor waits, in seconds.

    Attributes:
        lease_s: A guardian that gets no heartbeat for so long kills its server. Short enough that a
            stopped driver frees its GPUs within a minute, long enough for a busy one.
        grace_s: From SIGTERM to SIGKILL. SGLang's handler polls every 5 s, so a clean stop takes
            at least that.
        kill_s: From SIGKILL to giving up on survivors.
        port_s: For the kernel to release ports once all processes are gone.
        gpu_s: For the driver to release memory once all processes are gone.
    """

    lease_s: float = 20.0
    grace_s: float = 20.0
    kill_s: float = 15.0
    port_s: float = 5.0
    gpu_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Signs of life of a starting server; all are sums over its processes or GPUs."""

    log_bytes: int
    cpu_s: float
    gpu_bytes: int


class Supervisor:
    """Starts one server under a guardian and stops it with proof. One instance per launch.

    Threads may share one: a watcher may stop what another thread is measuring. The lease is
    renewed from a thread of its own.
    """

    def __init__(
        self,
        system: Os,
        *,
        tag: str,
        ports: PortBlock,
        log_path: Path,
        gpu_uuids: tuple[str, ...] = (),
        deadlines: Deadlines | None = None,
    ) -> None:
        self.ports = ports
        self.log_path = log_path
        self._os = system
        self._tag = tag
        self._gpus = GpuAccount(system, gpu_uuids, tag)
        self._deadlines = deadlines or Deadlines()
        self._state = State.PLANNED
        self._link: GuardianLink | None = None
        self._heart: Heart | None = None
        self._group = 0
        self._exit_code: int | None = None
        self._start_error = ""
        self._guardian_done = False
        self._guardian_lost = False
        self._leftovers: list[str] = []
        self._report: StopReport | None = None
        self._turn = threading.RLock()

    @property
    def state(self) -> State:
        """Where the server is in its life."""
        return self._state

    @property
    def start_error(self) -> str:
        """Why the launcher could not even be started, such as a missing interpreter; else empty."""
        return self._start_error

    @property
    def guardian_lost(self) -> bool:
        """Whether the guardian died before its server; the kernel then killed the launcher."""
        return self._guardian_lost

    def start(self, command: ServerCommand, *, secrets: tuple[str, ...] = ()) -> None:
        """Start the guardian, which starts the launcher. Returns at once.

        Args:
            command: The server's.
            secrets: The guardian masks them in the log where this process dies before it can.
        """
        self._enter(State.STARTING)
        self._gpus.begin()
        self._link = self._os.start_guardian(
            {
                "argv": list(command.argv),
                "env": command.environment(os.environ),
                "log": str(self.log_path),
                "lease_s": self._deadlines.lease_s,
                "secrets": list(secrets),
                "mask": MASK,
            }
        )
        self._heart = Heart(self._beat, every_s=self._deadlines.lease_s / 5)
        self._heart.start()

    def ready(self) -> None:
        """Enter READY: a first token arrived."""
        self._enter(State.READY)

    def measuring(self) -> None:
        """Enter MEASURING."""
        self._enter(State.MEASURING)

    def measured(self) -> None:
        """Go back to READY, unless the server was stopped meanwhile."""
        with self._turn:
            if self._state is State.MEASURING:
                self._enter(State.READY)

    def poll(self) -> int | None:
        """The launcher's exit code (negative for a signal), or None while it runs.

        A launcher that could not be started counts as exit code 127, one whose guardian was
        lost as killed.
        """
        with self._turn:
            return self._read_events()

    def _read_events(self) -> int | None:
        if self._link is None:
            return self._exit_code
        # Asked before reading: what a guardian said before it left is then surely read.
        ended = self._link.ended
        for event in self._link.events():
            match event["event"]:
                case "started":
                    self._group = event["pid"]
                case "failed":
                    self._start_error = event["error"]
                    self._exit_code = 127
                    self._guardian_done = True
                case "exited":
                    self._exit_code = event["code"]
                case "stopped":
                    self._leftovers = event["leftovers"]
                    self._guardian_done = not self._leftovers
        if ended and not self._guardian_done:
            self._guardian_lost = True
            self._exit_code = _KILLED if self._exit_code is None else self._exit_code
        return self._exit_code

    def processes(self) -> list[Process]:
        """Living processes of the launch, the guardian left out."""
        self.poll()
        if self._link is None or not self._group:
            return []
        return self._os.family(root=self._link.pid, group=self._group)

    def progress(self) -> Progress:
        """Signs of life right now."""
        return Progress(
            log_bytes=self._os.file_size(self.log_path),
            cpu_s=sum(process.cpu_s for process in self.processes()),
            gpu_bytes=sum((self._gpus.used() or {}).values()),
        )

    def owns_port(self) -> bool:
        """Whether a process of this launch listens on the HTTP port."""
        return bool(self._os.listeners(self.processes(), self.ports.http))

    def stranger_on_port(self) -> str:
        """Who else holds the HTTP port, for people; empty when a launch of ours does, nobody does, or it is unknown."""
        return stranger_on_port(self._os, self.ports.http, self._tag, launches=False)

    def newcomers(self) -> str:
        """Who took much of the GPUs' memory since the start and is not of this launch, for people; empty if nobody."""
        return self._gpus.newcomers()

    def kill(self) -> StopReport:
        """Stop without grace: for servers that did not become ready."""
        return self.stop(grace_s=0.0)

    def stop(self, *, grace_s: float | None = None) -> StopReport:
        """Stop the server and prove it; a second call returns the first report.

        SIGTERM, a deadline, SIGKILL; then no process, free ports, GPU memory back at what it was
        before the launch. Exit codes are not looked at: SGLang ends a clean stop with -9.

        Args:
            grace_s: Seconds from SIGTERM to SIGKILL; None for `Deadlines.grace_s`, 0 for no SIGTERM.
        """
        with self._turn:
            if self._report is None:
                self._report = self._stop(self._deadlines.grace_s if grace_s is None else grace_s)
            return self._report

    def _stop(self, grace_s: float) -> StopReport:
        began = self._os.monotonic()
        if self._state is not State.STOPPING:  # a stop that an interrupt cut short goes on here
            self._enter(State.STOPPING)
        if self._link is not None:
            self._stop_processes(self._link, grace_s)
        wrong, unknown = self._prove() if self._link is not None else ([], [])
        self._enter(State.STOPPED)
        return StopReport(clean=not wrong, duration_s=self._os.monotonic() - began, leftovers=(*wrong, *unknown))

    def _stop_processes(self, link: GuardianLink, grace_s: float) -> None:
        link.send(f"stop {grace_s}")
        self._wait(lambda: self._guardian_over(link), grace_s + self._deadlines.kill_s)
        if self._heart is not None:
            self._heart.stop()
        if not link.ended and not self._guardian_done:
            self._os.kill(link.pid)  # it hangs, or fights survivors that it cannot kill
        # Nets that do not need a guardian: the launch's tag in the environment.
        self._wait(self._sweep, self._deadlines.kill_s)
        self._wait(lambda: link.ended, self._deadlines.kill_s)
        link.close()

    def _guardian_over(self, link: GuardianLink) -> bool:
        self.poll()
        return self._guardian_done or link.ended or bool(self._leftovers)

    def _sweep(self) -> bool:
        # Twice: who forks while the table is read is in it neither as the parent, which ended, nor as the child.
        survivors = self._os.tagged(self._tag) or self._os.tagged(self._tag)
        for process in survivors:
            self._os.kill(process.pid)
        return not survivors

    def _prove(self) -> tuple[list[str], list[str]]:
        """What is still there, and what is others' or could not be checked; one line each."""
        wrong = [f"process {p.pid} ({p.name}, state {p.state}) survived SIGKILL" for p in self._os.tagged(self._tag)]
        rest: list[str] = []
        self._wait(lambda: not self._held_ports(), self._deadlines.port_s)
        for port in self._held_ports():
            if stranger := stranger_on_port(self._os, port, self._tag):
                rest.append(f"port {port} was taken by {stranger}")
            else:
                wrong.append(f"port {port} is still held")
        if not self._gpus.uuids:
            return wrong, rest
        if not self._gpus.is_known:
            return wrong, [*rest, "GPU memory was not checked: NVML cannot be asked on this host"]
        if not self._wait(lambda: not self._gpus.excess(), self._deadlines.gpu_s):
            excess, strangers = self._gpus.excess(), self._gpus.others()
            if strangers:
                rest += [f"{line}, which others hold: {strangers}" for line in excess]
            else:
                wrong += excess
        return wrong, rest

    def _held_ports(self) -> list[int]:
        return [port for port in self.ports.all if not self._os.port_is_free(port)]

    def _beat(self) -> None:
        if self._link is not None:
            self._link.send("beat")

    def _wait(self, done: Callable[[], bool], limit_s: float) -> bool:
        """Whether `done()` came true within the limit; always asked at least once."""
        end = self._os.monotonic() + limit_s
        while not done():
            if self._os.monotonic() >= end:
                return False
            self._os.sleep(_POLL_S)
        return True

    def _enter(self, state: State) -> None:
        if state not in ALLOWED[self._state]:
            allowed = ", ".join(sorted(ALLOWED[self._state])) or "nothing"
            raise RuntimeError(f"A server in state {self._state} may become {allowed}, but not {state}.")
        self._state = state
