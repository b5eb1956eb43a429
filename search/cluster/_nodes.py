"""Asks every node of a running Ray cluster that could hold a slot, before the first launch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from search.cluster._cluster import connect, disconnect, gpus_by_node
from search.errors import HostUnfit

ANSWER_S = 180.0
"""For all nodes together; reading what is installed takes long on a cold disk."""

T = TypeVar("T")


def ask_nodes(
    address: str, question: Callable[[], T], *, gpus_per_slot: int, timeout_s: float = ANSWER_S
) -> dict[str, T]:
    """The answer of each node with room for a slot, by the name the node has in the cluster.

    The question runs on the node, in a worker of Ray that holds no GPU, with our package as it is
    installed there.

    Args:
        address: Of the cluster.
        question: Importable there; its answer is pickled.
        gpus_per_slot: Nodes with fewer GPUs are not asked; 0 asks all.
        timeout_s: For all answers together.

    Raises:
        HostUnfit: A node did not answer in time, or could not run the question.
    """
    ray = connect(address, with_gpus=False)
    try:
        return _answers(ray, question, gpus_per_slot, timeout_s)
    finally:
        disconnect(ray, local=False)


def _answers(ray: Any, question: Callable[[], Any], gpus_per_slot: int, timeout_s: float) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    names = {str(node["NodeID"]): str(node["NodeName"]) for node in ray.nodes()}
    wanted = [node for node, count in gpus_by_node(ray).items() if count >= gpus_per_slot]
    # Nodes that share a host share a name too.
    labels = {node: names[node] if list(names.values()).count(names[node]) == 1 else node for node in wanted}
    task = ray.remote(num_cpus=0, max_retries=0)(_with_all_gpus)
    asked = {
        node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(question)
        for node in wanted
    }
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout_s)
    answers, silent = {}, []
    for node, reference in asked.items():
        try:
            answers[labels[node]] = ray.get(reference, timeout=0)
        except ray.exceptions.GetTimeoutError:
            ray.cancel(reference, force=True)
            silent.append(
                f"Node {labels[node]} gave no answer within {timeout_s:g} s. `ray status` shows whether it is alive."
            )
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            said = str(cause).strip().splitlines() or [type(cause).__name__]
            silent.append(f"Node {labels[node]} could not be asked: {said[-1]}")
    if silent:
        raise HostUnfit(tuple(silent))
    return answers


def _with_all_gpus(question: Callable[[], Any]) -> Any:
    """Ray hides all GPUs from a task that asks for none; ours only looks at them."""
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return question()
