"""Rewrites: equal launches have one id."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.config import SpecConfig, SpecVersion, tree_bound
from search.deployment import Deployment, Hardware
from search.dialects import for_release, known_releases
from search.errors import UnsupportedKnob

SM120 = Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie")
H200 = Hardware("NVIDIA H200", 90, 139.0, "nvlink")
H20 = Hardware("NVIDIA H20", 90, 95.0, "nvlink")
B200 = Hardware("NVIDIA B200", 100, 178.0, "nvlink")
LLAMA = Deployment("/models/target", "/models/draft", "EAGLE3", 8, H200, "0.5.11", architecture="LlamaForCausalLM")
KIMI = replace(LLAMA, architecture="KimiK25ForConditionalGeneration")


def canonical(config_id: str, deployment: Deployment = LLAMA, release: str = "0.5.11") -> str:
    return for_release(release).canonical(SpecConfig.from_id(config_id), deployment).config_id


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize("asked", ["v2-k1-s2-d3", "v2-k1-s2-d2", "v2-k1-s2-d16"])
def test_chain_gets_one_token_more_than_steps(asked, release):
    assert canonical(asked, release=release) == "v2-k1-s2-d3"


def test_tree_keeps_its_draft_tokens():
    assert canonical("v1-k4-s3-d16") == "v1-k4-s3-d16"


def test_fusion_on_one_gpu_collapses_to_off():
    assert canonical("v1-k2-s2-d7+arf=auto", replace(LLAMA, tp=1)) == "v1-k2-s2-d7"
    assert canonical("off+arf=auto", LLAMA) == "off+arf=auto"


def test_fusion_without_effect_on_this_gpu_stays_for_a_rule_to_lock():
    assert canonical("off+arf=auto", replace(LLAMA, hardware=SM120)) == "off+arf=auto"


def test_fusion_under_dp_attention_collapses_to_off():
    dp = replace(LLAMA, server_args={"enable-dp-attention": True, "dp-size": 2})
    assert canonical("off+arf=auto", dp) == "off"


@pytest.mark.parametrize(
    ("deployment", "release", "config_id"),
    [
        (KIMI, "0.5.9", "off+arf=auto"),
        (replace(KIMI, hardware=B200), "0.5.9", "off+arf=auto"),
        (KIMI, "0.5.11", "off"),  # has a flag that turns it off
        (replace(KIMI, hardware=SM120), "0.5.9", "off"),
        (replace(KIMI, hardware=H20), "0.5.9", "off"),
        (replace(KIMI, tp=1), "0.5.9", "off"),
        (replace(KIMI, server_args={"nnodes": 2}), "0.5.9", "off"),
        (replace(KIMI, server_args={"moe-a2a-backend": "deepep"}), "0.5.9", "off"),
        (LLAMA, "0.5.9", "off"),
    ],
)
def test_off_is_auto_where_0_5_9_turns_fusion_on_and_cannot_turn_it_off(deployment, release, config_id):
    assert canonical("off", deployment, release) == config_id


def test_eagle_of_a_multi_layer_target_always_runs_v2_on_0_5_9():
    mimo = replace(LLAMA, algorithm="EAGLE", architecture="MiMoV2FlashForCausalLM")
    assert canonical("v1-k1-s2-d3", mimo, "0.5.9") == "v2-k1-s2-d3"
    assert canonical("v1-k1-s2-d3", mimo, "0.5.11") == "v1-k1-s2-d3"
    assert canonical("v1-k1-s2-d3", replace(mimo, algorithm="EAGLE3"), "0.5.9") == "v1-k1-s2-d3"


@pytest.mark.parametrize(
    ("asked", "deployment", "config_id"),
    [
        ("off+attn=auto", LLAMA, "off"),
        ("off+attn=triton", LLAMA, "off+attn=triton"),
        ("off+attn=triton", replace(LLAMA, server_args={"attention-backend": "triton"}), "off"),
        ("off+attn=triton", replace(KIMI, hardware=SM120), "off"),
        ("off+attn=fa3", KIMI, "off"),
        ("off+page=1", LLAMA, "off"),
        ("off+page=64", LLAMA, "off+page=64"),
        ("off+page=64", replace(LLAMA, server_args={"page_size": 64}), "off"),
        # flashmla sets 64 whatever is asked; trtllm_mla takes 32 or 64.
        ("off+attn=flashmla+page=16", LLAMA, "off+attn=flashmla"),
        ("off+attn=trtllm_mla+page=16", replace(LLAMA, hardware=SM120), "off+attn=trtllm_mla"),
        ("off+attn=trtllm_mla+page=32", replace(LLAMA, hardware=SM120), "off+attn=trtllm_mla+page=32"),
        ("off+dattn=triton+smode=decode", LLAMA, "off"),
        ("v2-k1-s2-d3+dattn=triton", LLAMA, "v2-k1-s2-d3+dattn=triton"),
        ("v2-k1-s2-d3+attn=triton+dattn=triton", LLAMA, "v2-k1-s2-d3+attn=triton"),
        ("v2-k1-s2-d3+smode=decode", LLAMA, "v2-k1-s2-d3"),
        (
            "v2-k1-s2-d3+smode=decode",
            replace(LLAMA, server_args={"attention-backend": "fa3", "decode-attention-backend": "triton"}),
            "v2-k1-s2-d3+smode=decode",
        ),
        (
            "v2-k1-s2-d3+smode=prefill",
            replace(LLAMA, server_args={"attention-backend": "fa3", "decode-attention-backend": "triton"}),
            "v2-k1-s2-d3",
        ),
        ("off+art=auto", LLAMA, "off"),
        ("off+art=nccl", LLAMA, "off+art=nccl"),
        ("off+art=nccl", replace(LLAMA, hardware=SM120), "off"),  # already off on more than two PCIe GPUs
        ("off+art=nccl", replace(LLAMA, hardware=SM120, tp=2), "off+art=nccl"),
        ("off+art=torch-symm-mem", replace(LLAMA, tp=3), "off"),
        ("off+art=mscclpp", replace(LLAMA, tp=1), "off"),
    ],
)
def test_optional_knobs_that_change_nothing_vanish(asked, deployment, config_id):
    assert canonical(asked, deployment) == config_id


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        ("attention_backend", "fa9", "`attention_backend` is one of auto, triton"),
        ("page_size", "big", "`page_size` is a whole number from 1"),
        ("page_size", 0, "`page_size` is a whole number from 1"),
        ("speculative_attention_mode", "both", "is one of prefill, decode"),
        ("allreduce_transport", "smoke", "is one of auto, nccl"),
        ("adaptive", "on", "adaptive"),
        ("overlap", "maybe", "`overlap` is one of on, off"),
    ],
)
@pytest.mark.parametrize("release", known_releases())
def test_knob_or_value_without_a_spelling_is_refused(knob, value, words, release):
    with pytest.raises(UnsupportedKnob, match=words):
        for_release(release).canonical(SpecConfig("v2", 1, 2, 3, extra=((knob, value),)), LLAMA)


def test_transport_knob_beside_the_studys_own_transport_flag_is_refused():
    fixed = replace(LLAMA, server_args={"enable-symm-mem": True})
    with pytest.raises(UnsupportedKnob, match=r"turn on `enable-symm-mem` for every launch. Remove one"):
        canonical("off+art=nccl", fixed)


@st.composite
def asked_configs(draw) -> SpecConfig:
    extra = {
        "attention_backend": draw(st.sampled_from(["auto", "triton", "flashinfer", "flashmla", "trtllm_mla", "fa3"])),
        "page_size": draw(st.sampled_from([1, 16, 32, 64, 128])),
        "draft_attention_backend": draw(st.sampled_from(["auto", "triton", "flashinfer"])),
        "speculative_attention_mode": draw(st.sampled_from(["prefill", "decode"])),
        "allreduce_transport": draw(st.sampled_from(["auto", "nccl", "torch-symm-mem", "nvls"])),
    }
    kept = draw(st.sets(st.sampled_from(sorted(extra))))
    rest = (draw(st.sampled_from(["off", "auto"])), tuple((name, extra[name]) for name in kept))
    version = draw(st.sampled_from(list(SpecVersion)))
    if version is SpecVersion.OFF:
        return SpecConfig(version, None, None, None, *rest)
    topk, steps = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return SpecConfig(version, topk, steps, draw(st.integers(2, tree_bound(topk=topk, num_steps=steps))), *rest)


@given(
    config=asked_configs(),
    release=st.sampled_from(known_releases()),
    hardware=st.sampled_from([H200, B200, SM120]),
    architecture=st.sampled_from(["", "LlamaForCausalLM", "KimiK25ForConditionalGeneration", "DeepseekV2ForCausalLM"]),
    tp=st.sampled_from([1, 2, 8]),
    server_args=st.sampled_from(
        [{}, {"attention-backend": "triton"}, {"prefill-attention-backend": "fa3", "page_size": 64}]
    ),
)
def test_canonical_is_idempotent(config, release, hardware, architecture, tp, server_args):
    deployment = replace(LLAMA, hardware=hardware, architecture=architecture, tp=tp, server_args=server_args)
    dialect = for_release(release)
    once = dialect.canonical(config, deployment)
    assert dialect.canonical(once, deployment) == once


@pytest.mark.parametrize(
    ("asked", "deployment", "release", "config_id"),
    [
        # The worker an algorithm has.
        ("v2-k10-s18-d12", replace(LLAMA, algorithm="NGRAM", draft=""), "0.5.13.post1", "v1-k10-s18-d12"),
        ("v2-k10-s18-d12", replace(LLAMA, algorithm="NGRAM", draft=""), "0.5.14", "v2-k10-s18-d12"),
        ("v2-k4-s3-d16", replace(LLAMA, algorithm="DFLASH"), "0.5.11", "v1-k1-s15-d16"),
        ("v2-k1-s2-d16", replace(LLAMA, algorithm="DFLASH"), "0.5.16", "v2-k1-s15-d16"),
        # Overlap, where there is a choice.
        ("v2-k1-s2-d3+overlap=on", LLAMA, "0.5.13.post1", "v2-k1-s2-d3"),
        ("v2-k1-s2-d3+overlap=off", LLAMA, "0.5.13.post1", "v2-k1-s2-d3+overlap=off"),
        ("v1-k10-s18-d12+overlap=off", replace(LLAMA, algorithm="NGRAM", draft=""), "0.5.13.post1", "v1-k10-s18-d12"),
        # A backend by the name that `auto` would choose.
        ("off+arf=trtllm", LLAMA, "0.5.14", "off+arf=auto"),
        ("off+arf=mnnvl", LLAMA, "0.5.14", "off+arf=mnnvl"),
        ("off+arf=mnnvl", replace(LLAMA, hardware=B200), "0.5.14", "off+arf=auto"),
        ("off+arf=auto", replace(LLAMA, server_args={"enable-deterministic-inference": True}), "0.5.12.post1", "off"),
        # Defaults that depend on topk and page size.
        ("v2-k1-s2-d3+attn=fa3", LLAMA, "0.5.16", "v2-k1-s2-d3"),
        ("v2-k2-s2-d7+attn=flashinfer", LLAMA, "0.5.16", "v2-k2-s2-d7"),
        ("v2-k1-s2-d3+attn=flashinfer+page=16", LLAMA, "0.5.16", "v2-k1-s2-d3+page=16"),
        ("v2-k1-s2-d3+page=64", replace(LLAMA, hardware=B200), "0.5.16", "v2-k1-s2-d3+page=64"),
        ("v2-k1-s2-d3+attn=trtllm_mha+page=64", replace(LLAMA, hardware=B200), "0.5.16", "v2-k1-s2-d3"),
        ("v2-k1-s2-d3+attn=trtllm_mha+page=128", replace(LLAMA, hardware=B200), "0.5.16", "v2-k1-s2-d3"),
        # The server's own choice, where the study sets another and only the server can tell it.
        (
            "off+attn=auto",
            replace(LLAMA, architecture="", server_args={"attention-backend": "triton"}),
            "0.5.9",
            "off+attn=auto",
        ),
        # Adaptive steps: off with a warning, or started at the nearest candidate.
        ("v2-k1-s3-d4+adapt=7-1-3", LLAMA, "0.5.13.post1", "v2-k1-s3-d4+adapt=1-3-7"),
        ("v2-k2-s2-d7+adapt=1-3-7", LLAMA, "0.5.13.post1", "v2-k2-s2-d7"),
        ("v2-k1-s3-d4+adapt=1-3-7", LLAMA, "0.5.11", "v2-k1-s3-d4"),
        ("v1-k1-s5-d6+adapt=1-3-7", LLAMA, "0.5.11", "v1-k1-s7-d8+adapt=1-3-7"),
        ("off+adapt=1-3-7", LLAMA, "0.5.16", "off"),
        ("v2-k1-s3-d4+adapt=off", LLAMA, "0.5.9", "v2-k1-s3-d4"),
        # Plain flags: a default is an absent flag, and so is one the server turns off.
        ("off+random_seed=7", LLAMA, "0.5.16", "off+random_seed=7"),
        ("off+decode_log_interval=40", LLAMA, "0.5.16", "off"),
        ("off+enable_mixed_chunk=False", LLAMA, "0.5.16", "off"),
        ("off+enable_mixed_chunk=True", LLAMA, "0.5.16", "off+enable_mixed_chunk=True"),
        ("v2-k1-s2-d3+enable_mixed_chunk=True", LLAMA, "0.5.18", "v2-k1-s2-d3"),
        ("v2-k1-s2-d3+enable_mixed_chunk=True", LLAMA, "0.5.20", "v2-k1-s2-d3+enable_mixed_chunk=True"),
        # PCIe-IPC: without NVLink, for 2, 4 or 8 GPUs.
        ("off+art=pcie-ipc", LLAMA, "0.5.23", "off"),
        ("off+art=pcie-ipc", replace(LLAMA, hardware=SM120), "0.5.23", "off+art=pcie-ipc"),
        ("off+art=nvls", replace(LLAMA, hardware=SM120), "0.5.23", "off"),
    ],
)
def test_rewrites_of_the_releases(asked, deployment, release, config_id):
    assert canonical(asked, deployment, release) == config_id


def test_knob_or_flag_nobody_knows_is_refused_with_the_nearest():
    with pytest.raises(
        UnsupportedKnob, match=r"no knob or flag `chunked_prefil_size`\. Did you mean `chunked-prefill-size`"
    ):
        canonical("off+chunked_prefil_size=4096")


def test_synchronous_v2_has_no_spelling_before_0_5_13():
    with pytest.raises(UnsupportedKnob, match="has no synchronous form"):
        canonical("v2-k1-s2-d3+overlap=off", release="0.5.12.post1")


@st.composite
def settings_to_compare(draw):
    release = draw(st.sampled_from(known_releases()))
    deployment = replace(
        LLAMA,
        hardware=draw(st.sampled_from([H200, B200, SM120])),
        architecture=draw(st.sampled_from(["LlamaForCausalLM", "KimiK25ForConditionalGeneration", ""])),
        tp=draw(st.sampled_from([1, 2, 8])),
    )
    return release, deployment, draw(asked_configs()), draw(asked_configs())


@given(settings_to_compare())
def test_two_configs_share_an_id_exactly_if_they_resolve_alike(drawn):
    release, deployment, *asked = drawn
    bound = for_release(release).on(deployment)
    made = [bound.canonical(config) for config in asked]
    values = [
        (bound.resolve(config), canon.topk, canon.num_steps, canon.num_draft_tokens)
        for config, canon in zip(asked, made, strict=True)
    ]
    assert (made[0].config_id == made[1].config_id) == (values[0] == values[1])
    assert [bound.resolve(canon) for canon in made] == [value[0] for value in values]
