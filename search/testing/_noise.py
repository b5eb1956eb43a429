"""The fake's noise: what real logs are full of, and what may hide a cause in them."""

from __future__ import annotations

import os
from collections.abc import Collection

FLOOD_BYTES = 16 * 2**20
_HUGE_BYTES = 4 * 2**20
_CHUNK = 2**16

NOISES = frozenset({"log-flood", "huge-line", "partial-utf8"})


def make_noise(misbehaviours: Collection[str]) -> None:
    """Write what is asked for to the log, at once.

    A flood is many healthy lines; a huge line is one without an end for megabytes; partial UTF-8
    is what a rank leaves that was killed in the middle of a character.
    """
    if "log-flood" in misbehaviours:
        line = b"[2026-03-01 02:11:03 TP0] Using default MoE kernel config. Performance might be sub-optimal!\n"
        piece = line * (_CHUNK // len(line))
        for _ in range(FLOOD_BYTES // len(piece)):
            _write(piece)
    if "huge-line" in misbehaviours:
        for _ in range(_HUGE_BYTES // _CHUNK):
            _write(b"tensor(0.1), " * (_CHUNK // 13))
        _write(b"\n")
    if "partial-utf8" in misbehaviours:
        _write("loading 模型".encode()[:-1] + b"\n\xff\xfe\n")


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(2, data) :]
