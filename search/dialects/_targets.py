"""What SGLang's argument rules know of target models, by the architecture their `config.json` names.

Read from the wheels of 0.5.9 to 0.5.23. An architecture that no table here holds is not guessed at:
what only the server can tell stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from search.dialects._order import at_least

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

HYBRID_ARCHITECTURES: Final = frozenset({"Qwen3NextForCausalLM"})
"""Targets with a state-space part, whose radix cache stands in the way of speculation until 0.5.13."""

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

_EAGLE3_HOOK_SINCE: Final[Mapping[str, str]] = {
    "0.5.9": (
        "ApertusForCausalLM BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV2ForCausalLM "
        "DeepseekV32ForCausalLM DeepseekV3ForCausalLM ExaoneMoEForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM "
        "GlmMoeDsaForCausalLM GptOssForCausalLM IQuestCoderForCausalLM InternLM3ForCausalLM Llama4ForCausalLM "
        "Llama4ForConditionalGeneration LlamaForCausalLM LongcatFlashForCausalLM MiniMaxM2ForCausalLM "
        "Ministral3ForCausalLM MistralForCausalLM MistralLarge3ForCausalLM Phi3ForCausalLM Qwen2ForCausalLM "
        "Qwen2MoeForCausalLM Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM "
        "Qwen3NextForCausalLM TeleFLMForCausalLM"
    ),
    "0.5.10.post1": "KimiK25ForConditionalGeneration MindSporeForCausalLM SarvamMoEForCausalLM",
    "0.5.11": (
        "InternS1ProForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration "
        "Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration"
    ),
    "0.5.12.post1": (
        "Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration "
        "InternS2PreviewForConditionalGeneration"
    ),
    "0.5.13.post1": "Gemma4UnifiedForConditionalGeneration",
    "0.5.16": "MellumForCausalLM MiniMaxM3SparseForCausalLM",
    "0.5.18": "InternS2MobiusForConditionalGeneration MiniMaxM3SparseForConditionalGeneration",
    "0.5.20": ("Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration Qwen4ExpForConditionalGeneration"),
    "0.5.23": "ExaoneMoeForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM",
}
"""Targets whose class has `set_eagle3_layers_to_capture`, own or inherited, by the first release (`srt/models/`)."""

_DFLASH_HOOK_SINCE: Final[Mapping[str, str]] = {
    "0.5.11": (
        "DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM GlmMoeDsaForCausalLM "
        "GptOssForCausalLM IQuestCoderForCausalLM InternLM3ForCausalLM InternS1ProForConditionalGeneration "
        "KimiK25ForConditionalGeneration Llama4ForCausalLM LlamaForCausalLM Ministral3ForCausalLM MistralForCausalLM "
        "MistralLarge3ForCausalLM Phi3ForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM "
        "Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration Qwen3_5ForConditionalGeneration "
        "Qwen3_5MoeForConditionalGeneration TeleFLMForCausalLM"
    ),
    "0.5.12.post1": "InternS2PreviewForConditionalGeneration",
    "0.5.14": "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration",
    "0.5.15.post1": "LagunaForCausalLM",
    "0.5.16": "MellumForCausalLM",
    "0.5.18": (
        "InklingForConditionalGeneration InternS2MobiusForConditionalGeneration MuseGlimmerForCausalLM "
        "MuseGlimmerForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM"
    ),
    "0.5.20": (
        "Cosmos3ForConditionalGeneration Glm5NextForConditionalGeneration Lfm2ForCausalLM Lfm2MoeForCausalLM "
        "MiMoV2FlashForCausalLM MiMoV2ForCausalLM NanbeigeForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM "
        "NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 "
        "Qwen4ExpForConditionalGeneration"
    ),
    "0.5.23": (
        "BeamForCausalLM KimiK3ForConditionalGeneration KimiK3LinearForCausalLM Lfm2VlForConditionalGeneration "
        "MiniMaxM3SparseForConditionalGeneration MuseSparkForConditionalGeneration"
    ),
}
"""The same for `set_dflash_layers_to_capture`."""


def _by_architecture(since: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for release, names in since.items():
        for name in names.split():
            yield name, release


_HOOK_SINCE: Final[Mapping[str, Mapping[str, str]]] = {
    "EAGLE3": dict(_by_architecture(_EAGLE3_HOOK_SINCE)),
    "DFLASH": dict(_by_architecture(_DFLASH_HOOK_SINCE)),
}


def hook_since(algorithm: str, architecture: str) -> str | None:
    """First release whose model class hands `algorithm` the hidden states its draft reads.

    The empty text for an algorithm that needs no hook, None for a target that never had it.
    """
    table = _HOOK_SINCE.get(algorithm)
    return "" if table is None else table.get(architecture)


def takes(algorithm: str, architecture: str, release: str) -> bool:
    """Whether the release's model class has what `algorithm` needs; true for an unknown (empty) architecture."""
    if not architecture:
        return True
    since = hook_since(algorithm, architecture)
    return since is not None and (since == "" or at_least(release, since))
