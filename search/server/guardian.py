"""The guardian: a small process that outlives its supervisor just long enough to stop a server.

Run as a script by path in isolated mode, so it imports nothing of this project or of the
server's environment and starts in some 20 ms. It lives in a session of its own, starts the
launcher in another, and from then on there are four ways for the server to end:

- `stop <seconds>` on standard input: SIGTERM to the group, SIGKILL after so many seconds;
- standard input closes (the supervisor is gone, however it died): SIGKILL at once;
- no `beat` (heartbeat) for `lease_s` (a stopped supervisor closes no pipe): SIGKILL at once;
- the guardian itself is killed: the kernel kills the launcher (parent-death signal).

It leaves only when the launcher's group and all its descendants are gone. Descendants that
forked twice and left the group are still found: orphans below a child subreaper become its
children. Linux only.

Where the supervisor is gone, nobody else takes the launch's secrets out of its log: the guardian does, once nothing
writes there any more. It got them over its pipe; they are on no disk.

Protocol, one line each. In: an order (JSON), then `beat` and `stop <seconds>`. Out (JSON):
`started`, `failed`, `exited`, `stopping`, `stopped`; see `Guardian`.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

TICK_S = 0.05
SURVIVORS_AFTER_S = 10.0
"""Seconds of SIGKILL after which survivors are reported, while trying goes on."""

ORPHANS_GRACE_S = 2.0
"""Of a longer grace, what is left to processes that outlive their launcher: they have nobody to wait for."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One row of the process table.

    `cpu_s` is user and system time of its own threads, `started` its start in clock ticks since
    boot: together with the pid it names a process for good, as pids are used again.
    """

    pid: int
    parent: int
    group: int
    state: str
    cpu_s: float
    name: str
    started: int = 0

    @property
    def alive(self) -> bool:
        """Whether it can still hold memory or ports: a zombie cannot."""
        return self.state not in "ZX"


def process_table(only: set[int] | None = None) -> dict[int, Process]:
    """Read `/proc`, all of it or the pids in `only`; processes that vanish meanwhile are left out."""
    tick = os.sysconf("SC_CLK_TCK")
    table = {}
    # A `Path` per process is three times the time.
    entries = os.listdir("/proc") if only is None else [str(pid) for pid in only]  # noqa: PTH208
    for entry in entries:
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                head, _, tail = file.read().rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        pid = int(entry)
        cpu_s = (int(fields[11]) + int(fields[12])) / tick
        name = head.partition("(")[2]
        table[pid] = Process(pid, int(fields[1]), int(fields[2]), fields[0], cpu_s, name, int(fields[19]))
    return table


def family(table: dict[int, Process], *, root: int, group: int) -> list[Process]:
    """Living descendants of `root` and members of `group`, `root` itself left out."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found = {process.pid for process in table.values() if process.group == group}
    todo = [root, *found]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    found.discard(root)
    return [table[pid] for pid in sorted(found) if table[pid].alive]


class Guardian:
    """Starts one launcher and answers for it until nothing of it is left.

    Events: `started` (pid), `failed` (error; the launcher could not be started, and the guardian
    leaves), `exited` (code; negative for a signal), `stopping` (cause), `stopped` (leftovers; one
    line per survivor of SIGKILL, empty when all are gone, which is the guardian's last word).
    """

    def __init__(self, order: dict[str, Any], *, commands: int, pending: bytes, events: int) -> None:
        self._order = order
        self._commands = commands
        self._commands_open = True
        self._pending = pending
        self._events = events
        self._pid = 0
        self._lease_s = float(order["lease_s"])
        self._lease_end = 0.0
        self._kill_at: float | None = None
        self._gone_at = float("inf")

    def run(self) -> int:
        """Guard until the end; returns the exit status."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self._say("failed", error=f"PR_SET_CHILD_SUBREAPER: {os.strerror(ctypes.get_errno())}")
            return 1
        try:
            self._start(libc)
        except OSError as error:
            self._say("failed", error=str(error))
            return 1
        self._say("started", pid=self._pid)
        self._lease_end = time.monotonic() + self._lease_s
        self._guard()
        if not self._commands_open:
            self._scrub()
        self._say("stopped", leftovers=[])
        return 0

    def _start(self, libc: ctypes.CDLL) -> None:
        guardian = os.getpid()

        def die_with_guardian() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != guardian:  # killed between fork and prctl: no signal would ever come
                os._exit(1)

        with Path(self._order["log"]).open("ab") as log:
            launcher = subprocess.Popen(
                self._order["argv"],
                env=self._order["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_guardian,
            )
        self._pid = launcher.pid
        launcher.returncode = 0  # `_reap` waits for all children at once, `Popen` must not

    def _guard(self) -> None:
        survivors_at = float("inf")
        while True:
            self._listen()
            self._reap()
            now = time.monotonic()
            if self._kill_at is None:
                if now < self._lease_end:
                    continue
                self._end("lease lapsed", grace_s=0)
            living = family(process_table(), root=os.getpid(), group=self._pid)
            if not living:
                self._reap()  # who ended since the last look is a zombie by now, and has to be given up by name
                return
            if now >= min(self._kill_at or 0.0, self._gone_at + ORPHANS_GRACE_S):
                self._signal(living, signal.SIGKILL)
                survivors_at = min(survivors_at, now + SURVIVORS_AFTER_S)
            if now >= survivors_at:
                survivors_at = float("inf")
                self._say("stopped", leftovers=[f"process {p.pid} ({p.name}, state {p.state})" for p in living])

    def _scrub(self) -> None:
        """Mask the launch's secrets in its log, which is replaced as a whole; where that fails, the next run tries."""
        secrets = [(secret.encode(), self._order["mask"].encode()) for secret in self._order.get("secrets", ())]
        log = Path(self._order["log"])
        clean = log.with_name(f".{log.name}.{os.getpid()}")
        changed = False
        try:
            mode = log.stat().st_mode & 0o777
            with (
                log.open("rb") as source,
                os.fdopen(os.open(clean, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
            ):
                for line in source:
                    masked = line
                    for secret, mask in secrets:
                        masked = masked.replace(secret, mask)
                    changed |= masked != line
                    target.write(masked)
            if changed:
                clean.chmod(mode)
                clean.replace(log)
        except OSError:
            pass
        finally:
            clean.unlink(missing_ok=True)

    def _listen(self) -> None:
        """Take commands for one tick."""
        if not self._commands_open:
            time.sleep(TICK_S)
            return
        if not self._pending and select.select([self._commands], [], [], TICK_S)[0]:
            self._pending = os.read(self._commands, 65536)
            if not self._pending:
                self._commands_open = False
                self._end("pipe closed", grace_s=0)
        for line in self._pending.decode().splitlines():
            if line == "beat":
                self._lease_end = time.monotonic() + self._lease_s
            elif line.startswith("stop "):
                self._end("stop", grace_s=float(line.split()[1]))
        self._pending = b""

    def _end(self, cause: str, *, grace_s: float) -> None:
        """Begin to stop, or shorten the grace of a stop that has begun."""
        kill_at = time.monotonic() + grace_s
        if self._kill_at is None:
            self._say("stopping", cause=cause)
            self._kill_at = kill_at
            if grace_s > 0:
                self._signal(family(process_table(), root=os.getpid(), group=self._pid), signal.SIGTERM)
        self._kill_at = min(self._kill_at, kill_at)

    @staticmethod
    def _signal(processes: list[Process], number: signal.Signals) -> None:
        for process in processes:
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:  # gone by itself: what we want
                continue
            except PermissionError:  # it became another user; `stopped` will name it
                continue

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._say("exited", code=os.waitstatus_to_exitcode(status))
                self._gone_at = time.monotonic()

    def _say(self, event: str, **facts: object) -> None:
        try:
            os.write(self._events, (json.dumps({"event": event, **facts}) + "\n").encode())
        except BrokenPipeError:  # nobody listens any more; the work stays the same
            return


def main() -> int:
    """Read the order from standard input and guard its launcher."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # A handler, not SIG_IGN: the launcher would inherit that and become deaf to SIGTERM.
        signal.signal(number, lambda *_: None)
    # Ray's workers have it blocked, see `cluster`; a server should not inherit that either.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    pending = b""
    while b"\n" not in pending:
        piece = os.read(0, 65536)
        if not piece:
            return 1
        pending += piece
    order, _, rest = pending.partition(b"\n")
    return Guardian(json.loads(order), commands=0, pending=rest, events=1).run()


if __name__ == "__main__":
    sys.exit(main())
