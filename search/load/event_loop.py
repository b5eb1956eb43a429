"""The event loop a phase runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed: the client then costs about half the processor time. Else None: asyncio's own."""
    try:
        import uvloop
    except ImportError:  # not on Windows, and not built everywhere
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
