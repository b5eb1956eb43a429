"""SGLang 0.5.11: the v2 worker unless overlap is disabled; trees silently run on v1.

Lines are of the wheel of 0.5.11, relative to its `sglang/` folder.
"""

from __future__ import annotations

from typing import ClassVar

from search.config import SpecVersion
from search.deployment import Deployment
from search.dialects._checks import draft_backend_check, shared_checks, trtllm_mha_gpu_check, v2_topk1_check
from search.dialects._eagle import EagleDialect
from search.dialects._phrases import COMMON
from search.dialects.base import LaunchArgs, MetaFields, Phrase
from search.outcomes import Reason

_ARGS = "sglang 0.5.11 srt/server_args.py"

_SOURCES = {
    "wasted-depth": "sglang 0.5.11 srt/speculative/eagle_utils.py:28",
    "tree-paging": f"{_ARGS}:3548",
    "tree-paging-triton": f"{_ARGS}:3548",
    "trtllm-mha-topk1": f"{_ARGS}:3534",
    "trtllm-mla-gpu": f"{_ARGS}:2600",
    "fa3-gpu": "sglang 0.5.11 srt/layers/attention/attention_registry.py:133",
    "flex-attention-speculation": f"{_ARGS}:2566",
    "standalone-dp-attention": f"{_ARGS}:3451",
    "lora-speculation": f"{_ARGS}:7003",
    "pipeline-speculation": f"{_ARGS}:6786",
    "page-chunk": f"{_ARGS}:6824",
    "arf-sm120": "sglang 0.5.11 srt/layers/communicator.py:157",
    "arf-named-backend": f"{_ARGS}:5595",
    "torch-symm-mem-sm120": "sglang 0.5.11 srt/distributed/device_communicators/torch_symm_mem.py:83",
}


class SpecV2Default(EagleDialect):
    """v2 unless asked otherwise."""

    releases: ClassVar = ("0.5.11",)
    can_force_fusion_off: ClassVar = True  # srt/server_args.py:5600
    fusion_architectures: ClassVar = frozenset(  # srt/server_args.py:2333
        {
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "GptOssForCausalLM",
            "GlmMoeDsaForCausalLM",
            "Glm4MoeForCausalLM",
            "Glm4MoeLiteForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen3NextForCausalLM",
            "KimiK25ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
        }
    )
    attention_backends: ClassVar = (  # srt/server_args.py:140
        "triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla",
        "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx", "ascend", "intel_xpu",
    )  # fmt: skip
    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_accept_histogram"
    )  # srt/managers/tokenizer_manager.py:2118
    phrases: ClassVar[tuple[Phrase, ...]] = (
        *COMMON,
        # srt/entrypoints/engine.py:1220. An echo after any other root; on its own, somebody killed the process.
        Phrase(r"scheduler died during initialization \(exit code: -9\)", Reason.HOST_OOM),
    )
    checks: ClassVar = (
        v2_topk1_check(
            text=(
                "Spec v1 is used for eagle/eagle3/standalone speculative decoding because spec v2 currently only "
                "supports topk = 1. (The server does not refuse: it would silently run the v1 config.)"
            ),
            source=f"{_ARGS}:3460",
        ),
        *shared_checks(_SOURCES),
        trtllm_mha_gpu_check(
            text="TRTLLM MHA backend for prefill is only supported on Blackwell GPUs (SM100), for decode on Hopper "
            "(SM90), Blackwell (SM100) and (SM120) GPUs. Please use a different backend.",
            source=f"{_ARGS}:2618",
            unlock="a GPU of SM100, or SGLang 0.5.20 on SM90 and SM120",
            majors=(10,),
            decode_only_majors=(9, 12),
        ),
        draft_backend_check(
            (
                "flashinfer", "triton", "aiter", "fa3", "hybrid_linear_attn", "flashmla", "trtllm_mha", "trtllm_mla",
                "nsa", "ascend", "fa4",
            ),
            source="sglang 0.5.11 srt/speculative/draft_utils.py:43",
        ),
    )  # fmt: skip

    def fa4_forces_page(self, deployment: Deployment) -> bool:
        """See `EagleDialect` (srt/server_args.py:2660)."""
        return deployment.hardware.sm // 10 == 10

    def worker_args(self, version: SpecVersion) -> LaunchArgs:
        """See `EagleDialect` (srt/server_args.py:3460-3488).

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
