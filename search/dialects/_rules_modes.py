"""Rules of what else runs beside speculation: parallelism, LoRA, sampling, memory pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from search.dialects._rule import Draft, Test
from search.dialects._setting import Setting, hybrid_radix, number, pipelined
from search.dialects._traits import Traits

DRAFT_WINDOWS: Final = ("speculative-draft-window-size", "speculative-dflash-draft-window-size")


def _has_dp(algorithm: str) -> Test:
    return lambda s: s.speculates and s.algorithm == algorithm and s.dp_attention


def _lora(s: Setting) -> bool:
    asked = "enable-lora" in s.args or "lora-paths" in s.args
    return s.speculates and asked and s.algorithm not in s.traits.lora_algorithms


def _pipeline(s: Setting) -> bool:
    if not s.speculates or not pipelined(s.args):
        return False
    allowed = s.algorithm in s.traits.pipeline_algorithms
    asked = s.deployment.env.get("SGLANG_ENABLE_PP_SPEC", "").lower() in ("1", "true", "yes", "on")
    return not (allowed and asked)


def _rejection(s: Setting) -> bool:
    names = ("speculative-use-rejection-sampling", "speculative-use-block-verification")
    return s.drafts_like_eagle and any(name in s.args for name in names)


def _thresholds(s: Setting) -> bool:
    names = ("speculative-accept-threshold-single", "speculative-accept-threshold-acc")
    return any(str(s.args.get(name, "1.0")) not in ("1", "1.0") for name in names)


def _unpaged_chunk(s: Setting) -> bool:
    chunk = number(s.args, "chunked-prefill-size", 0)
    return chunk > 0 and chunk % s.resolved.page_size != 0


def _two_batches(s: Setting) -> bool:
    alone = s.args.get("moe-a2a-backend") in (None, "none")
    return "enable-two-batch-overlap" in s.args and alone and not s.dp_attention


def _odd_ranks(s: Setting) -> bool:
    ranks = max(number(s.args, name, 1) for name in ("dp-size", "data-parallel-size"))
    return s.dp_attention and s.deployment.tp % ranks != 0


def _window(s: Setting) -> int | None:
    return next((number(s.args, name, 0) for name in DRAFT_WINDOWS if name in s.args), None)


def _empty_window(s: Setting) -> bool:
    window = _window(s)
    asked = s.speculates and (s.algorithm == "DFLASH" or s.traits.checks_every_draft_window)
    return asked and window is not None and window <= 0


def _short_window(s: Setting) -> bool:
    window, block = _window(s), s.config.num_draft_tokens
    return s.algorithm == "DFLASH" and window is not None and block is not None and 0 < window < block


def _shapeless_lora(s: Setting) -> bool:
    sized = {"max-lora-rank", "lora-target-modules"} <= s.args.keys()
    return "enable-lora" in s.args and "lora-paths" not in s.args and not sized


def rules(traits: Traits) -> Iterator[Draft]:
    """Parallelism and LoRA, sampling, then the rest."""
    yield from _parallel(traits)
    yield from _sampling()
    yield from _rest()


def _parallel(traits: Traits) -> Iterator[Draft]:
    yield Draft(
        "standalone-dp-attention",
        "Currently standalone speculative decoding does not support dp attention.",
        _has_dp("STANDALONE"),
    )
    yield Draft(
        "ngram-dp-attention",
        "Currently ngram speculative decoding does not support dp attention.",
        _has_dp("NGRAM"),
    )
    if traits.dflash_dp_attention:
        words = "DFLASH with dp attention requires --enable-dp-lm-head."
        yield Draft("dflash-dp-attention", words, lambda s: _has_dp("DFLASH")(s) and "enable-dp-lm-head" not in s.args)
    else:
        words = "Currently DFLASH speculative decoding does not support dp attention."
        yield Draft("dflash-dp-attention", words, _has_dp("DFLASH"), "SGLang 0.5.23 with --enable-dp-lm-head")
    newer = len(traits.lora_algorithms) > 1
    yield Draft(
        "lora-speculation",
        "LoRA is only compatible with NGRAM, EAGLE, NEXTN, EAGLE3, DFLASH, or DSPARK speculative decoding."
        if newer
        else "Currently LoRA is only compatible with NGRAM speculative decoding.",
        _lora,
        "" if newer else "SGLang 0.5.19 (all but STANDALONE)",
    )
    yield Draft(
        "pipeline-speculation",
        "Pipeline parallelism currently only supports EAGLE (non-multi-layer) speculative decoding, with "
        "SGLANG_ENABLE_PP_SPEC=1."
        if traits.pipeline_algorithms
        else "Pipeline parallelism is not compatible with overlap schedule, speculative decoding",
        _pipeline,
        "" if traits.pipeline_algorithms else "SGLang 0.5.21 with SGLANG_ENABLE_PP_SPEC=1, for EAGLE",
    )


def _sampling() -> Iterator[Draft]:
    yield Draft(
        "rejection-algorithm",
        "--speculative-use-rejection-sampling is only supported for EAGLE / EAGLE3 / NEXTN.",
        lambda s: _rejection(s) and s.algorithm == "STANDALONE",
    )
    yield Draft(
        "rejection-topk1",
        "--speculative-use-rejection-sampling requires --speculative-eagle-topk=1.",
        lambda s: _rejection(s) and s.is_tree,
    )
    yield Draft(
        "rejection-thresholds",
        "--speculative-use-rejection-sampling is incompatible with --speculative-accept-threshold-single / "
        "--speculative-accept-threshold-acc; rejection sampling ignores the accept thresholds.",
        lambda s: _rejection(s) and _thresholds(s),
    )
    yield Draft(
        "rejection-deterministic",
        "--speculative-use-rejection-sampling is incompatible with --enable-deterministic-inference; the sampling "
        "kernel draws coins from the global RNG and is not batch-invariant.",
        lambda s: _rejection(s) and "enable-deterministic-inference" in s.args,
        "SGLang 0.5.23",
    )
    yield Draft(
        "block-verification-algorithm",
        "--speculative-use-block-verification only supports EAGLE / EAGLE3 / NEXTN / DFLASH / DSPARK.",
        lambda s: (
            s.speculates
            and "speculative-use-block-verification" in s.args
            and s.algorithm not in ("EAGLE", "EAGLE3", "DFLASH")
        ),
    )


def _rest() -> Iterator[Draft]:
    yield Draft(
        "skip-dp-mlp-sync",
        "--speculative-skip-dp-mlp-sync is only supported with speculative_algorithm == EAGLE.",
        lambda s: "speculative-skip-dp-mlp-sync" in s.args and not (s.speculates and s.algorithm == "EAGLE"),
    )
    yield Draft(
        "speculative-moe-trtllm",
        "Currently speculative MoE runner backend cannot be flashinfer_trtllm for risk in some draft models.",
        lambda s: s.args.get("speculative-moe-runner-backend") == "flashinfer_trtllm",
        "SGLang 0.5.12",
    )
    yield Draft(
        "hybrid-radix",
        "Speculative decoding for this hybrid target is not compatible with radix cache when using "
        "--mamba-scheduler-strategy no_buffer.",
        lambda s: s.speculates and hybrid_radix(s.deployment.architecture, s.args, s.traits),
    )
    yield Draft(
        "weight-cache",
        "The weight cache (`weight-cache-mode`) is not supported with speculative decoding.",
        lambda s: s.speculates and s.args.get("weight-cache-mode", "off") != "off",
    )
    yield Draft(
        "hybrid-page",
        "no_buffer only supports page_size=1. (The target keeps a recurrent state, and its radix cache no second buffer.)",
        lambda s: (
            not s.traits.hybrid_pages
            and s.deployment.architecture == "KimiLinearForCausalLM"
            and "disable-radix-cache" not in s.args
            and number(s.args, "page-size", 1) > 1
        ),
    )
    yield Draft("two-batch-overlap", "When enabling two batch overlap, moe_a2a_backend cannot be 'none'.", _two_batches)
    yield Draft("dp-divides-tp", "tp_size must be a multiple of dp_size under dp attention.", _odd_ranks)
    yield Draft(
        "draft-window-positive",
        "--speculative-draft-window-size must be positive.",
        _empty_window,
    )
    yield Draft(
        "draft-window-block",
        "--speculative-draft-window-size must be >= --speculative-num-draft-tokens (block_size).",
        _short_window,
        of_the_tree=True,
    )
    yield Draft(
        "lora-shape",
        "When no initial --lora-paths is provided, you need to specify both --max-lora-rank and --lora-target-modules "
        "for LoRA initialization.",
        _shapeless_lora,
    )
    yield Draft("page-chunk", "chunked_prefill_size must be divisible by page_size", _unpaged_chunk)
