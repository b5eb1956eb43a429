"""Environment variables as knobs: what may be searched, its values, and what changes nothing."""

from dataclasses import replace

import pytest

from search.config import SpecConfig
from search.deployment import Deployment, Hardware, Patch
from search.dialects import UNSET, for_release, known_releases, simulating
from search.errors import UnsupportedKnob
from search.server.command import server_command
from search.server.ports import PortBlock

PCIE = Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie")
KIMI = Deployment(
    "/models/target",
    "/models/draft",
    "EAGLE3",
    8,
    PCIE,
    "0.5.16",
    architecture="KimiK25ForConditionalGeneration",
    searched_env=("NCCL_MIN_NCHANNELS", "NCCL_P2P_LEVEL", "NCCL_PROTO"),
)


def canonical(knobs: str, deployment: Deployment = KIMI) -> str:
    config = SpecConfig.from_id(f"v2-k1-s2-d3{knobs}")
    return for_release(deployment.release).canonical(config, deployment).config_id.removeprefix("v2-k1-s2-d3")


def test_config_id_of_a_variable_is_read_back():
    config = SpecConfig.from_id("v2-k1-s2-d3+NCCL_MIN_NCHANNELS=16+NCCL_P2P_LEVEL=SYS+page=64")
    assert dict(config.extra) == {"NCCL_MIN_NCHANNELS": 16, "NCCL_P2P_LEVEL": "SYS", "page_size": 64}
    assert SpecConfig.from_id(config.config_id) == config == SpecConfig.from_params(config.params)


@pytest.mark.parametrize("release", known_releases())
def test_variable_stands_in_the_id_on_every_release(release):
    deployment = replace(KIMI, release=release)
    config = SpecConfig.from_id("off+NCCL_PROTO=LL128+NCCL_P2P_LEVEL=SYS")
    assert for_release(release).canonical(config, deployment) == config


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        (f"+NCCL_PROTO={UNSET}", ""),
        ("+NCCL_P2P_DISABLE=0", ""),
        ("+NCCL_P2P_DISABLE=1", "+NCCL_P2P_DISABLE=1"),
        ("+NCCL_BUFFSIZE=4M", ""),
        ("+NCCL_BUFFSIZE=8M", "+NCCL_BUFFSIZE=8388608"),
        ("+NCCL_P2P_LEVEL=4", "+NCCL_P2P_LEVEL=PHB"),
        ("+NCCL_PROTO=LL,Simple", "+NCCL_PROTO=LL,Simple"),
        ("+NCCL_ALGO=allreduce:tree", None),
        ("+NCCL_ALGO=allreduce:Tree", "+NCCL_ALGO=allreduce:Tree"),
        ("+SGLANG_NGRAM_FORCE_GREEDY_VERIFY=false", ""),
        ("+SGLANG_NGRAM_FORCE_GREEDY_VERIFY=true", "+SGLANG_NGRAM_FORCE_GREEDY_VERIFY=1"),
    ],
)
def test_default_and_unset_value_are_one_config_without_the_variable(asked, held):
    if held is None:
        with pytest.raises(UnsupportedKnob, match="takes words of Tree"):
            canonical(asked)
    else:
        assert canonical(asked) == held


def test_setting_of_nccl_changes_nothing_on_one_gpu():
    assert canonical("+NCCL_PROTO=LL", replace(KIMI, tp=1)) == ""
    assert canonical("+SGLANG_NGRAM_FORCE_GREEDY_VERIFY=1", replace(KIMI, tp=1)) != ""


@pytest.mark.parametrize(
    ("knob", "said"),
    [
        ("NCCL_PROTO=FAST", "takes words of LL, LL128, Simple"),
        ("NCCL_P2P_LEVEL=FAR", "takes one of LOC, NVL"),
        ("NCCL_MIN_NCHANNELS=0", "takes a whole number from 1 to 64"),
        ("NCCL_NTHREADS=100", "takes one of 64, 128"),
        ("NCCL_PROT=LL", "Did you mean `NCCL_PROTO`"),
        ("SGLANG_NGRAM_FORCE_GREEDY=1", "SGLang 0.5.16 reads no variable"),
        ("SGLANG_ENABLE_SPEC_V2=1", "the knob `spec_version` sets it"),
        ("CUDA_VISIBLE_DEVICES=1", "the slot of a launch sets it"),
        ("SGLANG_SIMULATE_ACC_LEN=3", "invents what is to be measured"),
        ("HF_HOME=x", "its name begins with"),
        ("SGLANG_API_TOKEN=x", "its name begins with"),
    ],
)
def test_variable_that_is_no_knob_or_takes_no_such_value_is_refused_by_name(knob, said):
    with pytest.raises(UnsupportedKnob, match=said):
        canonical(f"+{knob}")


def test_variable_of_the_study_is_not_searched_too():
    with pytest.raises(UnsupportedKnob, match=r"`engine.env` sets it for every launch"):
        canonical("+NCCL_PROTO=LL", replace(KIMI, env={"NCCL_PROTO": "Simple"}))


def test_patched_tree_may_read_more_variables():
    patched = replace(KIMI, patches=(Patch("own", ("arf-sm120",)),))
    assert canonical("+SGLANG_OWN_SWITCH=1", patched) == "+SGLANG_OWN_SWITCH=1"


def test_launch_sets_the_variable_and_unsets_what_it_might_inherit():
    config = SpecConfig.from_id("v2-k1-s2-d3+NCCL_P2P_LEVEL=SYS+NCCL_MIN_NCHANNELS=16")
    dialect = for_release("0.5.16")
    made = server_command(config, KIMI, dialect, ports=PortBlock(http=1, nccl=2), tag="t")
    environment = made.environment({"NCCL_PROTO": "LL", "NCCL_P2P_LEVEL": "LOC", "PATH": "/bin"})
    assert environment["NCCL_P2P_LEVEL"] == "SYS"
    assert environment["NCCL_MIN_NCHANNELS"] == "16"
    assert "NCCL_PROTO" not in environment
    script = made.script()
    assert "NCCL_P2P_LEVEL=SYS" in script
    assert "NCCL_MIN_NCHANNELS=16" in script
    assert "-u NCCL_PROTO" in script


def test_read_back_keeps_the_variable_that_no_server_reports():
    asked = SpecConfig.from_id("v2-k1-s2-d3+NCCL_PROTO=LL+mem_fraction_static=0.85")
    info = {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 2,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 3,
        "mem_fraction_static": 0.85,
    }
    dialect = for_release("0.5.16")
    assert dialect.effective(info, asked).config == asked
    other = dialect.effective({**info, "mem_fraction_static": 0.7}, asked).config
    assert dict(other.extra)["mem_fraction_static"] == "0.7"


def test_limit_of_requests_is_a_knob_whose_default_is_the_studys_own():
    assert canonical("+max_running_requests=256") == ""
    assert canonical("+max_running_requests=128") == "+max_running_requests=128"
    words = for_release("0.5.16").launch_args(SpecConfig.from_id("off+max_running_requests=128"), KIMI).flags
    assert words == ("--max-running-requests", "128")


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, ()),
        ({"SGLANG_SIMULATE_ACC_LEN": "-1"}, ()),
        ({"SGLANG_SIMULATE_ACC_METHOD": "multinomial"}, ()),
        ({"SGLANG_SIMULATE_UNIFORM_EXPERTS": "0"}, ()),
        ({"SGLANG_SIMULATE_UNIFORM_EXPERTS": "true"}, ("SGLANG_SIMULATE_UNIFORM_EXPERTS",)),
        (
            {"SGLANG_SIMULATE_ACC_METHOD": "multinomial", "SGLANG_SIMULATE_ACC_LEN": "3.0"},
            ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD"),
        ),
    ],
)
def test_acceptance_is_simulated_by_a_length_and_not_by_a_method_alone(env, named):
    assert simulating(env) == named
