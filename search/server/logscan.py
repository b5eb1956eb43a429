"""Reads a server log of any size and any bytes with bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 4_000
"""Bytes kept of a line: `server_args=ServerArgs(…)` alone has some 8,000, causes are short."""

_CHUNK = 65_536
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\]\s*")
_GLUED = re.compile(r"(?<=[^\s])(?=\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] )")
"""A record right behind other text: a progress bar, or another process, ended no line before it."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line without colours and time stamp; `stamped` says whether a logger wrote it, rather
    than a traceback or a library going on from the line before.
    """

    text: str
    stamped: bool = False


def read_lines(path: Path) -> Iterator[LogLine]:
    """Yield the lines of a log; a progress bar's carriage returns end lines too, and so does
    the stamp of a record that is glued to one.

    Bytes that are not UTF-8 (two ranks writing at once, a line cut by a kill) are replaced. A
    missing file has no lines.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        line = bytearray()
        while chunk := file.read(_CHUNK):
            *ended, rest = re.split(rb"[\r\n]", chunk)
            for piece in ended:
                line += piece[: LONGEST_LINE - len(line)] if len(line) < LONGEST_LINE else b""
                if line:
                    yield from _parse(bytes(line))
                line.clear()
            line += rest[: max(0, LONGEST_LINE - len(line))]
        if line:
            yield from _parse(bytes(line))


def _parse(raw: bytes) -> Iterator[LogLine]:
    text = _ANSI.sub("", raw.decode("utf-8", errors="replace")).rstrip()
    for part in _GLUED.split(text):
        stamp = _STAMP.match(part)
        yield LogLine(part) if stamp is None else LogLine(part[stamp.end() :], stamped=True)
