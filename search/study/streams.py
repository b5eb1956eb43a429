"""Standard streams that outlast whoever reads them: a terminal that is closed, `| head -1`, a full disk.

What a study measured is in its database and its report; what was to be shown of it is not worth its end. For a command
that only prints, an output that cannot be written is its end. This module
imports little, for it is imported before Ctrl-C is handled.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TextIO


class Lasting:
    """A text stream whose writes do not raise while it `outlasts` its reader.

    Attributes:
        outlasts: Whether it does.
        lost: The first error of a write; what was written then and later is gone.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.outlasts = False
        self.lost: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As of the stream."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError) as error:
            self._give_up(error)
            if not self.outlasts:
                raise
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As of the stream."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """As of the stream."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._give_up(error)
            if not self.outlasts:
                raise

    def _give_up(self, error: Exception) -> None:
        """Send the rest, and what the stream still holds, to nobody."""
        if self.lost is not None:
            return
        self.lost = error
        with suppress(OSError, ValueError):
            number = self._stream.fileno()
            nobody = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nobody, number)
            os.close(nobody)
            if self.outlasts and number == 1:
                reason = getattr(error, "strerror", None) or error
                sys.stderr.write(
                    f"Standard output can no longer be written ({reason}). The work goes on; its report tells all.\n"
                )


def outlast() -> None:
    """For a command whose work is worth more than what it shows: go on when nobody can be shown anything any more."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Lasting):
            stream.outlasts = True


def make_lasting() -> None:
    """Make standard output and error of this process `Lasting`, opened where they were closed.

    A closed one would be the number of the next file that is opened, such as the database. What a stream's encoding
    lacks is written as an escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Lasting(stream))
