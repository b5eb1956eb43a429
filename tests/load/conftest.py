"""The scripted server, running."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from load_streams import StreamServer


@pytest.fixture
async def server() -> AsyncIterator[StreamServer]:
    """A running StreamServer; set its `script` before sending load."""
    stub = StreamServer()
    app = web.Application()
    app.router.add_post("/generate", stub.generate)
    app.router.add_post("/flush_cache", stub.flush)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield stub
    await runner.cleanup()
