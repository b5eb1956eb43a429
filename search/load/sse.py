"""Bytes of SGLang's event stream to whole records, and the one counter every record needs.

SGLang answers `data: {"text": <all text so far>, "meta_info": {…}}`, one such line per batch of
tokens, and ends with `data: [DONE]`. Everything here works on bytes: a character that is split
over two reads is never decoded before its line is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DONE = b"[DONE]"
MAX_LINE = 8 * 2**20
"""Longest line kept, in bytes. A record repeats the whole answer, so 8 MiB is some 2 million tokens."""

_AFTER_KEY = re.compile(rb"\s*:\s*(\d+)")


class LineTooLong(ValueError):
    """A line grew beyond `MAX_LINE`: whatever answers there is not SGLang's stream."""


class RecordSplitter:
    """Cuts one response body into the payloads of its `data:` lines, wherever reads end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the payloads completed by `chunk`, in order; keep an unfinished line for later.

        Raises:
            LineTooLong: The unfinished line exceeds `MAX_LINE`.
        """
        *lines, self._rest = (self._rest + chunk if self._rest else chunk).split(b"\n")
        if len(self._rest) > MAX_LINE:
            raise LineTooLong(f"a line of the stream must not exceed {MAX_LINE} bytes, got {len(self._rest)}")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()


def count_key(name: str) -> bytes:
    """`name` as the bytes that `find_count` looks for."""
    return b'"' + name.encode() + b'"'


def find_count(record: bytes, key: bytes) -> int | None:
    """The whole number under `key`, without decoding the record; None when it is not there.

    Decoding costs time in proportion to the text so far, for every record of every stream. The
    search is as safe as decoding: inside a JSON string each quote is escaped, so `"name"` in raw
    quotes followed by a colon can only be a key, whatever text a model writes. It runs from
    the end, because the counters stand behind the text.
    """
    at = record.rfind(key)
    if at < 0:
        return None
    found = _AFTER_KEY.match(record, at + len(key))
    return int(found[1]) if found else None
