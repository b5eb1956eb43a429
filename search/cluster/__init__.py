"""Holds the GPUs: Ray actors for real runs, this process for simulation and replay."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from search.cluster._executor import Executor, InlineExecutor

if TYPE_CHECKING:
    from search.cluster._nodes import ask_nodes
    from search.cluster._ray import RayExecutor

__all__ = ["Executor", "InlineExecutor", "RayExecutor", "ask_nodes"]


_HOMES = {"RayExecutor": "search.cluster._ray", "ask_nodes": "search.cluster._nodes"}


def __getattr__(name: str) -> Any:
    """Ray takes a second to import, and a simulated run does without."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(_HOMES[name]), name)
