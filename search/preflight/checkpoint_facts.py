"""What a checkpoint is, out of its configuration and its weight index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from search.deployment import CheckpointFacts
from search.host.environment import model_folder
from search.preflight.checkpoint import Checkpoint, read_configuration
from search.spec.study import StudySpec

_MTP_KEYS: Final = (
    "num_nextn_predict_layers",  # DeepSeek, GLM, Step, Bailing, ERNIE, EXAONE
    "mtp_num_hidden_layers",  # Qwen3.5
    "num_mtp_modules",  # MiniMax
    "mtp_num_layers",  # LongCat
    "num_mtp_layers",
)
_MTP_WEIGHT: Final = re.compile(r"(?:^|\.)(?:mtp|nextn|mtp_layers|mtp_block)\.(?:layers\.)?(?P<layer>\d+)?")
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(?P<layer>\d+)\.")
_SILENT: Final = {"MiMoV2FlashForCausalLM": 3, "MiMoV2ForCausalLM": 3, "Qwen3NextForCausalLM": 1}
"""Targets whose configuration never speaks of their MTP layers, and how many the class reads (0.5.16
`srt/models/mimo_v2_nextn.py`, `srt/models/qwen3_next_mtp.py`); the weight index, where there is one, decides."""
_SIZES: Final = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size", "num_key_value_heads")
_STATES: Final = (
    *("linear_num_key_heads", "mamba_num_heads", "mamba_n_heads", "mamba_d_ssm", "linear_attn_config"),
    *("conv_L_cache", "layer_group_size", "ssm_state_size"),
)
"""Keys that only a target with recurrent layers has."""


def facts_of(checkpoint: Checkpoint) -> CheckpointFacts:
    """Read the facts; a nested `text_config` or `llm_config` speaks before the outer part."""
    number = checkpoint.number
    architecture = checkpoint.architecture
    return CheckpointFacts(
        architecture=architecture,
        mtp_layers=_mtp_layers(checkpoint, architecture),
        mla=bool(number("kv_lora_rank")),
        sparse=number("index_topk") is not None,
        hybrid=any(checkpoint.text_config.get(name) for name in _STATES),
        hidden=number("hidden_size") or 0,
        heads=number("num_attention_heads") or 0,
        kv_heads=number("num_key_value_heads") or number("num_attention_groups") or 0,
        vocabulary=number("vocab_size") or 0,
        draft_vocabulary=number("draft_vocab_size") or 0,
        experts=_first(checkpoint, "n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"),
        expert_width=_expert_width(checkpoint),
        ffn_width=number("intermediate_size") or 0,
        fp8_block=_fp8_block(checkpoint),
        block_size=_block_size(checkpoint),
        fused_shards=_fused_shards(checkpoint, architecture),
        zeros=tuple(name for name in _SIZES if number(name) == 0),
        tokenizer=checkpoint.tokenizer,
    )


def knowing(spec: StudySpec, inherited: Mapping[str, str]) -> StudySpec:
    """The study with the facts of those of its checkpoints that lie on this disk; its rules then look at them.

    Args:
        spec: The study.
        inherited: The environment, which says where the hub's cache is.
    """
    env = spec.engine.over(inherited)
    return spec.knowing(target=_read(spec.model.target, env), draft=_read(spec.model.draft, env))


def _read(model: str, env: Mapping[str, str]) -> CheckpointFacts | None:
    folder = model_folder(model, env) if model else None
    if folder is None:
        return None
    found = read_configuration(folder)
    return facts_of(found) if found.config else None


def _mtp_layers(checkpoint: Checkpoint, architecture: str) -> int | None:
    stated = next((count for key in _MTP_KEYS if (count := checkpoint.number(key)) is not None), None)
    held = _held_layers(checkpoint)
    # A quantised copy may have dropped the layers that the configuration still counts.
    if held is not None and (stated is None or held == 0):
        return held
    return stated if stated is not None else _SILENT.get(architecture)


def _held_layers(checkpoint: Checkpoint) -> int | None:
    """MTP layers among the weights: under a name of their own, or behind the last ordinary layer.

    None without an index, or with one that names no layers at all.
    """
    named = {match["layer"] or "0" for name in checkpoint.weight_names if (match := _MTP_WEIGHT.search(name))}
    if named:
        return len(named)
    ordinary = checkpoint.number("num_hidden_layers")
    layers = {int(match["layer"]) for name in checkpoint.weight_names if (match := _LAYER.search(name))}
    return sum(layer >= ordinary for layer in layers) if ordinary and layers else None


def _first(checkpoint: Checkpoint, *names: str) -> int:
    return next((count for name in names if (count := checkpoint.number(name))), 0)


def _expert_width(checkpoint: Checkpoint) -> int:
    size = _first(checkpoint, "moe_intermediate_size", "expert_ffn_hidden_size")
    if size or not _first(checkpoint, "num_local_experts"):
        return size
    return checkpoint.number("intermediate_size") or 0  # MiniMax and Mixtral have no dense layers


def _fused_shards(checkpoint: Checkpoint, architecture: str) -> int:
    """One for each key-value head of MiMo V2's fused projections (0.5.16 `srt/configs/model_config.py:52`)."""
    fused = checkpoint.config.get("attention_projection_layout") == "fused_qkv"
    return checkpoint.number("num_key_value_heads") or 0 if fused and architecture == "MiMoV2ForCausalLM" else 0


def _quantisations(checkpoint: Checkpoint) -> Iterator[Mapping[str, Any]]:
    for part in (checkpoint.config, checkpoint.text_config):
        found = part.get("quantization_config")
        if isinstance(found, Mapping):
            yield found


def _fp8_block(checkpoint: Checkpoint) -> tuple[int, int] | None:
    for found in _quantisations(checkpoint):
        block = found.get("weight_block_size")
        if isinstance(block, list) and len(block) == 2 and all(isinstance(size, int) and size > 0 for size in block):
            return block[0], block[1]
    return None


def _block_size(checkpoint: Checkpoint) -> int:
    """Own key, or under `dflash_config` (0.5.16 `srt/speculative/dflash_utils.py`)."""
    inner = checkpoint.config.get("dflash_config")
    size = inner.get("block_size") if isinstance(inner, Mapping) else None
    return checkpoint.number("block_size") or (size if isinstance(size, int) and not isinstance(size, bool) else 0)
