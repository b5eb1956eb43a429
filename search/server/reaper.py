"""Stops servers that an earlier crash left behind: a power cut, a killed guardian, a stopped one.

Only processes that carry a launch tag in their environment are ever touched, and guardians of
such launches that are stopped and forgotten. No name and no command line decides anything, and
each signal goes to a process whose tag was read again a moment before, through a descriptor
that a recycled pid cannot fool.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from search.host.nvml import gpu_users
from search.masking import mask_words
from search.server.command import GUARDIAN_TAG, LAUNCH_TAG
from search.server.guardian import Process, process_table
from search.server.system import variable_of

GRACE_S = 10.0
KILL_S = 15.0
_POLL_S = 0.05
_SECOND_LOOK_S = 0.2
_LONGEST_COMMAND = 100


@dataclass(frozen=True, slots=True)
class Leftover:
    """A living process of some launch of ours.

    Attributes:
        process: Its row of the process table.
        tag: Of the launch.
        guarded: Whether a living guardian answers for the launch; then its study may be running.
        guards: Whether this is such a guardian itself, stopped and without its supervisor.
        age_s: Seconds since it started.
        command: Its command line, secrets masked, cut.
        gpu_bytes: Memory it holds on all GPUs; None where that cannot be known.
    """

    process: Process
    tag: str
    guarded: bool
    guards: bool
    age_s: float
    command: str
    gpu_bytes: int | None = None

    def __str__(self) -> str:
        memory = "GPU memory unknown" if self.gpu_bytes is None else f"GPU {self.gpu_bytes / 2**20:.0f} MiB"
        role = "guardian of launch" if self.guards else "launch"
        return f"pid {self.process.pid}, {_duration(self.age_s)}, {memory}, {role} {self.tag}: {self.command}"


def find_leftovers() -> tuple[Leftover, ...]:
    """All living processes of our launches that this user may read, oldest first.

    A launch counts as guarded as a whole: a container's processes are no children of its guardian.
    """
    table = {pid: process for pid, process in process_table().items() if process.alive}
    guarded, forgotten = _guardians(table.values())
    memory = _gpu_memory()
    found = []
    for process in table.values():
        tag = variable_of(process.pid, LAUNCH_TAG)
        if process.pid == os.getpid() or (not tag and process.pid not in forgotten):
            continue
        tag = tag or forgotten[process.pid]
        found.append(
            Leftover(
                process=process,
                tag=tag,
                guarded=tag in guarded,
                guards=process.pid in forgotten,
                age_s=_age_s(process),
                command=describe(process.pid, process.name),
                gpu_bytes=None if memory is None else memory.get(process.pid, 0),
            )
        )
    return tuple(sorted(found, key=lambda leftover: (leftover.process.started, leftover.process.pid)))


def stop_leftovers(
    leftovers: Iterable[Leftover],
    *,
    grace_s: float = GRACE_S,
    kill_s: float = KILL_S,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Leftover, ...]:
    """Stop these processes, and return those that survived SIGKILL.

    Args:
        leftovers: What to stop; a guardian among them gets no grace, since it is stopped already.
        grace_s: Seconds from SIGTERM to SIGKILL.
        kill_s: Seconds from SIGKILL to giving up.
        monotonic: Now, in seconds.
        sleep: Wait.
    """
    left = [leftover for leftover in leftovers if send(leftover, signal.SIGKILL if leftover.guards else signal.SIGTERM)]
    for number, limit_s in ((None, grace_s), (signal.SIGKILL, kill_s)):
        if number is not None:
            for leftover in left:
                send(leftover, number)
        end = monotonic() + limit_s
        while (left := [leftover for leftover in left if lives(leftover)]) and monotonic() < end:
            sleep(_POLL_S)
    return tuple(left)


def find_orphans(sleep: Callable[[float], None] = time.sleep) -> tuple[Leftover, ...]:
    """Processes of launches that no guardian answers for any more.

    Two looks agree before a process counts: one alone may miss a guardian that starts meanwhile.
    """
    first = {leftover.process.pid for leftover in find_leftovers() if not leftover.guarded}
    if not first:
        return ()
    sleep(_SECOND_LOOK_S)
    return tuple(leftover for leftover in find_leftovers() if not leftover.guarded and leftover.process.pid in first)


def reap_orphans(
    *, grace_s: float = GRACE_S, kill_s: float = KILL_S, sleep: Callable[[float], None] = time.sleep
) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
    """Stop what `find_orphans` finds. For the start of a real study.

    Launches of other studies on this host have guardians and are not touched.

    Returns:
        What was found, and of it what survived SIGKILL.
    """
    orphans = find_orphans(sleep)
    return orphans, stop_leftovers(orphans, grace_s=grace_s, kill_s=kill_s, sleep=sleep)


def send(leftover: Leftover, number: signal.Signals) -> bool:
    """Signal a process if it is still the one that was found; whether it was."""
    pid = leftover.process.pid
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        descriptor = None  # a kernel before 5.3: the pid has to do
    try:
        if not same(leftover):
            return False
        if descriptor is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # it became another user: `stop_leftovers` will name it as a survivor
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def lives(leftover: Leftover) -> bool:
    """Whether the process that was found is still there.

    Its environment does not count: an ending process loses it first, and its files and its GPU's
    memory after that.
    """
    pid = leftover.process.pid
    now = process_table({pid}).get(pid)
    return now is not None and now.alive and now.started == leftover.process.started


def same(leftover: Leftover) -> bool:
    """Whether the process is alive, and may be signalled as the one that was found: same start, same tag."""
    pid = leftover.process.pid
    if not lives(leftover):
        return False
    if leftover.guards:
        return variable_of(pid, GUARDIAN_TAG).partition(" ")[0] == leftover.tag
    return variable_of(pid, LAUNCH_TAG) == leftover.tag


def _guardians(processes: Iterable[Process]) -> tuple[set[str], dict[int, str]]:
    """Tags that a guardian answers for, and those guardians (tag by pid) that no longer do.

    A stopped guardian (SIGSTOP) answers for nothing once its supervisor is gone too, because
    nobody will then wake it. The parent of a process changes when the parent dies.
    """
    guarded: set[str] = set()
    forgotten: dict[int, str] = {}
    for process in processes:
        tag, _, supervisor = variable_of(process.pid, GUARDIAN_TAG).partition(" ")
        if not tag:
            continue
        if process.state in "Tt" and str(process.parent) != supervisor:
            forgotten[process.pid] = tag
        else:
            guarded.add(tag)
    return guarded, forgotten


def _gpu_memory() -> dict[int, int] | None:
    users = gpu_users()
    if users is None or any(user.memory is None for user in users):
        return None
    held: dict[int, int] = {}
    for user in users:
        held[user.pid] = held.get(user.pid, 0) + (user.memory or 0)
    return held


def _age_s(process: Process) -> float:
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / os.sysconf("SC_CLK_TCK"))


def describe(pid: int, otherwise: str = "") -> str:
    """The command line of a process for people: one line, secrets masked, cut, nothing unprintable."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        raw = b""
    words = raw.decode(errors="replace").strip("\0").split("\0")
    text = " ".join(" ".join(mask_words(tuple(words))).split()) or otherwise
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _LONGEST_COMMAND else f"{text[: _LONGEST_COMMAND - 1]}…"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
