"""What grew from release to release: algorithms, attention backends, targets with fusion unasked."""

from __future__ import annotations

from typing import Final

EAGLE_FAMILY: Final = frozenset({"EAGLE", "EAGLE3", "STANDALONE"})
WITH_NGRAM: Final = EAGLE_FAMILY | {"NGRAM"}
WITH_DFLASH: Final = WITH_NGRAM | {"DFLASH"}

BACKENDS_9: Final = (
    "triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla",
    "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx", "ascend", "intel_xpu",
)  # fmt: skip
"""`ATTENTION_BACKEND_CHOICES` of 0.5.9 to 0.5.11 (0.5.9 `srt/server_args.py:122`)."""

BACKENDS_12: Final = (*BACKENDS_9, "dsv4", "compressed", "tokenspeed_mla")
BACKENDS_13: Final = (*BACKENDS_12, "dsa", "cutedsl_mla")
BACKENDS_17: Final = (*BACKENDS_13, "hpc_ops")
BACKENDS_19: Final = (*BACKENDS_17, "minicpm_flashattn", "minicpm_flashinfer")
BACKENDS_20: Final = (
    *(name for name in BACKENDS_19 if name not in ("cutlass_mla", "dual_chunk_flash_attn")), "qsa",
)  # fmt: skip
BACKENDS_22: Final = (*BACKENDS_20, "llada2_cfg_flashinfer")

DRAFTS_9: Final = (
    "flashinfer", "triton", "aiter", "fa3", "hybrid_linear_attn", "flashmla", "trtllm_mha", "trtllm_mla", "nsa", "ascend",
)  # fmt: skip
"""Backends of `DraftBackendFactory` (0.5.9 `srt/speculative/draft_utils.py:43`)."""

DRAFTS_10: Final = (*DRAFTS_9, "fa4")
DRAFTS_12: Final = (*DRAFTS_10, "tokenspeed_mla", "dsv4")
DRAFTS_13: Final = (*DRAFTS_12, "cutedsl_mla", "dsa")
DRAFTS_16: Final = (*DRAFTS_13, "intel_amx")
DRAFTS_20: Final = (*DRAFTS_16, "intel_xpu")
DRAFTS_23: Final = tuple(name for name in DRAFTS_20 if name != "tokenspeed_mla")

FUSED_9: Final = frozenset(
    {
        "DeepseekV3ForCausalLM",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GptOssForCausalLM",
        "KimiK25ForConditionalGeneration",
        "Qwen3MoeForCausalLM",
    }
)
"""Targets with all-reduce fusion unasked (0.5.9 `srt/server_args.py:1683`)."""

FUSED_10: Final = FUSED_9 | {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
FUSED_11: Final = FUSED_10 | {"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM", "Qwen3NextForCausalLM"}
FUSED_12: Final = FUSED_11 | {"InternS2PreviewForConditionalGeneration"}
FUSED_13: Final = FUSED_12 | {"MistralLarge3ForCausalLM"}
FUSED_14: Final = FUSED_13 | {
    "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
    "Qwen3VLMoeForConditionalGeneration",
}
FUSED_18: Final = FUSED_14 | {"DeepseekV4ForCausalLM"}
FUSED_20: Final = FUSED_18 | {"NemotronH_Omni_Reasoning_V3", "Qwen4ExpForConditionalGeneration"}
