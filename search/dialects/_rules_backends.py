"""Rules of attention backends."""

from __future__ import annotations

from collections.abc import Iterator

from search.dialects._rule import Draft, Test
from search.dialects._setting import Setting
from search.dialects._targets import DETERMINISTIC_DEEPSEEK, MLA_ARCHITECTURES, SINK_ARCHITECTURES
from search.dialects._traits import Traits


def _uses(*names: str) -> Test:
    return lambda s: s.resolved.backends.attention in names or s.resolved.backends.decode in names


def _kv(s: Setting) -> str:
    return str(s.args.get("kv-cache-dtype", "auto"))


def _trtllm_mha_tree(s: Setting) -> bool:
    if not s.is_tree or not s.drafts_like_eagle:
        return False
    backends = s.resolved.backends
    return "trtllm_mha" in backends.pair if s.traits.trtllm_mha_by_pair else backends.any_is("trtllm_mha")


def _trtllm_mha_off_its_gpus(s: Setting) -> bool:
    backends = s.resolved.backends
    if not backends.any_is("trtllm_mha"):
        return False
    prefill, decode = backends.pair
    if s.traits.trtllm_mha_decode_majors == s.traits.trtllm_mha_prefill_majors == (10,):
        return s.major != 10  # 0.5.9 looks at all three flags alike
    return (prefill == "trtllm_mha" and s.major not in s.traits.trtllm_mha_prefill_majors) or (
        decode == "trtllm_mha" and s.major not in s.traits.trtllm_mha_decode_majors
    )


def _fa3_off_its_gpus(s: Setting) -> bool:
    if not s.resolved.backends.any_is("fa3"):
        return False
    ampere = s.major == 8 and s.deployment.architecture not in MLA_ARCHITECTURES
    return not ampere and s.major != 9


def _undrafted_backend(s: Setting) -> bool:
    return any(
        backend is not None and backend not in s.traits.draft_backends for backend in s.resolved.draft_backends or ()
    )


def _sinks_unserved(s: Setting) -> bool:
    served = (None, *s.traits.sink_backends)
    return s.deployment.architecture in SINK_ARCHITECTURES and any(b not in served for b in s.resolved.backends.pair)


def _nondeterministic_backend(s: Setting) -> bool:
    backend = s.resolved.backends.attention
    asked = "enable-deterministic-inference" in s.args
    if not asked or backend is None:
        return False
    mla = s.deployment.architecture in DETERMINISTIC_DEEPSEEK
    return backend not in s.traits.deterministic_backends or (mla and backend not in ("fa3", "triton"))


def rules(traits: Traits) -> Iterator[Draft]:
    """Which GPU, target and tree a backend takes."""
    yield Draft(
        "trtllm-mha-topk1", "trtllm_mha backend only supports topk = 1 for speculative decoding.", _trtllm_mha_tree
    )
    yield Draft(
        "trtllm-mla-gpu",
        "TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a different backend.",
        lambda s: _uses("trtllm_mla")(s) and s.major not in (10, 11, 12),
        "a Blackwell GPU",
    )
    everywhere = traits.trtllm_mha_prefill_majors != (10,)
    text = "TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
    if traits.trtllm_mha_decode_majors != (10,):
        text = (
            "TRTLLM MHA backend for prefill is only supported on Blackwell GPUs (SM100), for decode on Hopper (SM90), "
            "Blackwell (SM100) and (SM120) GPUs. Please use a different backend."
        )
    if everywhere:
        text = "TRTLLM MHA backend requires Hopper (SM90), Blackwell (SM100), or SM120 GPUs. Please use a different backend."
    yield Draft(
        "trtllm-mha-gpu",
        text,
        _trtllm_mha_off_its_gpus,
        "a GPU of SM90, SM100 or SM120" if everywhere else "a GPU of SM100, or SGLang 0.5.19 on SM90 and SM120",
    )
    yield Draft(
        "trtllm-mha-fp8-sm120",
        "TRTLLM FMHAv2 prefill on SM120 does not support fp8_e4m3 KV cache or skip-softmax.",
        lambda s: s.resolved.backends.pair[0] == "trtllm_mha" and s.major == 12 and _kv(s) == "fp8_e4m3",
        "a GPU of SM90 or SM100",
    )
    yield Draft(
        "tokenspeed-mla-gpu",
        "tokenspeed_mla backend is only supported on Blackwell GPUs (SM100/SM12x).",
        lambda s: _uses("tokenspeed_mla")(s) and s.major not in (10, 11, 12),
        "a Blackwell GPU",
    )
    yield Draft(
        "tokenspeed-mla-fp8",
        "tokenspeed_mla backend requires kv-cache-dtype=fp8_e4m3.",
        lambda s: _uses("tokenspeed_mla")(s) and _kv(s) != "fp8_e4m3",
    )
    yield Draft(
        "cutedsl-mla-gpu",
        "CuteDSL MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend.",
        lambda s: s.resolved.backends.any_is("cutedsl_mla") and s.major != 10,
        "a GPU of SM100",
    )
    yield Draft(
        "cutedsl-mla-prefill",
        "CuteDSL MLA only supports decoding for now",
        lambda s: s.resolved.backends.prefill == "cutedsl_mla",
    )
    yield Draft(
        "fa3-gpu",
        "FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`. "
        "(Checked only after the weights are loaded; models with MLA attention need SM90.)",
        _fa3_off_its_gpus,
        "a GPU of SM90",
    )
    yield Draft(
        "flex-attention-speculation",
        "Speculative decoding is currently not supported with Flex Attention backend",
        lambda s: s.speculates and s.resolved.backends.attention == "flex_attention",
    )
    yield Draft(
        "draft-attention-backend",
        f"EAGLE is not supported in attention backend {{backend_type}}. Draft workers know {', '.join(traits.draft_backends)}.",
        _undrafted_backend,
    )
    yield Draft(
        "sink-backend",
        f"GptOssForCausalLM requires one of {', '.join(traits.sink_backends)} attention backend.",
        _sinks_unserved,
    )
    yield Draft(
        "deterministic-backend",
        f"Currently only {', '.join(traits.deterministic_backends)} attention backends are supported for deterministic "
        "inference (DeepSeek-like targets: fa3 and triton).",
        _nondeterministic_backend,
    )
