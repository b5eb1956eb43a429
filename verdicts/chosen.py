"""Chosen cases, one function per family of rules; each family has cases on both sides of its rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from cases import Case

GPUS: Final = ("sm90", "sm100", "sm120")
CHAIN: Final[dict[str, Any]] = {"num_steps": 3, "topk": 1, "num_draft_tokens": 4}
TREE: Final[dict[str, Any]] = {"num_steps": 3, "topk": 4, "num_draft_tokens": 16}
E3: Final[dict[str, Any]] = {"algorithm": "EAGLE3"}
DRAFTS: Final[dict[str, str | None]] = {
    "EAGLE3": "eagle3_llama",
    "EAGLE": "eagle_llama",
    "STANDALONE": "small_llama",
    "DFLASH": "dflash_qwen3",
    "NGRAM": None,
}
"""Algorithm -> a fitting draft."""


def _trio(steps: int, topk: int, tokens: int) -> dict[str, Any]:
    return {"num_steps": steps, "topk": topk, "num_draft_tokens": tokens}


def _one(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


def _llama(family: str, *, gpu: str = "sm90", tp: int = 1, algorithm: str | None = "EAGLE3", **knobs: Any) -> Case:
    """A case of the dense model with the draft that fits `algorithm`."""
    named = {"algorithm": algorithm} if algorithm else {}
    model = "qwen3" if algorithm == "DFLASH" else "llama"
    return Case(family, gpu, tp, model, DRAFTS[algorithm] if algorithm else None, {**named, **knobs})


def trio_defaults() -> Iterator[Case]:
    """No numbers: 5/4/8 for Llama, 3/1/4 for others and for STANDALONE."""
    for model, tp in (("llama", 1), ("qwen3", 1), ("gpt_oss", 1), ("deepseek_v3", 8), ("kimi_k25", 8)):
        yield Case("trio-defaults", "sm90", tp, model, "eagle3_llama", E3)
        yield Case("trio-defaults", "sm120", tp, model, "eagle3_llama", E3)
    yield _llama("trio-defaults", algorithm="EAGLE")
    yield _llama("trio-defaults", algorithm="STANDALONE")
    yield _llama("trio-defaults", spec_version="v1")
    yield _llama("trio-defaults", spec_version="v2")


def trio_partial() -> Iterator[Case]:
    """A part of the numbers fails, except topk > 1 without tokens."""
    full = _trio(3, 1, 4)
    for missing in ("num_steps", "topk", "num_draft_tokens"):
        yield _llama("trio-partial", **{name: value for name, value in full.items() if name != missing})
    for only in full:
        yield _llama("trio-partial", **{only: full[only]})
    for algorithm in ("EAGLE3", "STANDALONE"):
        yield _llama("trio-partial", algorithm=algorithm, num_steps=3, topk=4)
    yield _llama("trio-partial", num_draft_tokens=8, topk=4)


def trio_numbers() -> Iterator[Case]:
    """Topk 1 rewrites tokens; trees accept any number, past the bound too; zeros pass."""
    for steps, topk, tokens in (
        *((3, 1, 4), (3, 1, 8), (3, 1, 2), (1, 1, 2), (7, 1, 8), (3, 0, 4), (0, 1, 1)),
        *((3, 4, 16), (3, 4, 3), (3, 4, 4), (3, 4, 37), (3, 4, 38), (1, 4, 5), (1, 4, 6), (2, 2, 7), (2, 2, 8)),
        (5, 8, 64),
    ):
        yield _llama("trio-numbers", attention_backend="triton", **_trio(steps, topk, tokens))


def worker_version() -> Iterator[Case]:
    """Which worker runs, and which trees each one takes."""
    for algorithm, version, numbers in product(
        ("EAGLE3", "EAGLE", "STANDALONE"), ("v1", "v2", "v2-sync"), (CHAIN, TREE)
    ):
        yield _llama("worker-version", algorithm=algorithm, spec_version=version, **numbers)
    for env, numbers in product(("True", "False"), ({}, CHAIN, TREE)):
        yield _llama("worker-version", spec_v2_env=env, **numbers)
    overlap_off = _one("disable_overlap_schedule", True)
    for more, numbers in product(({}, overlap_off, overlap_off | {"spec_v2_env": "True"}), ({}, CHAIN, TREE)):
        yield _llama("worker-version", **more, **numbers)
    for algorithm in (None, "NGRAM", "DFLASH"):
        yield _llama("worker-version", algorithm=algorithm)
        yield _llama("worker-version", algorithm=algorithm, disable_overlap_schedule=True)
        yield _llama("worker-version", algorithm=algorithm, spec_v2_env="True")
    for version in ("v1", "v2"):
        yield Case("worker-version", "sm120", 8, "kimi_k25", "eagle3_llama", {**E3, "spec_version": version, **CHAIN})
        yield Case("worker-version", "sm120", 8, "kimi_k25", "eagle3_llama", {**E3, "spec_version": version, **TREE})


def algorithm_names() -> Iterator[Case]:
    """Aliases, spelling, and drafts that are missing or come with the target."""
    for model in ("deepseek_v3", "glm4_moe", "kimi_k25", "qwen3"):
        yield Case("algorithm-names", "sm90", 8, model, None, {"algorithm": "NEXTN"})
        yield Case("algorithm-names", "sm90", 8, model, None, {"algorithm": "EAGLE", **CHAIN})
    for name in ("eagle3", "FOO", "DSPARK", "UNO", "FROZEN_KV_MTP"):
        yield Case("algorithm-names", "sm90", 1, "llama", "eagle3_llama", {"algorithm": name, **CHAIN})
    for name in ("EAGLE3", "STANDALONE", "DFLASH"):
        yield Case("algorithm-names", "sm90", 1, "llama", None, {"algorithm": name, **CHAIN})
    yield Case("algorithm-names", "sm90", 8, "deepseek_v3", "eagle_llama", {"algorithm": "EAGLE", **CHAIN})
    yield Case("algorithm-names", "sm90", 8, "kimi_k25", "eagle3_mla", {**E3, **CHAIN})
    yield Case("algorithm-names", "sm120", 8, "kimi_k25", "eagle3_mla", {**E3, **TREE})


def page_and_tree() -> Iterator[Case]:
    """Trees with pages above 1, and backends that force a page size."""
    for backend, page in product(("flashinfer", "fa3", "triton", "fa4"), (1, 16)):
        yield _llama("page-and-tree", attention_backend=backend, page_size=page, **TREE)
    for page in (1, 16):
        yield _llama("page-and-tree", page_size=page, **TREE)
        yield _llama("page-and-tree", page_size=page, **CHAIN)
        yield _llama("page-and-tree", attention_backend="triton", page_size=page, **CHAIN)
        yield _llama("page-and-tree", gpu="sm120", page_size=page, **TREE)
    for backend in ("flashmla", "cutlass_mla", "trtllm_mla", "tokenspeed_mla", "flashinfer", "triton", "fa3"):
        for gpu in ("sm100", "sm120") if "t" in backend[:1] else ("sm90", "sm100"):
            for numbers in (CHAIN, TREE):
                knobs = {**E3, "attention_backend": backend, **numbers}
                yield Case("page-and-tree", gpu, 8, "deepseek_v3", "eagle3_mla", knobs)
    for numbers in (CHAIN, TREE):
        for page in (16, 32, 64, 128):
            knobs = {**E3, "attention_backend": "trtllm_mla", "page_size": page, **numbers}
            yield Case("page-and-tree", "sm100", 8, "kimi_k25", "eagle3_llama", knobs)
    for backend in ("flex_attention", "torch_native"):
        yield _llama("page-and-tree", attention_backend=backend, **CHAIN)
    for prefill, decode in (("fa3", "flashinfer"), ("flashinfer", "triton"), ("fa3", "fa3")):
        pair: dict[str, Any] = {"prefill_attention_backend": prefill, "decode_attention_backend": decode}
        yield _llama("page-and-tree", **pair, page_size=16, **TREE)
        yield _llama("page-and-tree", **pair, **TREE, speculative_attention_mode="decode")


def default_backend() -> Iterator[Case]:
    """The backend that nobody named, by architecture, GPU, topk and page."""
    for gpu, (model, tp) in product(GPUS, (("llama", 1), ("qwen3_moe", 2), ("deepseek_v3", 8), ("kimi_k25", 8))):
        yield Case("default-backend", gpu, tp, model)
        for numbers in (CHAIN, TREE):
            yield Case("default-backend", gpu, tp, model, "eagle3_llama", {**E3, **numbers})
    for gpu in GPUS:
        yield Case("default-backend", gpu, 1, "gpt_oss")
        yield Case("default-backend", gpu, 1, "gpt_oss", "eagle3_llama", {**E3, **CHAIN})
        yield _llama("default-backend", gpu=gpu, page_size=64, **CHAIN)
        yield _llama("default-backend", gpu=gpu, algorithm=None, page_size=64)
        yield _llama("default-backend", gpu=gpu, algorithm="DFLASH", topk=4)
        yield _llama("default-backend", gpu=gpu, algorithm="DFLASH")
        yield _llama("default-backend", gpu=gpu, algorithm="NGRAM")
        yield _llama("default-backend", gpu=gpu, algorithm="NGRAM", topk=1)
        yield Case("default-backend", gpu, 8, "kimi_k25", None, {"algorithm": "NGRAM"})


def trtllm_mha() -> Iterator[Case]:
    """Platform and topk limits of the backend, in each of the three flags."""
    for gpu in GPUS:
        yield _llama("trtllm-mha", gpu=gpu, algorithm=None, attention_backend="trtllm_mha")
        for name in ("attention_backend", "prefill_attention_backend", "decode_attention_backend"):
            yield _llama("trtllm-mha", gpu=gpu, **_one(name, "trtllm_mha"), **CHAIN)
    for name in ("attention_backend", "prefill_attention_backend", "decode_attention_backend"):
        yield _llama("trtllm-mha", gpu="sm100", **_one(name, "trtllm_mha"), **TREE)
    for page in (1, 32, 128):
        yield _llama("trtllm-mha", gpu="sm100", attention_backend="trtllm_mha", page_size=page, **CHAIN)
    yield _llama("trtllm-mha", gpu="sm120", attention_backend="trtllm_mha", kv_cache_dtype="fp8_e4m3", **CHAIN)


def fa4() -> Iterator[Case]:
    """Which releases give it a page of 128, and when."""
    for gpu, flag in product(
        ("sm90", "sm100"), ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
    ):
        yield _llama("fa4", gpu=gpu, algorithm=None, **_one(flag, "fa4"))
        yield _llama("fa4", gpu=gpu, **_one(flag, "fa4"), **CHAIN)
    yield _llama("fa4", gpu="sm100", attention_backend="fa4", **TREE)


def draft_backend() -> Iterator[Case]:
    """Passed through, nonsense too; and the attention mode."""
    for backend in ("triton", "flashinfer", "fa3", "trtllm_mha", "nonsense"):
        yield _llama("draft-backend", draft_attention_backend=backend, **CHAIN)
    yield _llama("draft-backend", gpu="sm100", draft_attention_backend="trtllm_mha", **TREE)
    for mode in ("prefill", "decode", "both"):
        yield _llama("draft-backend", speculative_attention_mode=mode, **CHAIN)


def ngram() -> Iterator[Case]:
    """No draft; breadth is the topk; pages need flashinfer; no data parallel attention."""
    for more in (
        {},
        {"num_draft_tokens": 4},
        {"num_draft_tokens": 4, "num_steps": 3},
        {"num_draft_tokens": 16, "topk": 4, "num_steps": 3},
        {"ngram_max_bfs_breadth": 1},
        {"ngram_max_bfs_breadth": 1, "page_size": 16},
        {"page_size": 16, "attention_backend": "flashinfer"},
        {"page_size": 16, "attention_backend": "triton"},
        {"page_size": 16},
        {"attention_backend": "trtllm_mha"},
        {"max_running_requests": 64},
        {"mixed_chunk": True},
    ):
        yield _llama("ngram", algorithm="NGRAM", **more)
    yield Case("ngram", "sm90", 8, "deepseek_v3", None, {"algorithm": "NGRAM", "dp_size": 8, "dp_attention": True})
    for backend in ("triton", "flashinfer", "trtllm_mla"):
        yield Case("ngram", "sm100", 8, "kimi_k25", None, {"algorithm": "NGRAM", "attention_backend": backend})


def dflash() -> Iterator[Case]:
    """Block size from flag or draft; steps and topk forced to 1; no data or pipeline parallel."""
    for more in (
        {},
        {"num_draft_tokens": 8},
        {"dflash_block_size": 8},
        {"dflash_block_size": 8, "num_draft_tokens": 8},
        {"dflash_block_size": 8, "num_draft_tokens": 4},
        {"dflash_block_size": 0},
        {"num_steps": 5},
        {"topk": 4},
        _trio(3, 4, 16),
        {"pp_size": 2},
        {"draft_window_size": 8},
        {"draft_window_size": 512},
        {"disable_overlap_schedule": True},
        {"draft_attention_backend": "trtllm_mha"},
        {"draft_attention_backend": "triton"},
        {"draft_attention_backend": "nonsense"},
        {"page_size": 16},
        {"max_running_requests": 64},
    ):
        yield _llama("dflash", algorithm="DFLASH", **more)
    yield Case("dflash", "sm90", 1, "qwen3", "dflash_small_block", {"algorithm": "DFLASH"})
    yield Case("dflash", "sm90", 1, "qwen3", None, {"algorithm": "DFLASH"})
    for more in ({}, {"dp_lm_head": True}):
        knobs = {"algorithm": "DFLASH", "dp_size": 2, "dp_attention": True, **more}
        yield Case("dflash", "sm90", 2, "qwen3_moe", "dflash_qwen3", knobs)
    yield _llama("dflash", gpu="sm100", algorithm="DFLASH", attention_backend="trtllm_mha")
    yield _llama("dflash", gpu="sm120", algorithm="DFLASH")


def running_limit() -> Iterator[Case]:
    """48 where nobody says otherwise."""
    for algorithm in (None, "EAGLE3", "EAGLE", "STANDALONE", "NGRAM", "DFLASH"):
        numbers = CHAIN if algorithm in ("EAGLE3", "EAGLE", "STANDALONE") else {}
        yield _llama("running-limit", algorithm=algorithm, **numbers)
        yield _llama("running-limit", algorithm=algorithm, max_running_requests=64, **numbers)
    yield Case("running-limit", "sm120", 8, "kimi_k25", "eagle3_llama", {**E3, **CHAIN, "max_running_requests": 8})


def scheduler() -> Iterator[Case]:
    """Mixed chunks, pipeline parallel, LoRA, chunk and page, two-batch overlap."""
    for algorithm in (None, "EAGLE3", "STANDALONE", "NGRAM", "DFLASH"):
        numbers = CHAIN if algorithm in ("EAGLE3", "STANDALONE") else {}
        yield _llama("scheduler", algorithm=algorithm, mixed_chunk=True, **numbers)
        yield _llama("scheduler", algorithm=algorithm, lora=True, flags=["--lora-paths", "a=models/llama"], **numbers)
        yield _llama("scheduler", algorithm=algorithm, pp_size=2, **numbers)
    for algorithm in ("EAGLE", "EAGLE3"):
        yield _llama("scheduler", algorithm=algorithm, pp_size=2, pp_spec_env="1", **CHAIN)
    for algorithm, chunk in product((None, "EAGLE3"), (1000, 2048)):
        numbers = CHAIN if algorithm else {}
        yield _llama("scheduler", algorithm=algorithm, chunked_prefill_size=chunk, page_size=64, **numbers)
    yield _llama("scheduler", two_batch_overlap=True, **CHAIN)
    yield _llama("scheduler", multi_layer_eagle=True, **CHAIN)
    yield _llama("scheduler", skip_dp_mlp_sync=True, **CHAIN)


def dp_attention() -> Iterator[Case]:
    """Data parallel attention, and plain data parallel copies."""
    for algorithm in (None, "EAGLE3", "EAGLE", "STANDALONE", "NGRAM"):
        knobs = {"algorithm": algorithm} if algorithm else {}
        numbers = CHAIN if algorithm in ("EAGLE3", "EAGLE", "STANDALONE") else {}
        draft = DRAFTS[algorithm] if algorithm else None
        for dp in (2, 8):
            yield Case(
                "dp-attention",
                "sm90",
                8,
                "deepseek_v3",
                draft,
                {**knobs, **numbers, "dp_size": dp, "dp_attention": True},
            )
    yield Case(
        "dp-attention", "sm120", 8, "kimi_k25", "eagle3_llama", {**E3, **TREE, "dp_size": 8, "dp_attention": True}
    )
    yield _llama("dp-attention", dp_size=2, **CHAIN)
    yield _llama("dp-attention", algorithm=None, dp_size=2, dp_attention=True)


def sampling() -> Iterator[Case]:
    """Rejection sampling, block verification, thresholds, deterministic inference."""
    for name in ("rejection_sampling", "block_verification"):
        yield _llama("sampling", **_one(name, True), **CHAIN)
        yield _llama("sampling", **_one(name, True), **TREE)
        yield _llama("sampling", algorithm="STANDALONE", **_one(name, True), **CHAIN)
        yield _llama("sampling", algorithm="DFLASH", **_one(name, True))
        yield _llama("sampling", algorithm="NGRAM", **_one(name, True))
        yield _llama("sampling", **_one(name, True), accept_threshold_single=0.9, **CHAIN)
        yield _llama("sampling", **_one(name, True), deterministic=True, **CHAIN)
    yield _llama("sampling", accept_threshold_single=0.9, **CHAIN)
    for gpu, numbers in product(GPUS, (CHAIN, TREE)):
        yield _llama("sampling", gpu=gpu, tp=2, deterministic=True, **numbers)
    yield Case("sampling", "sm90", 8, "kimi_k25", None, {"deterministic": True})


def adaptive() -> Iterator[Case]:
    """Which numbers and files it takes, and where it turns itself off."""
    for more in (
        {},
        CHAIN,
        _trio(2, 1, 3),
        _trio(5, 1, 6),
        TREE,
        {"adaptive_config": "adaptive_flat.json", **CHAIN},
        {"adaptive_config": "adaptive_keyed.json", **CHAIN},
        {"adaptive_config": "missing.json", **CHAIN},
        {"disable_overlap_schedule": True, **CHAIN},
        {"spec_version": "v1", **CHAIN},
    ):
        yield _llama("adaptive", adaptive=True, **more)
    for algorithm in ("EAGLE", "STANDALONE"):
        yield _llama("adaptive", algorithm=algorithm, adaptive=True, **CHAIN)
    yield _llama("adaptive", algorithm="NGRAM", adaptive=True)
    yield Case("adaptive", "sm90", 1, "qwen3", "eagle3_llama", {**E3, "adaptive": True})
    yield Case(
        "adaptive",
        "sm90",
        8,
        "deepseek_v3",
        "eagle3_llama",
        {**E3, "adaptive": True, **CHAIN, "dp_size": 8, "dp_attention": True},
    )


def hybrid() -> Iterator[Case]:
    """A model with linear attention: radix cache, track interval."""
    for more in (
        {},
        {"disable_radix_cache": True},
        {"flags": ["--mamba-scheduler-strategy", "extra_buffer"]},
        {"spec_version": "v2"},
    ):
        yield Case("hybrid", "sm90", 8, "qwen3_next", None, {"algorithm": "NEXTN", **CHAIN, **more})
    yield Case("hybrid", "sm90", 8, "qwen3_next")
    yield Case("hybrid", "sm100", 8, "qwen3_next", None, {"algorithm": "NEXTN", **CHAIN, "disable_radix_cache": True})
    yield Case("hybrid", "sm90", 8, "qwen3_next", None, {"algorithm": "NEXTN", **TREE, "disable_radix_cache": True})
    for interval in (3, 256):
        yield Case(
            "hybrid",
            "sm90",
            8,
            "qwen3_next",
            None,
            {"algorithm": "NEXTN", **CHAIN, "disable_radix_cache": True, "mamba_track_interval": interval},
        )


def moe_runner() -> Iterator[Case]:
    """The draft's MoE kernels."""
    for runner in ("triton", "flashinfer_trtllm"):
        for model in ("deepseek_v3", "qwen3_moe"):
            yield Case(
                "moe-runner",
                "sm100",
                8,
                model,
                "eagle3_llama",
                {**E3, **CHAIN, "speculative_moe_runner_backend": runner},
            )
    yield Case("moe-runner", "sm90", 8, "deepseek_v3", "eagle3_llama", {**E3, **CHAIN, "moe_runner_backend": "triton"})


def graphs() -> Iterator[Case]:
    """Spellings of the graph limits, and graphs turned off."""
    for algorithm in (None, "EAGLE3"):
        numbers = CHAIN if algorithm else {}
        for more in (
            {"old_cuda_graph_max_bs": 32},
            {"cuda_graph_max_bs": 32},
            {"disable_cuda_graph": True},
            {"piecewise_cuda_graph": True},
            {"no_piecewise_cuda_graph": True},
            {"flags": ["--cuda-graph-backend-prefill", "disabled"]},
        ):
            yield _llama("graphs", algorithm=algorithm, **more, **numbers)
    for gpu, tp in product(GPUS, (1, 8)):
        yield _llama("graphs", gpu=gpu, tp=tp, max_running_requests=8, **CHAIN)


def fusion() -> Iterator[Case]:
    """Where the all-reduce fusion turns itself on, and what each word for it does."""
    for gpu, tp, model in product(GPUS, (1, 8), ("qwen3_moe", "deepseek_v3", "kimi_k25")):
        yield Case("fusion", gpu, tp, model, "eagle3_llama", {**E3, **CHAIN})
    for gpu, model in product(GPUS, ("llama", "gpt_oss", "glm4_moe", "qwen3_next")):
        yield Case("fusion", gpu, 2, model)
    for gpu, value in product(GPUS, ("on", "off", "auto", "trtllm", "mnnvl", "cutedsl")):
        yield Case("fusion", gpu, 8, "qwen3", None, {"allreduce_fusion": value})
        yield Case("fusion", gpu, 8, "kimi_k25", "eagle3_llama", {**E3, **CHAIN, "allreduce_fusion": value})
    for gpu in GPUS:
        both = {"fusion_flag": True, "allreduce_fusion": "off"}
        yield Case("fusion", gpu, 8, "kimi_k25", None, both)
        yield Case("fusion", gpu, 8, "kimi_k25", None, {"dp_size": 8, "dp_attention": True})
        yield Case("fusion", gpu, 8, "kimi_k25", None, {"deterministic": True})
    yield Case("fusion", "sm90", 1, "qwen3", None, {"allreduce_fusion": "on"})


def transport() -> Iterator[Case]:
    """All-reduce paths: arguments take each of them anywhere."""
    for gpu, value in product(GPUS, ("nccl", "torch-symm-mem", "nccl-symm-mem", "mscclpp", "nvls", "pcie-ipc")):
        yield Case("transport", gpu, 8, "kimi_k25", "eagle3_llama", {**E3, **CHAIN, "allreduce_transport": value})
    for tp, value in product((1, 2), ("nccl", "torch-symm-mem", "nccl-symm-mem")):
        yield Case("transport", "sm120", tp, "llama", None, {"allreduce_transport": value})


def memory() -> Iterator[Case]:
    """The default fraction by algorithm, GPU and tp, and a given one."""
    for gpu, algorithm in product(GPUS, (None, "EAGLE3", "STANDALONE", "NGRAM")):
        numbers = CHAIN if algorithm in ("EAGLE3", "STANDALONE") else {}
        yield _llama("memory", gpu=gpu, algorithm=algorithm, **numbers)
    for gpu, tp, algorithm in product(("sm90", "sm120"), (2, 8), (None, "EAGLE3")):
        numbers = TREE if algorithm else {}
        yield _llama("memory", gpu=gpu, tp=tp, algorithm=algorithm, **numbers)
    for fraction in (0.7, 0.95):
        yield _llama("memory", mem_fraction_static=fraction, **CHAIN)


def draft_details() -> Iterator[Case]:
    """KV type of the target with drafts, draft windows, draft quantisation."""
    for gpu, dtype in product(("sm90", "sm100"), ("fp8_e4m3", "fp8_e5m2")):
        yield _llama("draft-details", gpu=gpu, kv_cache_dtype=dtype, **CHAIN)
    knobs = {**E3, **CHAIN, "attention_backend": "tokenspeed_mla", "kv_cache_dtype": "fp8_e4m3"}
    yield Case("draft-details", "sm100", 8, "deepseek_v3", "eagle3_mla", knobs)
    for window in (0, 128):
        yield _llama("draft-details", draft_window_size=window, **CHAIN)
    yield _llama("draft-details", algorithm="STANDALONE", draft_window_size=128, **CHAIN)
    for quantization in ("fp8", "unquant"):
        yield _llama("draft-details", draft_quantization=quantization, **CHAIN)


FAMILIES: Final = (
    trio_defaults,
    trio_partial,
    trio_numbers,
    worker_version,
    algorithm_names,
    page_and_tree,
    default_backend,
    trtllm_mha,
    fa4,
    draft_backend,
    ngram,
    dflash,
    running_limit,
    scheduler,
    dp_attention,
    sampling,
    adaptive,
    hybrid,
    moe_runner,
    graphs,
    fusion,
    transport,
    memory,
    draft_details,
)


def all_cases() -> Iterator[Case]:
    """Cases of all families, in their order."""
    for family in FAMILIES:
        yield from family()
