"""Rules of what a release can load, and of what a checkpoint brings with it.

They look at facts that were read from the checkpoints; where none were, they say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from search.dialects._classes import is_registered, loads, own_draft_class, releases_with
from search.dialects._forced import refusals
from search.dialects._rule import Draft
from search.dialects._setting import Setting, number
from search.dialects._traits import Traits

MULTI_LAYER: Final = frozenset({"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "Step3p5ForCausalLM"})
"""Targets whose EAGLE loads one MTP layer for each step (0.5.9 `srt/server_args.py:1405` and `:1426`)."""
MLA_BACKENDS: Final = ("trtllm_mla", "flashmla", "cutlass_mla", "tokenspeed_mla", "cutedsl_mla")
"""Backends that only models with MLA attention can use (0.5.9 `srt/layers/attention/attention_registry.py:51`)."""


def _target_class(s: Setting) -> bool:
    name = s.deployment.architecture
    return is_registered(name) and not loads(name, s.traits.release)


def _draft_class(s: Setting) -> bool:
    name = _draft_name(s)
    drafts = s.speculates and s.algorithm != "NGRAM"
    return drafts and is_registered(name) and not loads(name, s.traits.release)


def _unknown_draft(s: Setting) -> bool:
    name = _draft_name(s)
    trained = s.speculates and s.algorithm in ("EAGLE", "EAGLE3", "DFLASH")
    return trained and bool(name) and not is_registered(name)


def _too_deep(s: Setting) -> bool:
    facts, steps = s.deployment.target_facts, s.config.num_steps
    known = _layered(s) and facts is not None and facts.mtp_layers and steps is not None
    return bool(known and steps > facts.mtp_layers)  # type: ignore[operator,union-attr]


def _layered(s: Setting) -> bool:
    """Whether the multi-layer worker drafts: it takes chains alone (0.5.16 `multi_layer_eagle_worker_v2.py:125`)."""
    many = s.deployment.architecture in MULTI_LAYER or "enable-multi-layer-eagle" in s.args
    return s.speculates and s.algorithm == "EAGLE" and not s.deployment.draft and many


def _mla_draft(s: Setting) -> bool:
    facts = s.deployment.draft_facts
    if not s.drafts_like_eagle or facts is None or facts.mla or not facts.architecture:
        return False
    return any(backend in MLA_BACKENDS for backend in s.resolved.draft_backends or ())


def without_own_layers(s: Setting) -> bool:
    """Whether EAGLE has neither a draft nor layers of the target's own to draft with."""
    if not s.speculates or s.algorithm != "EAGLE" or s.deployment.draft:
        return False
    facts, name = s.deployment.target_facts, s.deployment.architecture
    if facts is not None and facts.mtp_layers == 0:
        return True
    return loads(name, s.traits.release) and not own_draft_class(name, s.traits.release)


def _draft_name(s: Setting) -> str:
    return s.deployment.draft_facts.architecture if s.deployment.draft_facts else ""


def _where(name: str) -> str:
    return f"{name} is in {releases_with(name)}."


def _layers(s: Setting) -> str:
    facts = s.deployment.target_facts
    return f"It has {facts.mtp_layers if facts else 0}, and num_steps is {s.config.num_steps}."


def _refused_backend(s: Setting) -> str:
    refused = refusals("refuses-backend", s.deployment.architecture, s.major, s.traits.release)
    return next((refused[name] for name in s.resolved.backends.pair if name is not None and name in refused), "")


def _refused_algorithm(s: Setting) -> str:
    refused = refusals("refuses-algorithm", s.deployment.architecture, s.major, s.traits.release)
    return refused.get(s.algorithm, "") if s.speculates else ""


def _shards(s: Setting) -> int:
    """Shards of attention: the tensor-parallel size without what data and context parallelism take of it."""
    data = max(number(s.args, "dp-size", 1), number(s.args, "attn-dp-size", 1)) if s.dp_attention else 1
    return s.deployment.tp // max(data * number(s.args, "attention-context-parallel-size", 1), 1)


def _sharded_otherwise(s: Setting) -> bool:
    facts, shards = s.deployment.target_facts, _shards(s)
    if facts is None or not facts.fused_shards or shards < 1:
        return False
    return bool(facts.fused_shards % shards) if s.traits.fused_shards_divide else facts.fused_shards != shards


def rules(traits: Traits) -> Iterator[Draft]:
    """Classes, then what they need."""
    yield Draft(
        "target-class",
        f"SGLang {traits.release} has no class for the target's architecture.",
        _target_class,
        "a release that has the class",
        source_of="model-class",
        detail=lambda s: _where(s.deployment.architecture),
    )
    yield Draft(
        "draft-class",
        f"SGLang {traits.release} has no class for the draft's architecture.",
        _draft_class,
        "a release that has the class",
        source_of="model-class",
        detail=lambda s: _where(_draft_name(s)),
    )
    yield Draft(
        "draft-class-unknown",
        "No SGLang release from 0.5.9 to 0.5.23 has a class for the draft's architecture.",
        _unknown_draft,
        "a patch that adds the class",
        source_of="model-class",
        detail=lambda s: f"It is {_draft_name(s)}.",
    )
    yield Draft(
        "mtp-depth",
        "The target's EAGLE loads one of its own MTP layers for each step, and the checkpoint has fewer than num_steps.",
        _too_deep,
        of_the_tree=True,
        source_of="model-class",
        detail=_layers,
    )
    if traits.tree_on_v2:  # older ones run v2 on these targets, which refuses trees anyway
        yield Draft(
            "mtp-chain",
            "The target's EAGLE loads one of its own MTP layers for each step: speculative_num_draft_tokens must be equal "
            "to speculative_num_steps + 1, so that it drafts chains alone.",
            lambda s: s.is_tree and _layered(s),
            source_of="model-class",
        )
    yield Draft(
        "mla-backend-draft",
        "The backend can only be used with MLA models, and the draft has ordinary attention. (Raised when the draft "
        "worker is built, after the weights are loaded; `speculative-draft-attention-backend` names another for the draft.)",
        _mla_draft,
        "another `draft_attention_backend`",
        source_of="mla-backend",
    )
    yield Draft(
        "fused-projections",
        "The target's fused qkv_proj weights are interleaved for one number of attention shards"
        + (", which must divide by theirs." if traits.fused_shards_divide else ", which theirs must be."),
        _sharded_otherwise,
        "another `tp`, or dp attention",
        detail=lambda s: (
            f"It is {s.deployment.target_facts.fused_shards if s.deployment.target_facts else 0}, not {_shards(s)}."
        ),
    )
    yield Draft(
        "architecture-backend",
        "The release refuses this attention backend on the target's architecture.",
        lambda s: bool(_refused_backend(s)),
        source_of="model-class",
        detail=lambda s: f"It says: {_refused_backend(s)}",
    )
    yield Draft(
        "architecture-algorithm",
        "The release refuses this algorithm on the target's architecture.",
        lambda s: bool(_refused_algorithm(s)),
        source_of="model-class",
        detail=lambda s: f"It says: {_refused_algorithm(s)}",
    )
