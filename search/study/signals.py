"""Holds Ctrl-C back while something must be finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

HELD = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class Shield:
    """Whether Ctrl-C was pressed meanwhile."""

    pressed: bool = False


@contextmanager
def shielded() -> Iterator[Shield]:
    """Note SIGINT and SIGTERM instead of raising `KeyboardInterrupt`, so that stopping a server is never cut short.

    The caller looks at `pressed` when it is done. A signal that is ignored (SIGINT in a background
    job) or left to the system stays so. Python delivers signals to the main thread only, so
    elsewhere there is nothing to hold back.
    """
    shield = Shield()
    if threading.current_thread() is not threading.main_thread():
        yield shield
        return

    def note(_signal: int, _frame: object) -> None:
        shield.pressed = True

    before = {number: handler for number in HELD if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, note)
    try:
        yield shield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
