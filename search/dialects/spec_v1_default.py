"""SGLang 0.5.9 to 0.5.10.post1: the v1 worker unless SGLANG_ENABLE_SPEC_V2 asks for v2; v2 refuses trees."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from search.config import SpecVersion
from search.dialects import _history as history
from search.dialects._base import LaunchArgs, MetaFields
from search.dialects._sglang import SglangDialect
from search.dialects._traits import Traits

OLD_GRAPH_FLAGS: Final = {
    "cuda-graph-max-bs-decode": "`cuda-graph-max-bs`",
    "cuda-graph-bs-decode": "`cuda-graph-bs`",
}
"""Names that begin at 0.5.14, and what they were called before."""

_0_5_9: Final = Traits(
    release="0.5.9",
    algorithms=history.WITH_NGRAM,
    v1_algorithms=history.WITH_NGRAM,
    v2_algorithms=history.EAGLE_FAMILY,
    attention_backends=history.BACKENDS_9,
    draft_backends=history.DRAFTS_9,
    fusion_architectures=history.FUSED_9,
    fa4_page="prefill",  # srt/server_args.py:1917
    always_v2=frozenset({"MiMoV2FlashForCausalLM", "Step3p5ForCausalLM"}),  # srt/server_args.py:1411 and :1432
    trtllm_mha_decode_majors=(10,),  # srt/server_args.py:1901
    fusion_can_be_forced_off=False,
    fusion_needs_tp=False,
    fusion_spares_h20=True,
    hybrid_radix_stops_overlap=True,
    ngram_depth_flag="speculative-ngram-branch-length",
    gone_flags=OLD_GRAPH_FLAGS,
)


class SpecV1Default(SglangDialect):
    """v1 unless asked otherwise."""

    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_accept_histogram",  # 0.5.9 srt/managers/tokenizer_manager.py:1865
        accepted_drafts="spec_accept_token_num",
        proposed_drafts="spec_draft_token_num",
    )

    @property
    def v1_by_default(self) -> bool:
        """See `Dialect` (0.5.9 `srt/environ.py:414`)."""
        return True

    def worker_args(self, version: SpecVersion, *, overlap: bool) -> LaunchArgs:  # noqa: ARG002 - v1 has none, v2 always
        """See `SglangDialect`. --disable-overlap-schedule is overwritten both ways (0.5.9 `srt/server_args.py:2368`)."""
        value = {SpecVersion.OFF: None, SpecVersion.V1: "0", SpecVersion.V2: "1"}[version]
        return LaunchArgs(env={"SGLANG_ENABLE_SPEC_V2": value})


class Sglang0509(SpecV1Default):
    """0.5.9."""

    releases: ClassVar = ("0.5.9",)
    traits: ClassVar = _0_5_9


_0_5_10: Final = replace(
    _0_5_9,
    release="0.5.10",
    draft_backends=history.DRAFTS_10,
    fusion_architectures=history.FUSED_10,
    fa4_page="prefill-sm100",  # srt/server_args.py:2385
    trtllm_mha_decode_majors=(9, 10, 12),  # srt/server_args.py:2385
    fusion_can_be_forced_off=True,
    fusion_needs_tp=True,
    ngram_depth_flag="speculative-ngram-max-trie-depth",
)


class Sglang0510(SpecV1Default):
    """0.5.10: fusion can be turned off, EAGLE-3 on Kimi-K2.5 (sglang#19689), trtllm_mha for decode."""

    releases: ClassVar = ("0.5.10",)
    traits: ClassVar = _0_5_10


class Sglang0510Post1(SpecV1Default):
    """0.5.10.post1: its arguments are those of 0.5.10."""

    releases: ClassVar = ("0.5.10.post1",)
    traits: ClassVar = replace(_0_5_10, release="0.5.10.post1")
