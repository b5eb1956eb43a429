"""Which process runs a trial, so that rows of a dead one can be told from rows of a live one.

Optuna's own heartbeat beats only inside `optimize`, which this project does not use.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psutil

from search.errors import StorageFault
from search.storage import Store
from search.storage.owners import this_process

OWNER = "owner"
"""User attribute of a trial: `host:pid:start time`."""

BEAT_S = 10.0
DEAD_AFTER_S = 60.0
"""Without a beat for this long, a driver on another host counts as dead."""

_log = logging.getLogger(__name__)

__all__ = ["BEAT_S", "DEAD_AFTER_S", "OWNER", "heartbeat", "lives", "owners_alive", "this_process"]


def lives(owner: str, beats: Mapping[str, datetime] | None = None, *, now: datetime | None = None) -> bool:
    """Whether another live process is `owner`.

    On this host the process itself tells. On another one its last beat does, whose clock must agree
    with ours within a fraction of `DEAD_AFTER_S`. This process does not count: what it left open
    from an earlier run, it has abandoned.

    Args:
        owner: As `this_process` writes it.
        beats: Last beat by owner, see `Store.beats`.
        now: Real time, UTC.
    """
    host, _, pid = owner.rpartition(":")[0].rpartition(":")
    if not pid.isdecimal():
        return False
    if host != socket.gethostname():
        beat = (beats or {}).get(owner)
        return beat is not None and (now or _utc_now()) - beat < timedelta(seconds=DEAD_AFTER_S)
    if int(pid) == os.getpid():
        return False
    try:
        process = psutil.Process(int(pid))
        # A zombie is dead, whatever its parent waits for.
        same = f"{process.create_time():.0f}" == owner.rpartition(":")[2]
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def owners_alive(store: Store, *, now: datetime | None = None) -> Callable[[str], bool]:
    """`lives`, with the beats as stored at this moment."""
    beats = store.beats()
    return lambda owner: lives(owner, beats, now=now)


@contextmanager
def heartbeat(store: Store, *, now: Callable[[], datetime] | None = None, every_s: float = BEAT_S) -> Iterator[None]:
    """Store this process's sign of life, at once and then from a thread, until the block ends.

    Args:
        store: May be used by the block meanwhile.
        now: Real time, UTC, also in simulation: other hosts compare it with theirs.
        every_s: Between two beats.
    """
    owner, moment, stop = this_process(), now or _utc_now, threading.Event()

    def beat_on() -> None:
        while not stop.wait(every_s):
            try:
                store.beat(owner, moment())
            except StorageFault as fault:
                # The study's own next write meets the same fault and stops the study with it.
                _log.debug("no heartbeat: %s", fault)

    store.beat(owner, moment())
    thread = threading.Thread(target=beat_on, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        _take_leave(store, owner)


def _take_leave(store: Store, owner: str) -> None:
    try:
        store.end_beats(owner)
    except StorageFault as fault:
        _log.debug("no farewell: %s", fault)


def _utc_now() -> datetime:
    return datetime.now(UTC)
