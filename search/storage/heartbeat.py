"""A driver's sign of life in the database, for drivers that cannot look at its process.

Optuna's own heartbeat beats only inside `optimize`, which this project does not use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from search.errors import StorageFault
from search.storage.owner import (
    BEAT_S,
    DEAD_AFTER_S,
    Here,
    Mark,
    here,
    is_provably_alive,
    is_provably_dead,
    this_process,
)
from search.storage.store import Store

_log = logging.getLogger(__name__)

WATCH_S = 3 * BEAT_S
"""How long a driver with an old beat is watched: its clock may be another than ours."""

_LOOK_S = 2.0


def owners_alive(
    store: Store,
    *,
    now: datetime | None = None,
    seen: Here | None = None,
    wait: Callable[[float], object] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Callable[[str], bool]:
    """Whether an owner lives, as seen at this moment.

    A process of this kernel and this PID namespace is looked at. Any other is judged by its heartbeat: one that never
    beat, or took leave, is dead. A young beat is believed. An old one, or one of the future, may be that of a clock
    unlike ours, so its driver is watched for `WATCH_S`: it lives if it beats meanwhile.

    Args:
        store: Holds the beats.
        now: Real time, UTC.
        seen: From where processes are looked at; this process without it.
        wait: Passes seconds while a driver is watched; without it nobody is watched, and an old beat is death.
        notice: Gets one line before a watch.
    """
    beats, moment, view = store.beats(), now or _utc_now(), seen or here()
    known: dict[str, bool] = {}

    def lives(owner: str) -> bool:
        if owner not in known:
            known[owner] = _lives(owner)
        return known[owner]

    def _lives(owner: str) -> bool:
        if is_provably_dead(owner, view):
            return False
        if is_provably_alive(owner, view):
            return True
        beat = beats.get(owner)
        if beat is None:
            return False
        if timedelta(0) <= moment - beat < timedelta(seconds=DEAD_AFTER_S):
            return True
        return wait is not None and _beats_on(store, owner, beat, wait, notice or _log.warning)

    return lives


def _beats_on(
    store: Store, owner: str, last: datetime, wait: Callable[[float], object], notice: Callable[[str], None]
) -> bool:
    """Whether a driver renews its beat within `WATCH_S`; whoever takes leave meanwhile is dead."""
    mark = Mark.read(owner)
    who = f"process {mark.pid} on {mark.host}" if mark else owner
    notice(
        f"{who} left rows of this study open; it cannot be looked at from here and its last sign of life is of {last:%Y-%m-%d %H:%M:%S}, "
        f"so it is watched for {WATCH_S:g} s: clocks may differ"
    )
    passed = 0.0
    while passed < WATCH_S:
        wait(_LOOK_S)
        passed += _LOOK_S
        beat = store.beats().get(owner)
        if beat != last:
            return beat is not None
    return False


@contextmanager
def heartbeat(store: Store, *, now: Callable[[], datetime] | None = None, every_s: float = BEAT_S) -> Iterator[None]:
    """Store this process's sign of life, at once and then from a thread, until the block ends.

    Args:
        store: May be used by the block meanwhile.
        now: Real time, UTC, also in simulation: other hosts compare it with theirs.
        every_s: Between two heartbeats.
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
