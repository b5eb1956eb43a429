"""Which process runs a trial, so that rows of a dead one can be distinguished from rows of a live one.

No wall clock is in a mark: two processes of one host may read unlike ones. A process is known by the boot of its
kernel, its PID namespace, its pid there and its start in clock ticks since that boot (`proc(5)`, field 22 of `stat`).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

OWNER = "owner"
"""User attribute of a trial: a `Mark` as text."""

BEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""Without a beat for this long, a driver that cannot be looked at counts as dead."""

_STARTTIME, _STATE = 22, 3
"""Fields of `/proc/PID/stat`, counted from 1."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A process, for other processes on the same database.

    Attributes:
        host: Its name, for people; several machines and containers may share one.
        boot: Id of the kernel's boot; empty where unknown, as in marks of before.
        namespace: Of its PID, an inode's number; empty likewise.
        pid: In that namespace.
        ticks: Its start since that boot; empty likewise.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    ticks: str

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:boot={self.boot}:ns={self.namespace}:ticks={self.ticks}"

    @classmethod
    def read(cls, text: str) -> Mark | None:
        """The mark that a row holds, `host:pid:start time` of before included; None where it holds none."""
        new = re.fullmatch(r"(.*):(\d+):boot=([^:]*):ns=(\d*):ticks=(\d*)", text, re.DOTALL)
        if new is not None:
            return cls(new[1], new[3], new[4], int(new[2]), new[5])
        old = re.fullmatch(r"(.*):(\d+):[^:]*", text, re.DOTALL)
        return cls(old[1], "", "", int(old[2]), "") if old else None


@dataclass(frozen=True, slots=True)
class Here:
    """What can be seen of processes from this one.

    Attributes:
        me: This process.
        ticks_of: Of a pid in this namespace: when it started, in ticks; None where no such process runs. A zombie
            is dead, whatever its parent waits for.
    """

    me: Mark
    ticks_of: Callable[[int], str | None]


def this_process() -> str:
    """The mark of this process."""
    return str(_mark_of(os.getpid()))


def here() -> Here:
    """As seen from this process."""
    return Here(_mark_of(os.getpid()), _ticks_of)


def is_provably_dead(owner: str, seen: Here | None = None) -> bool:
    """Whether `owner` is surely no live process but this one.

    That can be known of a process under the same kernel and in the same PID namespace alone. This process counts as
    dead: what it left open from an earlier run, it has abandoned. So does an owner that is no mark.

    Args:
        owner: As a row holds it.
        seen: From where; this process without it.
    """
    mark = Mark.read(owner)
    if mark is None:
        return True
    seen = seen or here()
    if mark == seen.me:
        return True
    if not mark.boot or not mark.namespace or (mark.boot, mark.namespace) != (seen.me.boot, seen.me.namespace):
        return False
    return seen.ticks_of(mark.pid) != mark.ticks


def is_provably_alive(owner: str, seen: Here | None = None) -> bool:
    """Whether `owner` runs at this moment, as its process and not only its heartbeat shows."""
    mark, seen = Mark.read(owner), seen or here()
    if mark is None or mark == seen.me or not mark.boot or not mark.namespace:
        return False
    in_sight = (mark.boot, mark.namespace) == (seen.me.boot, seen.me.namespace)
    return in_sight and seen.ticks_of(mark.pid) == mark.ticks


@lru_cache(maxsize=1)
def _mark_of(pid: int) -> Mark:
    """The mark of this process; by its pid, for a fork is another process."""
    ticks = _ticks_of(pid)
    # In a container that shows another namespace's /proc, pids there are not those that `os` knows.
    own = ticks is not None and _read_link("/proc/self") == str(pid)
    namespace = re.sub(r"\D", "", _read_link("/proc/self/ns/pid")) if own else ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() if own else ""
    except OSError:
        boot = ""
    return Mark(socket.gethostname(), boot, namespace, pid, ticks or "")


def _ticks_of(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, blanks and parentheses included.
    fields = stat.rpartition(")")[2].split()
    first = _STATE
    if len(fields) <= _STARTTIME - first or fields[0] in ("Z", "X", "x"):
        return None
    return fields[_STARTTIME - first]


def _read_link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
