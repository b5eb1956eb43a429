"""SGLang 0.5.11 to 0.5.12.post1: the v2 worker unless overlap is disabled; trees silently run on v1."""

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

_0_5_11 = Traits(
    release="0.5.11",
    algorithms=history.WITH_DFLASH,
    v1_algorithms=history.WITH_DFLASH,
    v2_algorithms=history.EAGLE_FAMILY,
    attention_backends=history.BACKENDS_9,
    draft_backends=history.DRAFTS_10,
    fusion_architectures=history.FUSED_11,
    fa4_page="prefill-sm100",  # srt/server_args.py:2660
    tree_falls_back_to_v1=True,  # srt/server_args.py:3460
    fusion_spares_h20=True,
    hybrid_radix_stops_overlap=True,
    adaptive="flat",
    adaptive_on_v2=False,  # srt/speculative/adaptive_spec_params.py:35
    gone_flags=OLD_GRAPH_FLAGS,
)


class SpecV2Default(SglangDialect):
    """v2 unless asked otherwise."""

    phrases: ClassVar[tuple[Phrase, ...]] = (SCHEDULER_KILLED,)

    def worker_args(self, version: SpecVersion, *, overlap: bool) -> LaunchArgs:  # noqa: ARG002 - v1 has none, v2 always
        """See `SglangDialect` (0.5.11 `srt/server_args.py:3460-3488`).

        v1 by --disable-overlap-schedule, which holds for every topk and is read back. It is never
        sent with `off`, whose own default is overlap. The variable is set for v2 and removed
        otherwise, so that an inherited one changes nothing.
        """
        match version:
            case SpecVersion.V1:
                return LaunchArgs(("--disable-overlap-schedule",), {"SGLANG_ENABLE_SPEC_V2": None})
            case SpecVersion.V2:
                return LaunchArgs(env={"SGLANG_ENABLE_SPEC_V2": "1"})
            case SpecVersion.OFF:
                return LaunchArgs(env={"SGLANG_ENABLE_SPEC_V2": None})


class Sglang0511(SpecV2Default):
    """0.5.11."""

    releases: ClassVar = ("0.5.11",)
    traits: ClassVar = _0_5_11
    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_accept_histogram",  # srt/managers/tokenizer_manager.py:2118
        accepted_drafts="spec_accepted_drafts",
        proposed_drafts="spec_proposed_drafts",
    )


_0_5_12 = replace(
    _0_5_11,
    release="0.5.12",
    attention_backends=history.BACKENDS_12,
    draft_backends=history.DRAFTS_12,
    fusion_architectures=history.FUSED_12,
    adaptive_on_v2=True,
    adaptive_adds_start=True,  # srt/speculative/adaptive_spec_params.py:95
    deterministic_first=True,
    fusion_off_when_deterministic=True,
)


class Sglang0512(SpecV2Default):
    """0.5.12: adaptive steps on v2, tokenspeed_mla, deterministic inference picks its backend first."""

    releases: ClassVar = ("0.5.12",)
    traits: ClassVar = _0_5_12
    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_correct_drafts_histogram",
        accepted_drafts="spec_num_correct_drafts",
        proposed_drafts="spec_num_proposed_drafts",
    )


class Sglang0512Post1(Sglang0512):
    """0.5.12.post1: its arguments are those of 0.5.12, DeepSeek V4 apart."""

    releases: ClassVar = ("0.5.12.post1",)
    traits: ClassVar = replace(_0_5_12, release="0.5.12.post1")
