"""What SGLang's argument rules know of target models, by the architecture their `config.json` names.

Read from the wheels of 0.5.9 to 0.5.23. An architecture that no table here holds is not guessed at:
what only the server knows stays open.
"""

from __future__ import annotations

from typing import Final

from search.dialects._classes import HOOKED, has_hook

DEEPSEEK_V4: Final = "DeepseekV4ForCausalLM"
KIMI_K25: Final = "KimiK25ForConditionalGeneration"

TRTLLM_MLA_ARCHITECTURES: Final = frozenset(
    {
        "DeepseekV3ForCausalLM",
        KIMI_K25,
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Targets that get trtllm_mla on SM100 (0.5.9 `srt/server_args.py:1197` and `:1283`, 0.5.11 `:1673` and `:1774`)."""

MLA_ARCHITECTURES: Final = TRTLLM_MLA_ARCHITECTURES | {"DeepseekV2ForCausalLM", "LongcatFlashForCausalLM"}
"""Targets with MLA attention and no backend of their own (0.5.9 and 0.5.11 `srt/configs/model_config.py:418`)."""

MHA_ARCHITECTURES: Final = frozenset(
    {
        "Glm4MoeForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
    }
)
"""Targets with ordinary attention for which no release has a backend of its own."""

SINK_ARCHITECTURES: Final = frozenset({"GptOssForCausalLM"})
"""Attention sinks: trtllm_mha on SM100, fa3 on SM90, triton elsewhere (0.5.9 `srt/server_args.py:1333`)."""

DSA_ARCHITECTURES: Final = frozenset({"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"})
"""Latent attention with an indexer; dsa is their backend only where none is named, for prefill or decode either."""

QWEN_HYBRIDS: Final = frozenset(
    {
        "InternS2PreviewForConditionalGeneration",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
"""Hybrid targets that keep page size 1, and so triton on SM100, with an unbuffered radix cache and without speculation
(0.5.16 `srt/arg_groups/overrides.py:937`)."""

UNBUFFERED_ARCHITECTURES: Final = frozenset({"Lfm2ForCausalLM"})
"""Hybrid targets without a second buffer in any release: a radix cache stops the overlap from 0.5.14 too."""

HYBRID_ARCHITECTURES: Final = frozenset(
    {
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "Lfm2ForCausalLM",
        "NemotronHForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
"""Targets with a recurrent part, whose radix cache stands in the way of speculation, or of the overlap without it,
until 0.5.13."""

DETERMINISTIC_DEEPSEEK: Final = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Targets that deterministic inference takes for DeepSeek (0.5.9 `srt/server_args.py:2730`)."""

BUILT_IN_MTP: Final = frozenset(
    {
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
        "BailingMoeV2_5ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV4ForCausalLM",
        "Glm4MoeForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "GlmMoeDsaForCausalLM",
        "HYV3ForCausalLM",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
    }
)
"""Targets that draft with their own layers when no draft is named (0.5.11 `srt/server_args.py:3496`)."""

WITHOUT_MTP: Final = (MHA_ARCHITECTURES - BUILT_IN_MTP) | {KIMI_K25}
"""Targets that have no layers of their own to draft with: EAGLE needs a draft there."""


def takes(algorithm: str, architecture: str, release: str) -> bool:
    """Whether the release's model class has what `algorithm` needs; true for an unknown (empty) architecture."""
    if not architecture:
        return True
    return algorithm not in HOOKED or has_hook(algorithm, architecture, release)
