"""Lets many threads into something that one of them may have to replace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Replaceable:
    """Threads enter freely; while one replaces what is inside, nobody is in.

    Attributes:
        lives: How often it was replaced.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self.lives = 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside; waits while it is replaced. Not for a thread that is inside already."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def once(self, lives: int, replace: Callable[[], None]) -> None:
        """Replace it when everyone has left, unless another thread has done so since `lives` was read.

        A replacement that raises leaves `lives` as it was, so the next thread tries and learns why too.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            if self.lives != lives:
                return
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0)
        try:
            replace()
            self.lives += 1
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
