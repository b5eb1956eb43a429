"""Holds the GPUs: Ray actors for real runs, this process for simulation and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from search.cluster.executor import Executor, InlineExecutor

if TYPE_CHECKING:
    from search.cluster._nodes import ask_nodes
    from search.cluster._ray import RayExecutor

__all__ = ["Executor", "InlineExecutor", "RayExecutor", "ask_nodes"]


def __getattr__(name: str) -> Any:
    """Ray takes a second to import, and a simulated run does without."""
    if name == "RayExecutor":
        from search.cluster._ray import RayExecutor

        return RayExecutor
    if name == "ask_nodes":
        from search.cluster._nodes import ask_nodes

        return ask_nodes
    raise AttributeError(name)
