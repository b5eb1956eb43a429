"""From the knobs of a case to one release's words: written from each release's `--help`, by hand.

Independent of `search.dialects` on purpose: the verdicts check those, so they must not share a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

RELEASES: Final = (
    "0.5.9",
    "0.5.10",
    "0.5.10.post1",
    "0.5.11",
    "0.5.12",
    "0.5.12.post1",
    "0.5.13",
    "0.5.13.post1",
    "0.5.14",
    "0.5.15",
    "0.5.15.post1",
    "0.5.16",
    "0.5.17",
    "0.5.18",
    "0.5.19",
    "0.5.20",
    "0.5.21",
    "0.5.22",
    "0.5.23",
)
"""Oldest first; a release's place in it is what the exceptions below compare."""

VALUE_FLAGS: Final[Mapping[str, str]] = {
    "algorithm": "--speculative-algorithm",
    "num_steps": "--speculative-num-steps",
    "topk": "--speculative-eagle-topk",
    "num_draft_tokens": "--speculative-num-draft-tokens",
    "attention_backend": "--attention-backend",
    "prefill_attention_backend": "--prefill-attention-backend",
    "decode_attention_backend": "--decode-attention-backend",
    "draft_attention_backend": "--speculative-draft-attention-backend",
    "speculative_attention_mode": "--speculative-attention-mode",
    "page_size": "--page-size",
    "max_running_requests": "--max-running-requests",
    "mem_fraction_static": "--mem-fraction-static",
    "chunked_prefill_size": "--chunked-prefill-size",
    "kv_cache_dtype": "--kv-cache-dtype",
    "ngram_max_bfs_breadth": "--speculative-ngram-max-bfs-breadth",
    "dflash_block_size": "--speculative-dflash-block-size",
    "moe_runner_backend": "--moe-runner-backend",
    "speculative_moe_runner_backend": "--speculative-moe-runner-backend",
    "accept_threshold_single": "--speculative-accept-threshold-single",
    "pp_size": "--pp-size",
    "dp_size": "--dp-size",
    "adaptive_config": "--speculative-adaptive-config",
    "mamba_track_interval": "--mamba-track-interval",
    "quantization": "--quantization",
    "draft_quantization": "--speculative-draft-model-quantization",
}
"""Knob -> flag that takes its value."""

SWITCHES: Final[Mapping[str, str]] = {
    "disable_overlap_schedule": "--disable-overlap-schedule",
    "dp_attention": "--enable-dp-attention",
    "dp_lm_head": "--enable-dp-lm-head",
    "mixed_chunk": "--enable-mixed-chunk",
    "deterministic": "--enable-deterministic-inference",
    "lora": "--enable-lora",
    "disable_cuda_graph": "--disable-cuda-graph",
    "disable_radix_cache": "--disable-radix-cache",
    "rejection_sampling": "--speculative-use-rejection-sampling",
    "block_verification": "--speculative-use-block-verification",
    "adaptive": "--speculative-adaptive",
    "multi_layer_eagle": "--enable-multi-layer-eagle",
    "two_batch_overlap": "--enable-two-batch-overlap",
    "skip_dp_mlp_sync": "--speculative-skip-dp-mlp-sync",
    "piecewise_cuda_graph": "--enable-piecewise-cuda-graph",
    "no_piecewise_cuda_graph": "--disable-piecewise-cuda-graph",
    "fusion_flag": "--enable-flashinfer-allreduce-fusion",
}
"""Knob -> flag without a value, sent when the knob is true."""

TRANSPORTS: Final[Mapping[str, str]] = {
    "nccl": "--disable-custom-all-reduce",
    "torch-symm-mem": "--enable-torch-symm-mem",
    "nccl-symm-mem": "--enable-symm-mem",
    "mscclpp": "--enable-mscclpp",
    "nvls": "--enable-nccl-nvls",
}

Spelled = tuple[list[str], dict[str, str]]


class Inexpressible(Exception):
    """The release has no words for a value of the case."""


def spell(knobs: Mapping[str, Any], release: str) -> Spelled:
    """Arguments and environment of the knobs.

    A flag that the release lacks is spelled all the same: what its parser says of it is a verdict too.

    Raises:
        Inexpressible: A worker or transport that this release cannot be asked for.
        KeyError: No such knob.
    """
    since = place(release)
    argv: list[str] = []
    env: dict[str, str] = {}
    for name, value in knobs.items():
        if name in VALUE_FLAGS:
            argv += [VALUE_FLAGS[name], str(value)]
        elif name in SWITCHES:
            argv += [SWITCHES[name]] if value else []
        else:
            more, variables = _SPECIAL[name](value, since)
            argv += more
            env.update(variables)
    return argv, env


def place(release: str) -> int:
    """Where a release stands; one that is not in the list is newer than all."""
    return RELEASES.index(release) if release in RELEASES else len(RELEASES)


def _from(release: str) -> int:
    return RELEASES.index(release)


def _worker(value: str, since: int) -> Spelled:
    """`v1`, `v2` (overlapped) or `v2-sync`."""
    if since < _from("0.5.11") and value in ("v1", "v2"):
        return [], {"SGLANG_ENABLE_SPEC_V2": "True"} if value == "v2" else {}
    if since < _from("0.5.13") and value in ("v1", "v2"):
        return ["--disable-overlap-schedule"] if value == "v1" else [], {}
    if since >= _from("0.5.13") and value in ("v2", "v2-sync"):
        return ["--disable-overlap-schedule"] if value == "v2-sync" else [], {}
    raise Inexpressible(f"worker {value}")


def _fusion(value: str, since: int) -> Spelled:
    if value == "off":
        if since < _from("0.5.10"):
            raise Inexpressible("no flag turns the fusion off")
        return ["--enforce-disable-flashinfer-allreduce-fusion"], {}
    if value == "on" or (value == "auto" and since < _from("0.5.14")):
        return ["--enable-flashinfer-allreduce-fusion"], {}
    return ["--flashinfer-allreduce-fusion-backend", value], {}


def _transport(value: str, since: int) -> Spelled:
    if value == "pcie-ipc":
        if since < _from("0.5.23"):
            raise Inexpressible("PCIe-IPC begins at 0.5.23")
        return [], {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}
    return [TRANSPORTS[value]], {}


def _graph_max_bs(value: int, since: int) -> Spelled:
    return ["--cuda-graph-max-bs" if since < _from("0.5.14") else "--cuda-graph-max-bs-decode", str(value)], {}


def _window(value: int, since: int) -> Spelled:
    name = "dflash-draft-window-size" if since == _from("0.5.11") else "draft-window-size"
    return [f"--speculative-{name}", str(value)], {}


def _old_graph_max_bs(value: int, _since: int) -> Spelled:
    return ["--cuda-graph-max-bs", str(value)], {}


_SPECIAL: Final[Mapping[str, Callable[[Any, int], Spelled]]] = {
    "spec_version": _worker,
    "spec_v2_env": lambda value, _since: ([], {"SGLANG_ENABLE_SPEC_V2": str(value)}),
    "pp_spec_env": lambda value, _since: ([], {"SGLANG_ENABLE_PP_SPEC": str(value)}),
    "allreduce_fusion": _fusion,
    "allreduce_transport": _transport,
    "cuda_graph_max_bs": _graph_max_bs,
    "old_cuda_graph_max_bs": _old_graph_max_bs,
    "draft_window_size": _window,
    "flags": lambda value, _since: (list(value), {}),
}
"""Knobs whose words differ by release, and `flags`, which are words already."""
