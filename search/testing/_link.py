"""What the fake's HTTP process and its scheduler process say to each other: JSON lines over a socket pair.

As in the real server, the HTTP process makes no tokens: it waits for the scheduler. A scheduler that
is stopped gives silence behind an HTTP server that still answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from search.testing._batcher import Batcher, Costs, Generation

_LINE_BYTES = 2**20


@dataclass(slots=True)
class Request:
    """One request as the HTTP process knows it. `tokens` of each step are put into `updates`.

    `verify_count` and `histogram` come with the last step.
    """

    wanted: int
    tokens: int = 0
    verify_count: int = 0
    histogram: list[int] = field(default_factory=list)
    updates: asyncio.Queue[int] = field(default_factory=asyncio.Queue)

    @property
    def done(self) -> bool:
        """Whether all its tokens are here."""
        return self.tokens >= self.wanted


class Requests:
    """The HTTP process's end: hands requests to the scheduler, and its answers back to them."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._writer: asyncio.StreamWriter | None = None
        self._open: dict[int, Request] = {}
        self._last = 0
        self.verify_count = 0
        self.tokens = 0

    @property
    def busy(self) -> bool:
        """Whether requests run or wait."""
        return bool(self._open)

    def submit(self, request: Request) -> None:
        """Put a request into the scheduler's line."""
        self._last += 1
        self._open[self._last] = request
        self._say({"submit": self._last, "wanted": request.wanted})

    def leave(self, request: Request) -> None:
        """Free the place of a request whose client is gone; does nothing for one that is done."""
        for number in [number for number, known in self._open.items() if known is request]:
            del self._open[number]
            self._say({"leave": number})

    def run_shape(self, topk: int, steps: int, tokens: int) -> None:
        """Let the scheduler draft with another tree."""
        self._say({"shape": [topk, steps, tokens]})

    def fail_scheduler(self) -> None:
        """Let the scheduler die of a CUDA fault."""
        self._say({"die": True})

    async def open(self) -> None:
        """Connect; before the first request."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._link, limit=_LINE_BYTES)

    async def run(self) -> None:
        """Pass on what the scheduler says, until it is gone; then there is silence."""
        while line := await self._line():
            data = json.loads(line)
            self.tokens, self.verify_count = data["totals"]
            for number, tokens, *end in data["steps"]:
                if (request := self._open.get(number)) is None:
                    continue
                if end:
                    request.verify_count, request.histogram = end
                    del self._open[number]
                request.tokens = tokens
                request.updates.put_nowait(tokens)
            await asyncio.sleep(0)  # each step goes out by itself, though several were read at once

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ConnectionError:  # it died with an order unread
            return b""

    def _say(self, order: dict[str, Any]) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.write(_line(order))


async def run_scheduler(
    link: socket.socket, costs: Costs, *, limit: int, watch: Callable[[int], bool], die: Callable[[], None]
) -> None:
    """The scheduler process's end: makes tokens until the HTTP process is gone.

    Args:
        link: To the HTTP process.
        costs: Of a step.
        limit: Requests that run at once.
        watch: Asked with the batch before each step; False stops all progress.
        die: Called when the HTTP process says so.
    """
    reader, writer = await asyncio.open_connection(sock=link, limit=_LINE_BYTES)
    known: dict[int, Generation] = {}

    def tell(stepped: Sequence[Generation]) -> None:
        steps = [_step(generation) for generation in stepped if not generation.cancelled]
        writer.write(_line({"totals": (batcher.tokens, batcher.verify_count), "steps": steps}))
        for generation in stepped:
            if generation.done:
                known.pop(generation.number, None)

    async def listen() -> None:
        while line := await reader.readline():
            order = json.loads(line)
            if "die" in order:
                die()
            elif "shape" in order:
                batcher.run_shape(*order["shape"])
            elif "leave" in order:
                if (left := known.pop(order["leave"], None)) is not None:
                    left.cancelled = True
            else:
                known[order["submit"]] = generation = Generation(order["submit"], order["wanted"])
                batcher.submit(generation)
        os._exit(0)

    batcher = Batcher(costs, limit=limit, watch=watch, tell=tell)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listen())
        tasks.create_task(batcher.run())


def _step(generation: Generation) -> tuple[Any, ...]:
    if generation.done:
        return generation.number, generation.tokens, generation.verify_count, generation.histogram
    return generation.number, generation.tokens


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
