"""SGLang 0.5.20 to 0.5.23: arguments are resolved after parsing, the old graph flags are gone."""

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
    fusion_architectures=history.FUSED_20,
    adaptive_table=(0, 1, 3, 5, 7),  # srt/speculative/adaptive_spec_params.py:26
    gone_flags={
        "cuda-graph-max-bs": "`cuda-graph-max-bs-decode`",
        "cuda-graph-bs": "`cuda-graph-bs-decode`",
        "enable-piecewise-cuda-graph": "`cuda-graph-backend-prefill`",
        "disable-piecewise-cuda-graph": "`cuda-graph-backend-prefill: disabled`",
        "speculative-dflash-draft-window-size": "`speculative-draft-window-size`",
    },
)

_0_5_21 = replace(
    _0_5_20,
    release="0.5.21",
    fusion_backends=("auto", "trtllm", "mnnvl", "cutedsl"),
    mscclpp_worlds=(4, 8, 16, 32, 64),
    pcie_ipc=True,
    pipeline_algorithms=frozenset({"EAGLE"}),
)

_0_5_22 = replace(_0_5_21, release="0.5.22", attention_backends=history.BACKENDS_22)

_0_5_23 = replace(
    _0_5_22,
    release="0.5.23",
    draft_backends=history.DRAFTS_23,
    fusion_architectures_on_sm100=frozenset({"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"}),
    tokenspeed_is_cutedsl=True,  # srt/arg_groups/serving_hook.py:304
    forced_chain_is_topk_1=True,  # srt/arg_groups/model_override_base.py:310
    dflash_falls_back_to_fa4=True,  # srt/arg_groups/speculative_hook.py:968
    dflash_dp_attention=True,
)


class Sglang0520(SpecV2Only):
    """0.5.20: the old names of the graph flags are gone."""

    releases: ClassVar = ("0.5.20",)
    traits: ClassVar = _0_5_20


class Sglang0521(SpecV2Only):
    """0.5.21: PCIe-IPC all-reduce, CuTe DSL fusion, pipeline parallelism for EAGLE."""

    releases: ClassVar = ("0.5.21",)
    traits: ClassVar = _0_5_21


class Sglang0522(SpecV2Only):
    """0.5.22."""

    releases: ClassVar = ("0.5.22",)
    traits: ClassVar = _0_5_22


class Sglang0523(SpecV2Only):
    """0.5.23: DFLASH under dp attention, tokenspeed_mla is cutedsl_mla."""

    releases: ClassVar = ("0.5.23",)
    traits: ClassVar = _0_5_23
