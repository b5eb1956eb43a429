"""Which process runs a trial, so that rows of a dead one can be distinguished from rows of a live one."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import psutil

OWNER = "owner"
"""User attribute of a trial: `host:pid:start time`."""

BEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""Without a heartbeat for this long, a driver on another host counts as dead."""


def this_process() -> str:
    """`host:pid:start time`; the start time distinguishes it from a later process with its pid."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.0f}"


def lives(owner: str, beats: Mapping[str, datetime] | None = None, *, now: datetime | None = None) -> bool:
    """Whether another live process is `owner`.

    On this host the process itself is looked at. On another one its last heartbeat is, whose clock must agree
    with ours within a fraction of `DEAD_AFTER_S`. This process does not count: what it left open
    from an earlier run, it has abandoned.

    Args:
        owner: As `this_process` writes it.
        beats: Last heartbeat by owner, see `Store.beats`.
        now: Real time, UTC.
    """
    host, _, pid = owner.rpartition(":")[0].rpartition(":")
    if not pid.isdecimal():
        return False
    if host != socket.gethostname():
        beat = (beats or {}).get(owner)
        return beat is not None and (now or datetime.now(UTC)) - beat < timedelta(seconds=DEAD_AFTER_S)
    if int(pid) == os.getpid():
        return False
    try:
        process = psutil.Process(int(pid))
        # A zombie is dead, whatever its parent waits for.
        same = f"{process.create_time():.0f}" == owner.rpartition(":")[2]
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
