"""SGLang 0.5.20 and 0.5.23: arguments are resolved after parsing, the old graph flags are gone."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from search.dialects import _history as history
from search.dialects.spec_v2_only import NEWEST_HERE, SpecV2Only

_0_5_20 = replace(
    NEWEST_HERE,
    release="0.5.20",
    attention_backends=history.BACKENDS_20,
    draft_backends=history.DRAFTS_20,
    deterministic_backends=("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton"),
    fusion_architectures=history.FUSED_20,
    trtllm_mha_prefill_majors=(9, 10, 12),  # srt/arg_groups/attention_hook.py:131
    mixed_chunk_algorithms=frozenset({"EAGLE", "EAGLE3", "DFLASH"}),  # srt/speculative/spec_info.py:139
    lora_algorithms=frozenset({"NGRAM", "EAGLE", "EAGLE3", "DFLASH"}),  # srt/arg_groups/lora_hook.py:174
    gone_flags={
        "cuda-graph-max-bs": "`cuda-graph-max-bs-decode`",
        "cuda-graph-bs": "`cuda-graph-bs-decode`",
        "enable-piecewise-cuda-graph": "`cuda-graph-backend-prefill`",
        "disable-piecewise-cuda-graph": "`cuda-graph-backend-prefill: disabled`",
        "speculative-dflash-draft-window-size": "`speculative-draft-window-size`",
    },
)

_0_5_23 = replace(
    _0_5_20,
    release="0.5.23",
    attention_backends=history.BACKENDS_23,
    draft_backends=history.DRAFTS_23,
    fusion_backends=("auto", "trtllm", "mnnvl", "cutedsl"),
    tokenspeed_is_cutedsl=True,  # srt/arg_groups/serving_hook.py:304
    mscclpp_worlds=(4, 8, 16, 32, 64),
    pcie_ipc=True,
    forced_chain_is_topk_1=True,  # srt/arg_groups/model_override_base.py:310
    dflash_falls_back_to_fa4=True,  # srt/arg_groups/speculative_hook.py:968
    dflash_dp_attention=True,
    pipeline_algorithms=frozenset({"EAGLE"}),  # srt/arg_groups/validation_hook.py:122
)


class Sglang0520(SpecV2Only):
    """0.5.20: trtllm_mha on SM90 and SM120, LoRA and mixed chunks with speculation."""

    releases: ClassVar = ("0.5.20",)
    traits: ClassVar = _0_5_20


class Sglang0523(SpecV2Only):
    """0.5.23: PCIe-IPC all-reduce, CuTe DSL fusion, pipeline parallelism for EAGLE."""

    releases: ClassVar = ("0.5.23",)
    traits: ClassVar = _0_5_23
