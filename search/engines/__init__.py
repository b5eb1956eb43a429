"""What can run a server, behind one contract: simulated, replayed from a recording, or real."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from search.engines._replay import ReplayEngine
    from search.engines._sglang import SglangEngine
    from search.engines._simulated import SimulatedEngine

_HOMES = {
    "ReplayEngine": "search.engines._replay",
    "SglangEngine": "search.engines._sglang",
    "SimulatedEngine": "search.engines._simulated",
}

__all__ = ["ReplayEngine", "SglangEngine", "SimulatedEngine"]


def __getattr__(name: str) -> Any:
    """Load an engine when it is first asked for: the real one brings the client and the supervisor."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
