"""A server of scripted streams, and a clock that only the script moves."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from search.load.target import Target

DONE = b"data: [DONE]\n\n"


def record(
    tokens: int | None,
    *,
    text: str | None = None,
    finish: str | None = None,
    ids: list[int] | None = None,
    **meta: object,
) -> bytes:
    """One line of SGLang's stream, all text so far included, escapes as orjson writes them."""
    body = {"text": "ab " * (tokens or 0) if text is None else text, "meta_info": {"id": "r", **meta}}
    if ids is not None:
        body["output_ids"] = ids
    body["meta_info"]["finish_reason"] = {"type": finish} if finish else None
    if tokens is not None:
        body["meta_info"]["completion_tokens"] = tokens
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


async def until(condition: Callable[[], bool]) -> None:
    """Return once `condition` holds; whoever makes it true knows nothing of us, so ask often."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


class ScriptedClock:
    """Stands still until the script moves it; counts how often it was read."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


class Stream:
    """One request being answered."""

    def __init__(self, number: int, body: dict, response: web.StreamResponse, request: web.Request, clock) -> None:
        self.number = number
        self.body = body
        self.tokens = body["sampling_params"]["max_new_tokens"]
        self._response = response
        self._request = request
        self._clock = clock

    async def write(self, chunk: bytes) -> None:
        await self._response.write(chunk)

    async def at(self, now: float, chunk: bytes) -> None:
        """Move the clock to 100 + `now`, write, and wait until the client has read it."""
        reads = self._clock.reads
        self._clock.now = 100.0 + now
        await self._response.write(chunk)
        await until(lambda: self._clock.reads > reads)

    async def closed(self) -> None:
        """Return once the client has closed the connection."""
        await until(lambda: self._request.transport is None or self._request.transport.is_closing())

    def cut(self) -> None:
        """Break the connection, as a dying server does."""
        self._request.transport.abort()


class StreamServer:
    """Answers `/generate` by `script`, one call per request; remembers what it was asked."""

    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.asked: list[dict] = []
        self.flushes = 0
        self.flush_status = 200
        self.flush_takes_s = 0.0
        self.status = 200
        self.script: Callable[[Stream], Awaitable[None]] | None = None
        self.open = 0
        self.most_open = 0
        self.url = ""

    def target(self, **options) -> Target:
        return Target(base_url=self.url, **options)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(body)
        if self.status != 200:
            return web.json_response({"error": {"message": "the queue is on fire"}}, status=self.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            with contextlib.suppress(ConnectionError):
                await self.script(Stream(len(self.asked) - 1, body, response, request, self.clock))
        finally:
            self.open -= 1
        return response

    async def flush(self, request: web.Request) -> web.Response:
        self.flushes += 1
        await asyncio.sleep(self.flush_takes_s)
        return web.Response(status=self.flush_status)
