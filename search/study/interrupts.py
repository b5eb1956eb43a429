"""Holds Ctrl-C back while something must be finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Shield:
    """Whether Ctrl-C was pressed meanwhile."""

    pressed: bool = False


@contextmanager
def shielded() -> Iterator[Shield]:
    """Note SIGINT instead of raising `KeyboardInterrupt`, so that stopping a server is never cut short.

    The caller looks at `pressed` when it is done. Python delivers signals to the main thread
    only, so elsewhere there is nothing to hold back.
    """
    shield = Shield()
    if threading.current_thread() is not threading.main_thread():
        yield shield
        return

    def note(_signal: int, _frame: object) -> None:
        shield.pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield shield
    finally:
        # None: the handler was not installed from Python and cannot be put back by it.
        signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)
