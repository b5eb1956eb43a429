"""Spelling: the words a config and a deployment become."""

import json
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
        ("0.5.13.post1", "off", (), None),
        ("0.5.13.post1", "v2-k2-s2-d7", TREE, None),
        ("0.5.16", "v2-k2-s2-d7+overlap=off", (*TREE, "--disable-overlap-schedule"), None),
        ("0.5.16", "off+overlap=off", ("--disable-overlap-schedule",), None),
    ],
)
def test_worker_version_and_all_three_tree_numbers_are_explicit(release, config_id, flags, variable):
    args = spell(config_id, release)
    assert args.flags == flags
    assert args.env == {"SGLANG_ENABLE_SPEC_V2": variable}
    assert args.files == {}


@pytest.mark.parametrize(
    ("release", "fusion", "flags"),
    [
        ("0.5.9", "auto", ("--enable-flashinfer-allreduce-fusion",)),
        ("0.5.13.post1", "auto", ("--enable-flashinfer-allreduce-fusion",)),
        ("0.5.14", "auto", ("--flashinfer-allreduce-fusion-backend", "auto")),
        ("0.5.14", "mnnvl", ("--flashinfer-allreduce-fusion-backend", "mnnvl")),
        ("0.5.23", "cutedsl", ("--flashinfer-allreduce-fusion-backend", "cutedsl")),
    ],
)
def test_fusion_is_asked_for_by_the_releases_flag(release, fusion, flags):
    assert spell(f"off+arf={fusion}", release).flags == flags


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


@pytest.mark.parametrize("release", ["0.5.9", "0.5.10.post1", "0.5.11", "0.5.12.post1", "0.5.13.post1"])
def test_named_fusion_backend_has_no_spelling_before_0_5_14(release):
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


@pytest.mark.parametrize(
    ("release", "flag", "instead"),
    [
        ("0.5.9", "cuda-graph-max-bs-decode", "`cuda-graph-max-bs`"),
        ("0.5.20", "cuda-graph-max-bs", "`cuda-graph-max-bs-decode`"),
        ("0.5.23", "cuda_graph_bs", "`cuda-graph-bs-decode`"),
        ("0.5.23", "disable-piecewise-cuda-graph", "`cuda-graph-backend-prefill: disabled`"),
    ],
)
def test_study_flag_that_the_release_lacks_is_refused_with_the_name_it_has(release, flag, instead):
    with pytest.raises(UsageError) as error:
        for_release(release).server_args(replace(LLAMA, server_args={flag: 8}))
    assert instead in str(error.value)


def test_ngram_and_dflash_send_what_they_read():
    ngram = replace(LLAMA, algorithm="NGRAM", draft="")
    words = ("--speculative-ngram-max-bfs-breadth", "10", "--speculative-num-draft-tokens", "12")
    assert spell("v1-k10-s18-d12", "0.5.9", ngram).flags == (
        *("--speculative-algorithm", "NGRAM", "--speculative-ngram-branch-length", "18", *words),
    )
    assert spell("v2-k10-s18-d12", "0.5.14", ngram).flags == (
        *("--speculative-algorithm", "NGRAM", "--speculative-ngram-max-trie-depth", "18", *words),
    )
    assert spell("v2-k1-s15-d16", "0.5.16", replace(LLAMA, algorithm="DFLASH")).flags == (
        *("--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", "/models/draft"),
        *("--speculative-num-draft-tokens", "16"),
    )


def test_nextn_is_spelled_eagle_and_needs_no_draft_where_the_target_has_its_own_layers():
    deepseek = replace(LLAMA, algorithm="NEXTN", draft="", architecture="DeepseekV3ForCausalLM")
    assert spell("v2-k1-s1-d2", "0.5.16", deepseek).flags[:4] == (
        *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "1"),
    )
    llama = replace(deepseek, architecture="LlamaForCausalLM")
    rules = for_release("0.5.16").violations(SpecConfig.from_id("v2-k1-s1-d2"), llama)
    assert [rule.rule_id for rule in rules] == ["eagle-draft-missing"]


def test_dflash_begins_at_0_5_11():
    with pytest.raises(UsageError, match=r"algorithm` is DFLASH. It begins at 0\.5\.11"):
        spell("v1-k1-s15-d16", "0.5.10.post1", replace(LLAMA, algorithm="DFLASH"))


def test_pcie_ipc_is_a_variable_of_0_5_23_that_other_configs_unset():
    pcie = replace(LLAMA, hardware=replace(H200, links="pcie"))
    assert spell("off+art=pcie-ipc", "0.5.23", pcie).env["SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"] == "1"
    assert spell("off", "0.5.23", pcie).env["SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"] is None
    with pytest.raises(UnsupportedKnob, match="`allreduce_transport` is one of auto, nccl"):
        spell("off+art=pcie-ipc", "0.5.20", pcie)


def test_adaptive_steps_are_written_in_the_releases_own_format():
    flat = spell("v2-k1-s3-d4+adapt=1-3-7", "0.5.12.post1")
    assert "--speculative-adaptive" in flat.flags
    name, text = flat.files["--speculative-adaptive-config"]
    assert (name, json.loads(text)["candidate_steps"]) == ("adaptive-steps.json", [1, 3, 7])
    _, text = spell("v2-k1-s3-d4+adapt=1-3-7", "0.5.13.post1").files["--speculative-adaptive-config"]
    assert json.loads(text) == {
        "ema_alpha": 0.2,
        "update_interval": 5,
        "warmup_batches": 10,
        "down_hysteresis": -0.25,
        "up_hysteresis": 0.0,
        "1": {"candidate_steps": [1, 3, 7]},
    }


def test_any_plain_flag_is_spelled_as_it_is_named():
    assert spell("off+chunked_prefill_size=4096+enable_mixed_chunk=True", "0.5.11").flags == (
        *("--chunked-prefill-size", "4096", "--enable-mixed-chunk"),
    )
    with pytest.raises(UnsupportedKnob, match="because the knob `allreduce_transport` sets it"):
        for_release("0.5.11").launch_args(SpecConfig("off", extra=(("enable_symm_mem", True),)), LLAMA)


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
