"""SGLang 0.5.9: the v1 worker unless SGLANG_ENABLE_SPEC_V2 asks for v2; v2 refuses trees.

Lines are of the wheel of 0.5.9, relative to its `sglang/` folder.
"""

from __future__ import annotations

from typing import ClassVar

from search.config import SpecVersion
from search.deployment import Deployment
from search.dialects._checks import (
    Check,
    draft_backend_check,
    shared_checks,
    trtllm_mha_gpu_check,
    v2_topk1_check,
)
from search.dialects._eagle import EagleDialect
from search.dialects._phrases import COMMON
from search.dialects.base import LaunchArgs, MetaFields, Phrase, Rule

_ARGS = "sglang 0.5.9 srt/server_args.py"

_SOURCES = {
    "wasted-depth": "sglang 0.5.9 srt/speculative/eagle_utils.py:27",
    "tree-paging": f"{_ARGS}:2452",
    "tree-paging-triton": f"{_ARGS}:2452",
    "trtllm-mha-topk1": f"{_ARGS}:2438",
    "trtllm-mla-gpu": f"{_ARGS}:1876",
    "fa3-gpu": "sglang 0.5.9 srt/layers/attention/attention_registry.py:133",
    "flex-attention-speculation": f"{_ARGS}:1853",
    "standalone-dp-attention": f"{_ARGS}:2359",
    "lora-speculation": f"{_ARGS}:5337",
    "pipeline-speculation": f"{_ARGS}:5136",
    "page-chunk": f"{_ARGS}:5180",
    "arf-sm120": "sglang 0.5.9 srt/layers/communicator.py:91",
    "arf-named-backend": f"{_ARGS}:4107",
    "torch-symm-mem-sm120": "sglang 0.5.9 srt/distributed/device_communicators/torch_symm_mem.py:83",
}

_EAGLE3_KIMI_K25 = Check(
    Rule(
        "eagle3-kimi-k25",
        "KimiK25ForConditionalGeneration has no set_eagle3_layers_to_capture in this release, so EAGLE3 cannot run on it.",
        "sglang 0.5.9 srt/models/kimi_k25.py, called from srt/model_executor/model_runner.py:622",
        "SGLang 0.5.10.post1, or a patch with sglang#19689",
    ),
    lambda s: (
        s.speculates
        and s.deployment.algorithm == "EAGLE3"
        and s.deployment.architecture == "KimiK25ForConditionalGeneration"
    ),
)


class SpecV1Default(EagleDialect):
    """v1 unless asked otherwise."""

    releases: ClassVar = ("0.5.9",)
    fusion_architectures: ClassVar = frozenset(  # srt/server_args.py:1683
        {
            "DeepseekV3ForCausalLM",
            "GptOssForCausalLM",
            "Glm4MoeForCausalLM",
            "Glm4MoeLiteForCausalLM",
            "Qwen3MoeForCausalLM",
            "KimiK25ForConditionalGeneration",
        }
    )
    v2_only_eagle_architectures: ClassVar = frozenset(  # srt/server_args.py:1411 and :1432
        {"MiMoV2FlashForCausalLM", "Step3p5ForCausalLM"}
    )
    attention_backends: ClassVar = (  # srt/server_args.py:122
        "triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla",
        "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx", "ascend", "intel_xpu",
    )  # fmt: skip
    meta_fields: ClassVar = MetaFields(
        accept_histogram="spec_accept_histogram"
    )  # srt/managers/tokenizer_manager.py:1865
    phrases: ClassVar[tuple[Phrase, ...]] = COMMON
    checks: ClassVar = (
        v2_topk1_check(
            text="Spec v2 currently only supports topk = 1 for speculative decoding.", source=f"{_ARGS}:2381"
        ),
        _EAGLE3_KIMI_K25,
        *shared_checks(_SOURCES),
        trtllm_mha_gpu_check(
            text="TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.",
            source=f"{_ARGS}:1899",
            unlock="a GPU of SM100, or SGLang 0.5.20 on SM90 and SM120",
            majors=(10,),
        ),
        draft_backend_check(
            (
                "flashinfer", "triton", "aiter", "fa3", "hybrid_linear_attn", "flashmla", "trtllm_mha", "trtllm_mla",
                "nsa", "ascend",
            ),
            source="sglang 0.5.9 srt/speculative/draft_utils.py:43",
        ),
    )  # fmt: skip

    def fa4_forces_page(self, deployment: Deployment) -> bool:  # noqa: ARG002 - on any GPU
        """See `EagleDialect` (srt/server_args.py:1917)."""
        return True

    def worker_args(self, version: SpecVersion) -> LaunchArgs:
        """See `EagleDialect`. --disable-overlap-schedule is overwritten both ways (srt/server_args.py:2368)."""
        value = {SpecVersion.OFF: None, SpecVersion.V1: "0", SpecVersion.V2: "1"}[version]
        return LaunchArgs(env={"SGLANG_ENABLE_SPEC_V2": value})
