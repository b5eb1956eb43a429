"""What kinds of servers never switch, and why, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
LOOPBACK = ("127.0.0.1", "localhost", "::1")

_SWITCHES = {
    "enable_dp_attention": "DP attention",
    "enable_two_batch_overlap": "two-batch overlap",
    "enable_pdmux": "PD multiplexing",
    "enable_multi_layer_eagle": "multi-layer EAGLE",
    "speculative_use_rejection_sampling": "rejection sampling",
    "speculative_adaptive": "adaptive steps",
    "enable_lora": "LoRA",
    "enable_torch_compile": "torch.compile",
}
"""Setting -> its name in a sentence. All of them hold state of one shape that a switch would not reach."""

_WORKERS = {
    ("sglang.srt.speculative.eagle_worker_v2", "EAGLEWorkerV2"),
    ("sglang.srt.speculative.standalone_worker_v2", "StandaloneWorkerV2"),
}


def by_settings(get: Callable[[str], Any]) -> str:
    """Why a server with these settings never switches; empty when they allow it."""
    algorithm = str(get("speculative_algorithm") or "none").upper()
    if algorithm not in ALGORITHMS:
        return f"Shapes are switched for {', '.join(ALGORITHMS)}, but this server drafts with {algorithm}."
    for name, words in _SWITCHES.items():
        if get(name):
            return f"A server with {words} (`{name}`) keeps its shape."
    for name in ("dp_size", "pp_size", "nnodes"):
        if (count := int(get(name) or 1)) > 1:
            return (
                f"A server with `{name}` {count} keeps its shape: the ranks that agree are those of one tensor group."
            )
    mode = str(get("disaggregation_mode") or "null")
    if mode not in ("null", "None"):
        return f"A server of a disaggregated pair (`disaggregation_mode` {mode}) keeps its shape."
    host = str(get("host") or LOOPBACK[0])
    if host not in LOOPBACK:
        return f"A server that takes commands listens on loopback alone, but this one listens on {host}."
    return ""


def by_worker(kind: type) -> str:
    """Why a worker of this class never switches; empty when it can."""
    if (kind.__module__, kind.__name__) in _WORKERS:
        return ""
    return f"Shapes are switched on EAGLEWorkerV2 and StandaloneWorkerV2, but this server runs {kind.__name__}."


def by_runners(worker: Any, target: Any, draft: Any, pool: Any) -> str:
    """Why these runners never switch; empty when they can.

    Args:
        worker: The speculative worker.
        target: The target's model runner.
        draft: The draft's.
        pool: The request-to-token pool.
    """
    if worker.adaptive_controller is not None:
        return "A server with adaptive steps keeps its shape."
    if type(pool).__name__.startswith("Hybrid"):
        return f"A hybrid or mamba model keeps its shape: its state pool ({type(pool).__name__}) is made for one."
    for name, runner in (("target", target), ("draft", draft)):
        prefill = getattr(runner, "prefill_cuda_graph_runner", None)
        if getattr(prefill, "_is_full_backend", False) or getattr(prefill, "use_captured_attn_metadata", False):
            return (
                f"The {name}'s prefill graphs hold the attention metadata of the start's own backend. Start with "
                "`--cuda-graph-backend-prefill breakable`, or without prefill graphs."
            )
        if getattr(runner, "canary_manager", None) is not None:
            return f"A server with a KV canary (on its {name}) keeps its shape."
    return ""
