"""Token ids of one answer, out of records that repeat them all or bring the new ones only."""

from __future__ import annotations

import json
from typing import Any


class OutputIds:
    """Collects what the ids of a stream need, which as a rule is nothing.

    SGLang's records repeat all ids so far, so the last one suffices and no other is decoded. With
    `--stream-output` (0.5.9), `--incremental-streaming-output` (from 0.5.10 on) each brings its own
    only (read in `tokenizer_manager.py` of 0.5.9 to 0.5.23). The second arrival shows which.
    """

    __slots__ = ("_kept", "_repeated")

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._repeated = False

    def see(self, record: bytes, count: int) -> None:
        """Take a record that brought tokens, `count` of them so far in the answer."""
        if self._repeated:
            return
        self._kept.append(record)
        if len(self._kept) == 2:
            ids = _ids_of(record)
            self._repeated = not ids or len(ids) >= count

    def finish(self, last: dict[str, Any], tokens: int) -> tuple[int, ...]:
        """All ids of the answer; empty when the stream does not hold exactly `tokens` of them."""
        ids = _ids(last)
        if len(ids) != tokens and not self._repeated:
            ids = tuple(token for record in self._kept for token in _ids_of(record))
        return ids if len(ids) == tokens else ()


def _ids_of(record: bytes) -> tuple[int, ...]:
    try:
        return _ids(json.loads(record))
    except ValueError:  # only its count was looked at so far
        return ()


def _ids(body: object) -> tuple[int, ...]:
    ids = body.get("output_ids") if isinstance(body, dict) else None
    if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
        return ()
    return tuple(ids)
