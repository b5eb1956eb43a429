"""A driver's sign of life in the database, for drivers on other hosts.

Optuna's own heartbeat beats only inside `optimize`, which this project does not use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from search.errors import StorageFault
from search.storage.owner import BEAT_S, lives, this_process
from search.storage.store import Store

_log = logging.getLogger(__name__)


def owners_alive(store: Store, *, now: datetime | None = None) -> Callable[[str], bool]:
    """`lives`, with the heartbeats as stored at this moment."""
    beats = store.beats()
    return lambda owner: lives(owner, beats, now=now)


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
