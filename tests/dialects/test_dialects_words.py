"""Spelling: the words a config and a deployment become."""

from dataclasses import replace

import pytest

from search.config import SpecConfig
from search.deployment import Deployment, Hardware
from search.dialects import for_release, known_releases
from search.errors import UnsupportedKnob, UsageError

H200 = Hardware("NVIDIA H200", 90, 139.0, "nvlink")
LLAMA = Deployment("/models/target", "/models/draft", "EAGLE3", 8, H200, "0.5.11", architecture="LlamaForCausalLM")
KIMI = replace(LLAMA, architecture="KimiK25ForConditionalGeneration")


def spell(config_id: str, release: str, deployment: Deployment = LLAMA):
    return for_release(release).launch_args(SpecConfig.from_id(config_id), deployment)


TREE = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/models/draft"),
    *("--speculative-num-steps", "2", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "7"),
)
CHAIN = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/models/draft"),
    *("--speculative-num-steps", "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"),
)


@pytest.mark.parametrize(
    ("release", "config_id", "flags", "variable"),
    [
        ("0.5.9", "off", (), None),
        ("0.5.9", "v1-k2-s2-d7", TREE, "0"),
        ("0.5.9", "v1-k1-s2-d3", CHAIN, "0"),
        ("0.5.9", "v2-k1-s2-d3", CHAIN, "1"),
        ("0.5.11", "off", (), None),
        ("0.5.11", "v1-k2-s2-d7", (*TREE, "--disable-overlap-schedule"), None),
        ("0.5.11", "v1-k1-s2-d3", (*CHAIN, "--disable-overlap-schedule"), None),
        ("0.5.11", "v2-k1-s2-d3", CHAIN, "1"),
    ],
)
def test_worker_version_and_all_three_tree_numbers_are_explicit(release, config_id, flags, variable):
    args = spell(config_id, release)
    assert args.flags == flags
    assert args.env == {"SGLANG_ENABLE_SPEC_V2": variable}


@pytest.mark.parametrize("release", known_releases())
def test_fusion_is_asked_for_by_its_flag(release):
    assert spell("off+arf=auto", release).flags == ("--enable-flashinfer-allreduce-fusion",)


@pytest.mark.parametrize(
    ("deployment", "flags"),
    [
        (KIMI, ("--enforce-disable-flashinfer-allreduce-fusion",)),
        (replace(KIMI, architecture=""), ("--enforce-disable-flashinfer-allreduce-fusion",)),
        (replace(KIMI, tp=1), ()),
        (LLAMA, ()),
    ],
)
def test_fusion_off_is_enforced_on_0_5_11_where_it_would_come_by_itself(deployment, flags):
    assert spell("off", "0.5.11", deployment).flags == flags


@pytest.mark.parametrize("release", known_releases())
def test_named_fusion_backend_has_no_spelling(release):
    with pytest.raises(UnsupportedKnob, match="`off` or `auto` in this release, but got 'trtllm'"):
        spell("off+arf=trtllm", release)


@pytest.mark.parametrize("release", known_releases())
def test_optional_knobs_are_spelled(release):
    args = spell("v1-k1-s1-d2+art=nccl-symm-mem+attn=fa3+dattn=triton+page=64+smode=decode", release)
    assert args.flags[-9:] == (
        "--enable-symm-mem",
        *("--attention-backend", "fa3"),
        *("--speculative-draft-attention-backend", "triton"),
        *("--page-size", "64"),
        *("--speculative-attention-mode", "decode"),
    )


@pytest.mark.parametrize("release", known_releases())
def test_deployment_is_spelled_with_the_running_limit_and_without_radix_cache(release):
    assert for_release(release).server_args(LLAMA).flags == (
        *("--model-path", "/models/target", "--tp-size", "8", "--max-running-requests", "256"),
        "--disable-radix-cache",
    )


def test_study_flags_are_spelled_by_the_type_of_their_value():
    study = replace(
        LLAMA,
        trust_remote_code=True,
        max_running_requests=128,
        server_args={
            "mem_fraction_static": 0.6,
            "cuda-graph-bs": (1, 2, 4),
            "disable-piecewise-cuda-graph": True,
            "enable-metrics": False,
            "disable-radix-cache": False,
        },
    )
    assert for_release("0.5.11").server_args(study).flags == (
        *("--model-path", "/models/target", "--tp-size", "8", "--max-running-requests", "128", "--trust-remote-code"),
        *("--mem-fraction-static", "0.6", "--cuda-graph-bs", "1", "2", "4", "--disable-piecewise-cuda-graph"),
    )


@pytest.mark.parametrize(
    ("flag", "owner"),
    [
        ("tp", "the study's `tp`"),
        ("disable-overlap-schedule", "the knob `spec_version`"),
        ("speculative_num_steps", "the knob `num_steps`"),
        ("enable-flashinfer-allreduce-fusion", "the knob `allreduce_fusion`"),
    ],
)
def test_study_flag_that_a_field_or_knob_sets_is_refused_by_name(flag, owner):
    study = replace(LLAMA, server_args={flag: 2})
    with pytest.raises(UsageError) as error:
        for_release("0.5.9").server_args(study)
    assert f"`{flag.replace('_', '-')}`" in str(error.value)
    assert owner in str(error.value)
