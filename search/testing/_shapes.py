"""The fake's part of the shape plugin: the plugin's own protocol over a server without GPUs.

Present as in the real thing: the launch gives a token, the plugin's folder is on `PYTHONPATH`, `SGLANG_PLUGINS` does
not leave it out, and its table knows the release.

Misbehaviours: `shapes-busy` (never idle), `shapes-refuse` (a kind of server that keeps its shape), `shapes-die` and
`shapes-hang` (in the middle of a switch), `shapes-lie` (says yes, and goes on in the old shape), `shapes-slow-build`
(2 s, as `shapes-slow-apply` after it), `shapes-fail-build` (out of memory, and all put back), `shapes-fail-undo` (the same, with topk left behind),
`shapes-no-room` (memory for two shapes beside the start's), `shapes-not-there` (the plugin failed to load).
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import signal
import time
from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from typing import Any

from aiohttp import web

from search.testing._link import Requests

log = logging.getLogger(__name__)

_GROUP = "sglang.srt.plugins"
_SLOW_S = 2.0
_STATE_GB = 0.5


class FakeRank:
    """One rank, for the plugin's `Switcher`."""

    page_size = 1

    def __init__(
        self, shape: Any, bad: Collection[str], *, busy: Callable[[], bool], run: Callable[[Any], None]
    ) -> None:
        self._shape = shape
        self._topk = shape.topk
        self._bad = bad
        self._is_busy = busy
        self._run = run
        self._free_gb = 1.6 if "shapes-no-room" in bad else 20.0
        self._states: list[_State] = []

    def refuses(self) -> str:
        """See the plugin's `Server`."""
        return (
            "A server with DP attention (`enable_dp_attention`) keeps its shape."
            if "shapes-refuse" in self._bad
            else ""
        )

    def busy(self) -> str:
        """See there."""
        return "requests are running or waiting." if self._is_busy() or "shapes-busy" in self._bad else ""

    def running(self) -> Any:
        """See there."""
        return self._shape

    def places(self) -> dict[str, Any]:
        """See there."""
        return {"worker": self._shape._replace(topk=self._topk), "settings": self._shape}

    def free_gb(self) -> float:
        """See there."""
        return self._free_gb - _STATE_GB * _State.alive

    def full(self) -> str:
        """See there."""
        return ""

    def state(self) -> Any:
        """See there."""
        return object()

    def build(self, shape: Any) -> Any:
        """See there; logs as the release does while it captures."""
        log.info("Capture cuda graph begin. This can take up to several minutes.")
        if "shapes-die" in self._bad:
            os.kill(os.getpid(), signal.SIGQUIT)  # what a dying scheduler sends
            time.sleep(60)
        if "shapes-hang" in self._bad:
            time.sleep(3600)
        if "shapes-slow-build" in self._bad:
            time.sleep(_SLOW_S)
        if "shapes-fail-undo" in self._bad:
            self._topk = shape.topk
        if "shapes-fail-build" in self._bad or "shapes-fail-undo" in self._bad:
            raise RuntimeError("CUDA out of memory. Tried to allocate 512.00 MiB.")
        log.info("Capture cuda graph end.")
        return _State()

    def snapshot(self) -> Any:
        """See there."""
        return self._shape, self._topk

    def restore(self, snapshot: Any) -> None:
        """See there."""
        self._shape, self._topk = snapshot

    def apply(self, shape: Any, state: Any) -> None:  # noqa: ARG002 - the fake has nothing to swap
        """See there."""
        if "shapes-slow-apply" in self._bad:
            time.sleep(_SLOW_S)
        self._shape, self._topk = shape, shape.topk
        self._run(shape)

    def settle(self) -> str:
        """See there."""
        return ""


class _State:
    """Graphs, as far as memory goes."""

    alive = 0

    def __init__(self) -> None:
        _State.alive += 1

    def __del__(self) -> None:
        _State.alive -= 1


class FakeShapes:
    """The plugin in the fake's HTTP process."""

    def __init__(self, args: argparse.Namespace, requests: Requests, bad: Collection[str], release: str) -> None:
        self._bad = bad
        self._release = release
        self._switcher: Any = None
        if "shapes-not-there" in bad or not _on_the_path():
            return
        self._wire = importlib.import_module("search_shapes.wire")
        token = os.environ.get(self._wire.TOKEN_VARIABLE, "")
        if not token or importlib.import_module("search_shapes.internals").profile(release) is None:
            return
        self._token = token
        logging.basicConfig(level=logging.INFO, format="[%(asctime)s TP0] %(message)s", datefmt="%Y-%m-%d %H:%M:%S")
        shape = importlib.import_module("search_shapes.shape").Shape
        loop = asyncio.get_running_loop()

        def run(shape: Any) -> None:
            if "shapes-lie" not in bad:
                loop.call_soon_threadsafe(requests.run_shape, *shape)

        rank = FakeRank(
            shape(
                args.speculative_eagle_topk or 0,
                args.speculative_num_steps or 0,
                args.speculative_num_draft_tokens or 0,
            ),
            bad,
            busy=lambda: requests.busy,
            run=run,
        )
        self._switcher = importlib.import_module("search_shapes.switch").Switcher(
            rank,
            importlib.import_module("search_shapes.ranks").Alone(),
            cap=int(os.environ.get(self._wire.CAP_VARIABLE, "8")),
            room_gb=float(os.environ.get(self._wire.ROOM_VARIABLE, "1.0")),
        )

    def attach(self, app: web.Application) -> None:
        """Add the route that SGLang has for such commands, plugin or not."""
        for method in ("POST", "PUT"):
            app.router.add_route(method, "/set_internal_state", self._set)

    def add_report(self, state: dict[str, Any]) -> None:
        """Put the report into what `/server_info` returns."""
        if self._switcher is not None:
            report = {"protocol": self._wire.PROTOCOL, "release": self._release, **self._switcher.report()}
            report["reserve_tokens"] = 2 * max(report["now"][0] * report["now"][1], report["now"][2])
            if "shapes-lie" in self._bad:
                report["now"] = report["start"]
            state[self._wire.REPORT] = report

    async def _set(self, request: web.Request) -> web.Response:
        given = (await request.json())["server_args"]
        asked = None if self._switcher is None else self._wire.read(given, token=self._token)
        if asked is None or not asked.authentic:
            return web.json_response([False])
        last = await asyncio.to_thread(self._switcher.ask, asked.shape, asked.request)
        return web.json_response([last.outcome == "switched"])


def _on_the_path() -> bool:
    """Whether SGLang would load it: found by its entry point, and not left out by the whitelist."""
    allowed = {name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",") if name.strip()}
    names = {point.name for point in entry_points(group=_GROUP)}
    return "search_shapes" in names and (not allowed or "search_shapes" in allowed)
