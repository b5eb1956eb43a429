"""Waits until a server of ours generated a token, and no longer than makes sense.

Watched together, and the first to decide wins: an interrupt, the process's exit, our own request,
the stall limit, the boot ceiling. Health routes are not asked: they cost decode steps, and 200
does not mean that a token can be generated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from search.errors import Interrupted
from search.server.http import FirstToken
from search.server.supervisor import Progress, Supervisor
from search.server.system import Os

TICK_S = 0.05
ASK_EVERY_S = 0.1
PROGRESS_EVERY_S = 1.0
"""At most; short stall limits are sampled ten times."""

NOISE_CORES = 0.05
"""Processor time below this many cores is housekeeping (heartbeats, polling threads), not progress."""

NOISE_GPU_BYTES = 8 * 2**20

BUSY_STRETCH = 3.0
"""Processor time alone stretches the stall limit at most so far: a compiler is silent and busy,
but so is a rank that spins in a rendezvous which will never be complete."""


class Unready(StrEnum):
    """Why a server did not become ready."""

    EXITED = "exited"
    STALE = "another process answers on its port"
    STALLED = "no sign of progress"
    SILENT = "accepts requests but generates nothing"
    CEILING = "boot ceiling"


class NotReady(Exception):
    """A server that did not become ready, for the engine to classify. `detail` is one line."""

    def __init__(self, kind: Unready, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class BootLimits:
    """Seconds: `stall_s` without progress, `ceiling_s` in all."""

    stall_s: float
    ceiling_s: float


class StallWatch:
    """Decides from samples whether a starting server still gets anywhere."""

    def __init__(self, now: float, first: Progress, *, stall_s: float) -> None:
        self._stall_s = stall_s
        self._log_bytes = first.log_bytes
        self._gpu_bytes = first.gpu_bytes
        self._cpu_s = first.cpu_s
        self._sampled_at = now
        self._visible_at = now
        self._busy_at = now

    def idle_s(self, now: float, sample: Progress) -> float:
        """Take a sample; seconds since the last visible progress (log, GPU memory)."""
        if sample.log_bytes > self._log_bytes or sample.gpu_bytes > self._gpu_bytes + NOISE_GPU_BYTES:
            self._log_bytes = max(self._log_bytes, sample.log_bytes)
            self._gpu_bytes = max(self._gpu_bytes, sample.gpu_bytes)
            self._visible_at = self._busy_at = now
        # A child that ended took its time out of the sum: that too is something happening.
        if abs(sample.cpu_s - self._cpu_s) > NOISE_CORES * (now - self._sampled_at):
            self._busy_at = now
        self._cpu_s, self._sampled_at = sample.cpu_s, now
        return now - self._visible_at

    def stalled(self, now: float, sample: Progress) -> bool:
        """Take a sample; whether the limit is reached."""
        idle_s = self.idle_s(now, sample)
        return now - self._busy_at >= self._stall_s or idle_s >= BUSY_STRETCH * self._stall_s


class _Attempt(threading.Thread):
    """One request for a first token, off the watching thread, because it may never be answered."""

    def __init__(self, ask: Callable[[], FirstToken]) -> None:
        super().__init__(name="first-token", daemon=True)
        self._ask = ask
        self.answer: FirstToken | None = None

    def run(self) -> None:
        self.answer = self._ask()


def wait_ready(
    server: Supervisor,
    system: Os,
    *,
    limits: BootLimits,
    ask: Callable[[], FirstToken],
    vouch: Callable[[], bool] = lambda: False,
    aborted: Callable[[], bool] = lambda: False,
) -> None:
    """Return once a process of this launch generated a token for us.

    Args:
        server: In state STARTING.
        system: Clock and sleep.
        limits: How long to wait.
        ask: Asks once for a first token; called from another thread, may block for long.
        vouch: Asked when none of the launch's processes listens on the port, as when the prefix
            starts a container: whether the server itself names a fact that only this launch knows.
        aborted: Asked every tick.

    Raises:
        NotReady: The server died, stalled, or is not ours. It still has to be stopped.
        Interrupted: `aborted` said so.
    """
    began = system.monotonic()
    watch = StallWatch(began, server.progress(), stall_s=limits.stall_s)
    attempt: _Attempt | None = None
    ask_at = sample_at = began
    last = FirstToken(0, "no request was answered")
    while True:
        if aborted():
            raise Interrupted("The launch was interrupted while the server started.")
        if (code := server.poll()) is not None:
            raise NotReady(Unready.EXITED, f"exit code {code}")
        now = system.monotonic()
        if attempt is not None and attempt.answer is not None:
            last, attempt, ask_at = attempt.answer, None, now + ASK_EVERY_S
            if last.tokens > 0:
                _check_ours(server, vouch)
                return
        if attempt is None and now >= ask_at:
            attempt = _Attempt(ask)
            attempt.start()
        if now >= sample_at:
            sample_at = now + min(PROGRESS_EVERY_S, limits.stall_s / 10)
            if watch.stalled(now, server.progress()):
                silent = server.owns_port()
                raise NotReady(
                    Unready.SILENT if silent else Unready.STALLED,
                    f"waited for a first token; last answer: {last.detail}",
                )
        if now - began >= limits.ceiling_s:
            raise NotReady(
                Unready.CEILING,
                f"waited for a first token; last answer: {last.detail}; a server that is merely slow needs a higher "
                "`engine.boot_ceiling_minutes`",
            )
        system.sleep(TICK_S)


def _check_ours(server: Supervisor, vouch: Callable[[], bool]) -> None:
    """Raise unless the process that answers belongs to this launch."""
    if server.owns_port() or vouch():
        return
    if (code := server.poll()) is not None:  # it answered and died: no foreign server
        raise NotReady(Unready.EXITED, f"exit code {code}")
    raise NotReady(Unready.STALE, f"a process outside this launch answers on port {server.ports.http}")
