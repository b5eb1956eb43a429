"""Rules shared by the releases that still have the v1 worker, each with the test that finds it broken.

A text is the server's own where the server raises. Sources are given per release, because
line numbers move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from search.config import SpecVersion
from search.dialects._setting import MLA_ARCHITECTURES, Setting, argument, number
from search.dialects.base import Rule

FUSION_MAJORS = (9, 10)
"""Compute capabilities whose all-reduce fusion path is ever taken (0.5.9 `srt/layers/communicator.py:91`)."""

TREE_PAGING_BACKENDS = ("flashinfer", "fa3")


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the test that says whether a setting breaks it."""

    rule: Rule
    broken: Callable[[Setting], bool]


def _wasted_depth(setting: Setting) -> bool:
    config = setting.config
    if not setting.is_tree:
        return False
    assert config.num_draft_tokens and config.num_steps
    return config.num_draft_tokens < config.num_steps + 1


def _paged_tree(setting: Setting) -> bool:
    backend = setting.backends.attention
    # An unknown backend is the server's to judge: it may well be flashinfer.
    return setting.is_tree and setting.page_size > 1 and backend is not None and backend not in TREE_PAGING_BACKENDS


def _fa3_off_its_gpus(setting: Setting) -> bool:
    if not setting.backends.any_is("fa3"):
        return False
    ampere = setting.major == 8 and setting.deployment.architecture not in MLA_ARCHITECTURES
    return not ampere and setting.major != 9


def _lora(setting: Setting) -> bool:
    names = ("enable-lora", "lora-paths")
    return setting.speculates and any(argument(setting.deployment, name) is not None for name in names)


def _pipeline(setting: Setting) -> bool:
    names = ("pp-size", "pipeline-parallel-size")
    return setting.speculates and max(number(setting.deployment, name, 1) for name in names) > 1


def _unpaged_chunk(setting: Setting) -> bool:
    chunk = number(setting.deployment, "chunked-prefill-size", 0)
    return chunk > 0 and chunk % setting.page_size != 0


_SHARED: tuple[tuple[str, str, str, Callable[[Setting], bool]], ...] = (
    (
        "wasted-depth",
        "With topk > 1 and num_draft_tokens < num_steps + 1 the best num_draft_tokens - 1 nodes never reach the last "
        "steps: fewer steps draft the same tree.",
        "",
        _wasted_depth,
    ),
    (
        "tree-paging",
        "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged attention "
        "backends. This combination is only supported for the 'flashinfer' backend. (fa3 is accepted too.)",
        "",
        lambda s: _paged_tree(s) and s.backends.attention != "triton",
    ),
    (
        "tree-paging-triton",
        "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged attention "
        "backends. This combination is only supported for the 'flashinfer' backend. (fa3 is accepted too.)",
        "SGLang 0.5.13, which allows paged trees on triton",
        lambda s: _paged_tree(s) and s.backends.attention == "triton",
    ),
    (
        "trtllm-mha-topk1",
        "trtllm_mha backend only supports topk = 1 for speculative decoding.",
        "",
        lambda s: s.is_tree and s.backends.any_is("trtllm_mha"),
    ),
    (
        "trtllm-mla-gpu",
        "TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a different backend.",
        "a Blackwell GPU",
        lambda s: "trtllm_mla" in (s.backends.attention, s.backends.decode) and s.major not in (10, 11, 12),
    ),
    (
        "fa3-gpu",
        "FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`. "
        "(Checked only after the weights are loaded; models with MLA attention need SM90.)",
        "a GPU of SM90",
        _fa3_off_its_gpus,
    ),
    (
        "flex-attention-speculation",
        "Speculative decoding is currently not supported with Flex Attention backend",
        "",
        lambda s: s.speculates and s.backends.attention == "flex_attention",
    ),
    (
        "standalone-dp-attention",
        "Currently standalone speculative decoding does not support dp attention.",
        "",
        lambda s: s.speculates and s.dp_attention and s.deployment.algorithm == "STANDALONE",
    ),
    (
        "lora-speculation",
        "Currently LoRA is only compatible with NGRAM speculative decoding.",
        "SGLang 0.5.20",
        _lora,
    ),
    (
        "pipeline-speculation",
        "Pipeline parallelism is not compatible with overlap schedule, speculative decoding",
        "SGLang 0.5.23 with SGLANG_ENABLE_PP_SPEC=1, for EAGLE",
        _pipeline,
    ),
    ("page-chunk", "chunked_prefill_size must be divisible by page_size", "", _unpaged_chunk),
    (
        "arf-sm120",
        "FlashInfer all-reduce fusion is accepted on this GPU but its path is never taken: it needs SM90 or SM100.",
        "a patch that enables it on this GPU, or a GPU of SM90 or SM100",
        lambda s: s.config.allreduce_fusion != "off" and s.major not in FUSION_MAJORS,
    ),
    (
        "arf-named-backend",
        "This release has no flag that names the backend of all-reduce fusion: `allreduce_fusion` is `off` or `auto`.",
        "SGLang 0.5.14 (--flashinfer-allreduce-fusion-backend)",
        lambda s: s.config.allreduce_fusion not in ("off", "auto"),
    ),
    (
        "torch-symm-mem-sm120",
        "Torch symmetric memory has no table for this GPU's compute capability: the server dies at start with a "
        "`KeyError` of its major number.",
        "a patch that adds this GPU to TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES, or a GPU of SM90 or SM100",
        lambda s: s.transport == "torch-symm-mem" and s.deployment.tp > 1 and s.major > 10,
    ),
)


def shared_checks(sources: Mapping[str, str]) -> tuple[Check, ...]:
    """The shared rules with one release's sources; every rule must have one."""
    return tuple(
        Check(Rule(rule_id, text, sources[rule_id], unlock), broken) for rule_id, text, unlock, broken in _SHARED
    )


def v2_topk1_check(*, text: str, source: str) -> Check:
    """Trees on the v2 worker, which 0.5.13 was the first to draft."""
    return Check(
        Rule(
            "v2-topk1-only",
            text,
            source,
            "SGLang 0.5.13 (sglang#26997, sglang#26972), or a patch that backports trees to the v2 worker",
        ),
        lambda s: s.is_tree and s.config.spec_version is SpecVersion.V2,
    )


def draft_backend_check(supported: tuple[str, ...], *, source: str) -> Check:
    """Draft workers exist for some attention backends only; checked when the worker is built."""

    def broken(setting: Setting) -> bool:
        if not setting.speculates:
            return False
        given = dict(setting.config.extra).get("draft_attention_backend") or argument(
            setting.deployment, "speculative-draft-attention-backend"
        )
        backends = setting.backends
        used = {str(given)} if given else {b or backends.attention for b in (backends.prefill, backends.decode)}
        return any(backend is not None and backend not in supported for backend in used)

    return Check(
        Rule(
            "draft-attention-backend",
            f"EAGLE is not supported in attention backend {{backend_type}}. Draft workers know {', '.join(supported)}.",
            source,
        ),
        broken,
    )


def trtllm_mha_gpu_check(
    *, text: str, source: str, unlock: str, majors: tuple[int, ...], decode_only_majors: tuple[int, ...] = ()
) -> Check:
    """trtllm_mha by compute capability.

    Args:
        majors: Where it may be used at all.
        decode_only_majors: Where it may be used beside another backend for prefill.
    """

    def broken(setting: Setting) -> bool:
        backends = setting.backends
        if not backends.any_is("trtllm_mha") or setting.major in majors:
            return False
        prefill = backends.prefill or backends.attention
        return prefill == "trtllm_mha" or setting.major not in decode_only_majors

    return Check(Rule("trtllm-mha-gpu", text, source, unlock), broken)
