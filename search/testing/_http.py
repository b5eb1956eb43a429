"""The fake's HTTP interface: the routes of SGLang that clients of this project use."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

from aiohttp import web

from search.testing._link import Request, Requests
from search.testing._shapes import FakeShapes


def _token(seed: int, place: int) -> int:
    """A token id that no neighbour shares: an answer of them is no loop."""
    return (seed + 2654435761 * (place + 1)) % 2**32 % 32000


class Api:
    """Routes over a scheduler."""

    def __init__(
        self,
        args: argparse.Namespace,
        requests: Requests,
        *,
        release: str,
        arrived: Callable[[], bool],
        warmed_up: asyncio.Event,
        shapes: FakeShapes,
        reports_ids: bool = False,
    ) -> None:
        self._shapes = shapes
        self._reports_ids = reports_ids
        self._args = args
        self._requests = requests
        self._release = release
        self._arrived = arrived
        self._warmed_up = warmed_up
        self._ids = itertools.count()

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application()
        app.router.add_route("*", "/generate", self._generate)
        app.router.add_route("*", "/flush_cache", self._flush)
        self._shapes.attach(app)
        for route in ("/server_info", "/get_server_info"):
            app.router.add_get(route, self._server_info)
        for route in ("/model_info", "/get_model_info"):
            app.router.add_get(route, self._model_info)
        for route in ("/health", "/health_generate"):
            app.router.add_get(route, self._health)
        return app

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not self._arrived():
            await asyncio.Event().wait()
        generation = Request(wanted=int(body.get("sampling_params", {}).get("max_new_tokens", 128)))
        prompt_tokens = len(str(body.get("text", "")).split()) + len(body.get("input_ids", ()))
        seed = self._seed(body)
        facts = {"id": f"{next(self._ids):032x}", "prompt_tokens": prompt_tokens, "cached_tokens": 0}
        self._requests.submit(generation)
        try:
            if body.get("stream"):
                return await self._stream(request, generation, facts, seed)
            while not generation.done:
                await generation.updates.get()
            return web.json_response(self._record(generation, generation.tokens, facts, seed))
        finally:
            self._requests.leave(generation)  # a client that went away frees its place

    def _seed(self, body: dict[str, Any]) -> int | None:
        """What the answer's token ids follow from: the prompt where it is greedy, else chance; None reports no ids."""
        if not self._reports_ids:
            return None
        if body.get("sampling_params", {}).get("temperature", 1.0) > 0:
            return random.getrandbits(32)
        return zlib.crc32(str(body.get("text", "")).encode())

    async def _stream(
        self, request: web.Request, generation: Request, facts: dict[str, Any], seed: int | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        tokens = 0
        while tokens < generation.wanted:
            tokens = await generation.updates.get()
            record = json.dumps(self._record(generation, tokens, facts, seed))
            await response.write(f"data: {record}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    def _record(self, generation: Request, tokens: int, facts: dict[str, Any], seed: int | None) -> dict[str, Any]:
        meta: dict[str, Any] = {**facts, "finish_reason": None, "completion_tokens": tokens}
        if tokens >= generation.wanted:
            meta["finish_reason"] = {"type": "length", "length": generation.wanted}
            if generation.verify_count:
                meta["spec_verify_ct"] = generation.verify_count
                meta["spec_accept_length"] = tokens / generation.verify_count
                meta["spec_accept_histogram"] = generation.histogram
        ids = {} if seed is None else {"output_ids": [_token(seed, place) for place in range(tokens)]}
        return {"text": " word" * tokens, **ids, "meta_info": meta, "index": 0}

    async def _flush(self, _: web.Request) -> web.Response:
        if self._requests.busy:
            return web.Response(status=400, text="Flush cache failed: requests are running or waiting.\n")
        return web.Response(text="Cache flushed.\n")

    async def _server_info(self, _: web.Request) -> web.Response:
        limit = self._args.max_running_requests
        state: dict[str, Any] = {"effective_max_running_requests_per_dp": limit, "last_gen_throughput": 0.0}
        if self._requests.verify_count:
            state["avg_spec_accept_length"] = self._requests.tokens / self._requests.verify_count
        self._shapes.add_report(state)
        info = {**vars(self._args), "internal_states": [state] * self._args.dp_size, "version": self._release}
        return web.json_response(info)

    async def _model_info(self, _: web.Request) -> web.Response:
        return web.json_response({"model_path": self._args.model_path, "is_generation": True})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self._warmed_up.is_set() else 503)
