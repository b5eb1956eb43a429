"""Small `config.json` folders: the architectures that SGLang's argument rules tell apart.

Sizes are those of a published checkpoint of the architecture as far as a rule reads them (heads, MLA
ranks, context); resolution reads no weights, and there are none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Config = dict[str, Any]

_DENSE: Final[Config] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MLA: Final[Config] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "n_group": 8,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
    "vocab_size": 129280,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_MOE: Final[Config] = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


def _of(base: Config, architecture: str, model_type: str, **more: Any) -> Config:
    return {**base, "architectures": [architecture], "model_type": model_type, **more}


TARGETS: Final[dict[str, Config]] = {
    "llama": _of(_DENSE, "LlamaForCausalLM", "llama"),
    "qwen3": _of(_DENSE, "Qwen3ForCausalLM", "qwen3", num_hidden_layers=36, vocab_size=151936),
    "qwen3_moe": _of(_DENSE, "Qwen3MoeForCausalLM", "qwen3_moe", **_MOE, vocab_size=151936),
    "gpt_oss": _of(
        _DENSE,
        "GptOssForCausalLM",
        "gpt_oss",
        num_attention_heads=64,
        head_dim=64,
        num_local_experts=32,
        num_experts_per_tok=4,
        sliding_window=128,
        num_hidden_layers=24,
        vocab_size=201088,
    ),
    "glm4_moe": _of(
        _DENSE,
        "Glm4MoeForCausalLM",
        "glm4_moe",
        n_routed_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=1408,
        n_group=1,
        topk_group=1,
        num_nextn_predict_layers=1,
        vocab_size=151552,
    ),
    "qwen3_next": _of(
        _DENSE,
        "Qwen3NextForCausalLM",
        "qwen3_next",
        num_attention_heads=16,
        num_key_value_heads=2,
        head_dim=256,
        hidden_size=2048,
        num_hidden_layers=48,
        full_attention_interval=4,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_value_head_dim=128,
        num_experts=512,
        num_experts_per_tok=10,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        vocab_size=151936,
    ),
    "deepseek_v3": _MLA,
    "kimi_k25": {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "torch_dtype": "bfloat16",
        "text_config": {
            **_MLA,
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "n_routed_experts": 384,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 1,
            "max_position_embeddings": 262144,
            "vocab_size": 163840,
        },
        "vision_config": {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27},
        "media_placeholder_token_id": 163605,
    },
}
"""Model name in a case -> its config."""

DRAFTS: Final[dict[str, Config]] = {
    "eagle3_llama": _of(_DENSE, "LlamaForCausalLMEagle3", "llama", num_hidden_layers=1, draft_vocab_size=32000),
    "eagle_llama": _of(_DENSE, "LlamaForCausalLMEagle", "llama", num_hidden_layers=1),
    "eagle3_mla": {
        **_MLA,
        "architectures": ["Eagle3DeepseekV2ForCausalLM"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 32000,
    },
    "small_llama": _of(_DENSE, "LlamaForCausalLM", "llama", hidden_size=2048, num_hidden_layers=16),
    "dflash_qwen3": _of(
        _DENSE,
        "DFlashDraftModel",
        "qwen3",
        num_hidden_layers=5,
        block_size=16,
        dflash_config={"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
        vocab_size=151936,
    ),
    "dflash_small_block": _of(
        _DENSE,
        "DFlashDraftModel",
        "qwen3",
        num_hidden_layers=5,
        block_size=8,
        dflash_config={"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
        vocab_size=151936,
    ),
}
"""Draft name in a case -> its config."""


SHAPES: Final[dict[str, dict[str, Any]]] = {
    entry["name"]: entry
    for entry in map(json.loads, Path(__file__).with_name("architectures.jsonl").read_text("utf-8").splitlines())
}
"""Targets of many architectures: name -> `like` (the checkpoint whose sizes these are), `tp`, `mtp` (layers of its
own) and `config`."""

_CODE: Final = """from transformers import PretrainedConfig


class {name}(PretrainedConfig):
    model_type = "{model_type}"
"""
"""In place of the configuration class in the repository of a target with `auto_map`: it only keeps what it is given."""


def write(folder: Path) -> None:
    """Write every model and draft to `folder/<name>/config.json`, with the code that its `auto_map` names."""
    shapes = {name: shape["config"] for name, shape in SHAPES.items()}
    for name, config in {**TARGETS, **DRAFTS, **shapes}.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1))
        if "auto_map" in config:
            module, _, cls = config["auto_map"]["AutoConfig"].partition(".")
            text = _CODE.format(name=cls, model_type=config["model_type"])
            (folder / name / f"{module}.py").write_text(text)
