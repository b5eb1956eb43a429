"""The two hooks: a command comes with `/set_internal_state`, the report goes out with `/server_info`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from search_shapes import live, ranks, wire
from search_shapes.switch import SWITCHED, Switcher

log = logging.getLogger("search_shapes")

_KEPT = "_search_shapes"
"""Where a scheduler keeps its switcher: as long as the scheduler, no longer."""

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"


def install(*, token: str, release: str, profile: dict[str, Any]) -> None:
    """Register the hooks with SGLang."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    hooks = Hooks(token=token, release=release, profile=profile)
    HookRegistry.register(f"{_SCHEDULER}.set_internal_state", hooks.command, HookType.AROUND)
    HookRegistry.register(f"{_SCHEDULER}.get_internal_state", hooks.report, HookType.AFTER)


class Hooks:
    """What SGLang calls, on every rank."""

    def __init__(self, *, token: str, release: str, profile: dict[str, Any]) -> None:
        self._token = token
        self._release = release
        self._profile = profile

    def command(self, original: Callable[..., Any], scheduler: Any, recv_req: Any) -> Any:
        """Around `Scheduler.set_internal_state`: ours is done here, any other goes on."""
        asked = wire.read(recv_req.server_args, token=self._token)
        if asked is None:
            return original(scheduler, recv_req)
        from sglang.srt.managers.io_struct import SetInternalStateReqOutput

        if not asked.authentic:
            log.error("SEARCH_SHAPES: a command without this launch's token was turned away.")
            return SetInternalStateReqOutput(updated=False)
        last = self._switcher(scheduler).ask(asked.shape, asked.request)
        return SetInternalStateReqOutput(updated=last.outcome == SWITCHED)

    def report(self, result: Any, scheduler: Any, *_: Any, **__: Any) -> Any:
        """After `Scheduler.get_internal_state`: what runs now, at all places, and how the last command ended."""
        try:
            answer = {"protocol": wire.PROTOCOL, "release": self._release, **self._switcher(scheduler).report()}
            answer["reserve_tokens"] = live.reserve_tokens()
        except Exception as error:  # a report that fails must not take the server down
            log.exception("SEARCH_SHAPES: the report failed.")
            answer = {"protocol": wire.PROTOCOL, "release": self._release, "broken": f"the report failed: {error}"}
        result.internal_state[wire.REPORT] = answer
        return result

    def _switcher(self, scheduler: Any) -> Switcher:
        kept: Switcher | None = getattr(scheduler, _KEPT, None)
        if kept is None:
            kept = Switcher(
                live.LiveServer(scheduler, self._profile, self._release),
                ranks.of(scheduler),
                cap=int(os.environ.get(wire.CAP_VARIABLE, "8")),
                room_gb=float(os.environ.get(wire.ROOM_VARIABLE, "1.0")),
            )
            setattr(scheduler, _KEPT, kept)
        return kept
