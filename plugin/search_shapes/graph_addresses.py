"""Room in the custom all-reduce's table of addresses: each captured graph registers some, and none is ever freed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("search_shapes")

_BYTES_PER_ADDRESS = 64
"""Eight pointers, one for each rank a node may have (`RankData` of SGLang's and vLLM's custom all-reduce)."""

_GROWTH = 1.1


class Addresses:
    """Counts what builds register, and says when another would not fit.

    Both kinds of custom all-reduce are looked at: the older one (`rank_data`, addresses counted as they are
    registered) and the newer (`graph_params`, which has a counter). Anything else is unlimited as far as is known.
    """

    def __init__(self, scheduler: Any) -> None:
        self._reducer: Any = getattr(getattr(scheduler, "tp_group", None), "ca_comm", None)
        self._builds = 0
        self._most = 0
        self._seen = 0

    def full(self) -> str:
        """Why no further build fits; empty when it does, or nothing has been built yet."""
        capacity = self._capacity()
        if not capacity or not self._most:
            return ""
        # The start itself registered about as many as one build does.
        used = max(self._counter() or 0, (self._builds + 1) * self._most)
        if used + self._most * _GROWTH <= capacity:
            return ""
        return (
            f"The custom all-reduce has room for {capacity} graph addresses, some {used} are taken, and one more shape "
            f"takes {self._most}. Go on in another start."
        )

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what the captures inside register."""
        reducer = self._reducer
        if not self._capacity():
            yield
            return
        before = self._counter()
        self._seen = 0
        original = getattr(reducer, "register_graph_buffers", None)
        if before is None and original is not None:
            reducer.register_graph_buffers = lambda: self._count_then(original)
        try:
            yield
        finally:
            if before is None and original is not None:
                del reducer.register_graph_buffers
        self._builds += 1
        self._most = max(self._most, self._seen if before is None else (self._counter() or 0) - before)

    def _count_then(self, original: Any) -> None:
        try:
            from sglang.srt.distributed.device_communicators import custom_all_reduce

            self._seen += len(custom_all_reduce.ops.get_graph_buffer_ipc_meta(self._reducer._ptr)[1])
        except Exception:
            log.exception("SEARCH_SHAPES: graph addresses could not be counted.")
        original()

    def _counter(self) -> int | None:
        count = getattr(self._reducer, "_graph_counter", None)
        return None if count is None else int(count)

    def _capacity(self) -> int:
        reducer = self._reducer
        if reducer is None or getattr(reducer, "disabled", False):
            return 0
        if (rows := getattr(reducer, "graph_params", None)) is not None:
            return int(rows.shape[0])
        data = getattr(reducer, "rank_data", None)
        return 0 if data is None else int(data.numel()) // _BYTES_PER_ADDRESS
