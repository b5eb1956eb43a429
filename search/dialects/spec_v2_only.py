"""SGLang 0.5.13 to 0.5.19: one worker, v2, with or without the overlap scheduler; trees are legal on it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from search.config import SpecVersion
from search.dialects import _history as history
from search.dialects._base import LaunchArgs, MetaFields, Phrase
from search.dialects._phrases import SCHEDULER_KILLED
from search.dialects._sglang import SglangDialect
from search.dialects._traits import Traits
from search.dialects.spec_v1_default import OLD_GRAPH_FLAGS

_0_5_13 = Traits(
    release="0.5.13",
    algorithms=history.WITH_DFLASH,
    v1_algorithms=frozenset({"NGRAM", "DFLASH"}),
    v2_algorithms=history.EAGLE_FAMILY,
    attention_backends=history.BACKENDS_13,
    draft_backends=history.DRAFTS_13,
    fusion_architectures=history.FUSED_13,
    fa4_page="prefill-sm100",
    hybrid_radix_stops_overlap=True,
    more_hybrids=frozenset({"BailingMoeV2_5ForCausalLM"}),  # srt/server_args.py:2464
    checks_every_draft_window=True,
    tree_on_v2=True,  # sglang#26997, sglang#26972
    synchronous_v2=True,
    paged_tree_backends=("flashinfer", "fa3", "triton"),
    deterministic_backends=("flashinfer", "fa3", "triton", "ascend"),
    deterministic_first=True,
    fusion_off_when_deterministic=True,
    adaptive="by-batch-size",
    gone_flags=OLD_GRAPH_FLAGS,
)

_0_5_14 = replace(
    _0_5_13,
    release="0.5.14",
    v1_algorithms=frozenset(),
    v2_algorithms=history.WITH_DFLASH,
    fusion_architectures=history.FUSED_14,
    fusion_backends=("auto", "trtllm", "mnnvl"),
    fusion_across_nodes_on_sm100=True,
    hybrid_radix_stops_overlap=False,
    torch_symm_mem_dies=False,
    mscclpp_worlds=(8, 16, 32),
    adaptive_zero_steps=True,
    adaptive_table=(0, 1, 3, 7),  # srt/speculative/adaptive_spec_params.py:22
    hybrid_pages=False,  # srt/server_args.py:4356
    gone_flags={},
)

_0_5_15 = replace(
    _0_5_14,
    release="0.5.15",
    fa4_page="chain-sm100",  # srt/arg_groups/overrides.py:1675
    trtllm_mha_by_pair=True,  # srt/arg_groups/speculative_hook.py:390
    dflash_rewrites_draft_backend=True,  # srt/arg_groups/speculative_hook.py:255
)

_0_5_16 = replace(
    _0_5_15,
    release="0.5.16",
    hybrid_pages=True,
    draft_backends=history.DRAFTS_16,
    deterministic_backends=("ascend", "fa3", "fa4", "flashinfer", "triton"),
)

_0_5_17 = replace(
    _0_5_16,
    release="0.5.17",
    attention_backends=history.BACKENDS_17,
    trtllm_mha_pages=(16, 32, 64, 128),  # srt/arg_groups/overrides.py
    trtllm_mha_as_draft_pages=True,
)

_0_5_18 = replace(_0_5_17, release="0.5.18", fusion_architectures=history.FUSED_18)

NEWEST_HERE = replace(
    _0_5_18,
    release="0.5.19",
    attention_backends=history.BACKENDS_19,
    deterministic_backends=("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton"),
    trtllm_mha_prefill_majors=(9, 10, 12),  # srt/arg_groups/overrides.py
    mixed_chunk_algorithms=frozenset({"EAGLE", "EAGLE3", "DFLASH"}),  # srt/speculative/spec_info.py
    lora_algorithms=frozenset({"NGRAM", "EAGLE", "EAGLE3", "DFLASH"}),
    fused_shards_divide=True,  # srt/arg_groups/model_hook.py:423
)


class SpecV2Only(SglangDialect):
    """v2, whose overlap the flag turns off."""

    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_correct_drafts_histogram",
        accepted_drafts="spec_num_correct_drafts",
        proposed_drafts="spec_num_proposed_drafts",
    )
    phrases: ClassVar[tuple[Phrase, ...]] = (SCHEDULER_KILLED,)

    def worker_args(self, version: SpecVersion, *, overlap: bool) -> LaunchArgs:
        """See `SglangDialect`. SGLANG_ENABLE_SPEC_V2 is removed: 0.5.13 reads it as a second switch of the overlap."""
        quiet = not overlap and version is not SpecVersion.V1
        flags = ("--disable-overlap-schedule",) if quiet else ()
        return LaunchArgs(flags, {"SGLANG_ENABLE_SPEC_V2": None})


class Sglang0513(SpecV2Only):
    """0.5.13: NGRAM and DFLASH still run without overlap, on their v1 workers."""

    releases: ClassVar = ("0.5.13",)
    traits: ClassVar = _0_5_13


class Sglang0513Post1(SpecV2Only):
    """0.5.13.post1: its arguments are those of 0.5.13."""

    releases: ClassVar = ("0.5.13.post1",)
    traits: ClassVar = replace(_0_5_13, release="0.5.13.post1")


class Sglang0514(SpecV2Only):
    """0.5.14: all algorithms on v2, named fusion backends, rejection sampling, graph flags by phase."""

    releases: ClassVar = ("0.5.14",)
    traits: ClassVar = _0_5_14


class Sglang0515(SpecV2Only):
    """0.5.15: DFLASH's draft backend is rewritten, fa4 forces pages for chains."""

    releases: ClassVar = ("0.5.15",)
    traits: ClassVar = _0_5_15


class Sglang0515Post1(SpecV2Only):
    """0.5.15.post1: its arguments are those of 0.5.15."""

    releases: ClassVar = ("0.5.15.post1",)
    traits: ClassVar = replace(_0_5_15, release="0.5.15.post1")


class Sglang0516(SpecV2Only):
    """0.5.16."""

    releases: ClassVar = ("0.5.16",)
    traits: ClassVar = _0_5_16


class Sglang0517(SpecV2Only):
    """0.5.17: trtllm_mha with a page size of 128, and as the draft's backend; hpc_ops."""

    releases: ClassVar = ("0.5.17",)
    traits: ClassVar = _0_5_17


class Sglang0518(SpecV2Only):
    """0.5.18."""

    releases: ClassVar = ("0.5.18",)
    traits: ClassVar = _0_5_18


class Sglang0519(SpecV2Only):
    """0.5.19: LoRA and mixed chunks with speculation, trtllm_mha on SM90 and SM120."""

    releases: ClassVar = ("0.5.19",)
    traits: ClassVar = NEWEST_HERE
