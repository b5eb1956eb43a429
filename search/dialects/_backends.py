"""Attention backends and page size: what the server chooses where nothing is said, and what it forces."""

from __future__ import annotations

from typing import Final

from search.deployment import Deployment
from search.dialects._forced import default_backend, forced_page, own_page
from search.dialects._setting import Arguments, Backends, hybrid_radix, text
from search.dialects._targets import (
    DEEPSEEK_V4,
    DETERMINISTIC_DEEPSEEK,
    DSA_ARCHITECTURES,
    MHA_ARCHITECTURES,
    MLA_ARCHITECTURES,
    QWEN_HYBRIDS,
    SINK_ARCHITECTURES,
    TRTLLM_MLA_ARCHITECTURES,
)
from search.dialects._traits import Traits

DFLASH_DRAFT_BACKENDS: Final = ("flashinfer", "fa3", "fa4", "triton", "ascend")
"""Backends DFLASH leaves to its draft (0.5.15.post1 `srt/arg_groups/speculative_hook.py:262`)."""


def resolve_backends(
    deployment: Deployment, args: Arguments, traits: Traits, *, speculates: bool, topk: int | None, page: int | None
) -> Backends:
    """Backends under the flags, defaults filled in.

    Args:
        deployment: Target and GPU.
        args: Flags, the config's own `attention-backend` among them.
        traits: Of the release.
        speculates: Whether drafts are proposed.
        topk: As the command line gives it: None where it is not sent, as for NGRAM and DFLASH.
        page: As asked; None where nothing asks.
    """
    prefill, decode = text(args, "prefill-attention-backend"), text(args, "decode-attention-backend")
    attention = text(args, "attention-backend")
    architecture, major = deployment.architecture, deployment.hardware.sm // 10
    if attention is None and prefill is None and decode is None:
        attention = _own_backend(architecture, major)
    deterministic = "enable-deterministic-inference" in args
    if deterministic and traits.deterministic_first and attention is None and architecture:
        attention = _deterministic_backend(architecture, major)
    if prefill is not None and prefill == decode:
        attention = prefill
    if attention is None:
        attention = _default_backend(
            architecture,
            major,
            traits,
            deployment.algorithm,
            speculates=speculates,
            topk=topk,
            page=page,
            named=prefill is not None or decode is not None,
        )
        unbuffered = not speculates and architecture in QWEN_HYBRIDS and hybrid_radix(architecture, args, traits)
        if attention == "trtllm_mha" and unbuffered:
            attention = "triton"
        if attention is not None and "+" in attention:  # one backend for prefill, another for decode
            attention, _, own = attention.partition("+")
            decode = decode or own
        if attention is not None and attention.endswith("*"):  # named for both
            attention = prefill = decode = attention.removesuffix("*")
    if architecture == DEEPSEEK_V4 and "dsv4" in traits.attention_backends:
        attention = "dsv4"  # whatever is asked (0.5.12 `srt/arg_groups/deepseek_v4_hook.py:15`)
    if attention == "tokenspeed_mla" and traits.tokenspeed_is_cutedsl:
        attention = "cutedsl_mla"
    if "cutedsl_mla" in (attention, decode) and prefill is None and "cutedsl_mla" in traits.attention_backends:
        prefill = "trtllm_mla"
    if attention == "fa3" and text(args, "kv-cache-dtype") == "fp8_e5m2":
        attention = "triton"
    return Backends(attention, prefill, decode)


def _own_backend(architecture: str, major: int) -> str | None:
    """What the release chooses for this very target, before any default."""
    if architecture in TRTLLM_MLA_ARCHITECTURES and major == 10:
        return "trtllm_mla"
    if architecture in SINK_ARCHITECTURES:
        return {10: "trtllm_mha", 9: "fa3"}.get(major, "triton")
    return None


def _deterministic_backend(architecture: str, major: int) -> str:
    if major in (10, 12):
        return "triton" if architecture in DETERMINISTIC_DEEPSEEK else "flashinfer"
    return "fa3"


def _default_backend(
    architecture: str,
    major: int,
    traits: Traits,
    algorithm: str,
    *,
    speculates: bool,
    topk: int | None,
    page: int | None,
    named: bool,
) -> str | None:
    """The release's default (0.5.9 `srt/server_args.py:1799`); None for a target no table holds.

    A target's own choice stands only where nothing is `named` for prefill or decode.
    """
    forced = traits.forced_chain_is_topk_1 and algorithm == "DFLASH"
    sent = 1 if forced and topk is None else topk
    recorded = default_backend(architecture, major, traits.release, speculates=speculates, topk=sent, page=page)
    if architecture in MLA_ARCHITECTURES or (named and architecture in DSA_ARCHITECTURES):
        if recorded is not None and not named:
            return recorded
        return {9: "fa3", 10: "flashinfer"}.get(major, "triton")
    if architecture in SINK_ARCHITECTURES:
        return None
    if architecture not in MHA_ARCHITECTURES:
        return recorded
    chain = topk is None or (topk == 1 and page in (None, 1))
    if major == 9 and chain:
        return "fa3"
    if major == 10 and chain and (not speculates or topk is not None or forced):
        return "trtllm_mha"
    return "flashinfer"


def resolve_page_size(
    deployment: Deployment, backends: Backends, traits: Traits, *, asked: int | None, draft: str | None, tree: bool
) -> int:
    """Page size after the backends had their say (0.5.9 `srt/server_args.py:1853-1923`, 0.5.11 `:2576-2672`).

    Args:
        deployment: Target and GPU.
        backends: Resolved.
        traits: Of the release.
        asked: By flag or knob; None where nothing asks.
        draft: Backend named for the draft, if any.
        tree: Whether topk is above 1 on the command line.
    """
    target = (deployment.architecture, deployment.hardware.sm // 10, traits.release)
    page = forced_page(*target) or asked or own_page(*target, backends.attention) or 1
    decodes = (backends.attention, backends.decode)
    if "flashmla" in decodes:
        page = 64
    if "cutlass_mla" in decodes and "cutlass_mla" in traits.attention_backends:
        page = 128
    if any(name in decodes for name in ("trtllm_mla", "tokenspeed_mla")) and page not in (32, 64):
        page = 64
    if backends.any_is("cutedsl_mla") and page not in (32, 64):
        page = 64
    trtllm_mha = backends.any_is("trtllm_mha") or (traits.trtllm_mha_as_draft_pages and draft == "trtllm_mha")
    if trtllm_mha and page not in traits.trtllm_mha_pages:
        page = 64
    if backends.any_is("hpc_ops") and "hpc_ops" in traits.attention_backends:
        page = 64
    if _fa4_forces_page(deployment, backends, traits, tree=tree):
        page = 128
    return page


def _fa4_forces_page(deployment: Deployment, backends: Backends, traits: Traits, *, tree: bool) -> bool:
    if deployment.architecture in MLA_ARCHITECTURES:
        return False
    sm100 = deployment.hardware.sm // 10 == 10
    match traits.fa4_page:
        case "prefill":
            return backends.prefill == "fa4"
        case "prefill-sm100":
            return backends.prefill == "fa4" and sm100
        case "chain-sm100":
            return backends.any_is("fa4") and sm100 and not tree


def resolve_draft_backends(
    backends: Backends, traits: Traits, *, algorithm: str, asked: str | None, major: int
) -> tuple[str | None, str | None]:
    """What the draft's prefill and decode run on: the named backend, or the target's.

    Args:
        backends: Of the target.
        traits: Of the release.
        algorithm: That drafts.
        asked: The draft's own backend; None where it is not named.
        major: Compute capability's first number.
    """
    if algorithm == "DFLASH" and traits.dflash_rewrites_draft_backend:
        given = asked or backends.pair[0]
        # trtllm_mha needs a draft of sliding or causal layers only, which its config.json alone shows.
        if given is None or given in DFLASH_DRAFT_BACKENDS:
            return given, given
        sm100 = traits.dflash_falls_back_to_fa4 and given == "trtllm_mha" and major == 10
        return ("fa4", "fa4") if sm100 else ("flashinfer", "flashinfer")
    return (asked, asked) if asked else backends.pair
