"""Environment variables that a study file searches: what it may say, and what its fingerprint keeps."""

import pytest

from search.dialects import for_release
from search.errors import UsageError
from search.samplers.knobs import distributions_of, view_distributions_of
from search.spec.file import parse_study
from search.spec.fingerprint import differences, fingerprint

STUDY = """\
study: pcie
model: {target: /m/kimi, draft: /m/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 8}
hardware: {gpus: 8, kind: RTX PRO 6000, sm: 120, memory_gib: 95, links: pcie}
engine: {release: 0.5.16, max_running_requests: 256}
space:
  spec_version: [v2]
  topk: [1]
  num_steps: [2]
  num_draft_tokens: [tree]
  env: {NCCL_P2P_LEVEL: [unset, SYS], NCCL_MIN_NCHANNELS: [unset, 8]}
"""


def study(
    env: str = "{NCCL_P2P_LEVEL: [unset, SYS], NCCL_MIN_NCHANNELS: [unset, 8]}", more: str = "", engine: str = ""
):
    text = STUDY.replace("{NCCL_P2P_LEVEL: [unset, SYS], NCCL_MIN_NCHANNELS: [unset, 8]}", env) + more
    return parse_study(text.replace("max_running_requests: 256", f"max_running_requests: 256{engine}"), name="s.yaml")


def test_each_value_of_a_variable_is_a_config_of_its_own_with_baselines():
    spec = study()
    space = spec.space_of(for_release("0.5.16"))
    assert [config.config_id for config in space.baselines] == [
        "off",
        "off+NCCL_MIN_NCHANNELS=8",
        "off+NCCL_MIN_NCHANNELS=8+NCCL_P2P_LEVEL=SYS",
        "off+NCCL_P2P_LEVEL=SYS",
    ]
    assert len(space.configs) == 8
    assert spec.deployment.searched_env == ("NCCL_MIN_NCHANNELS", "NCCL_P2P_LEVEL")


def test_samplers_propose_variables_like_other_knobs():
    configs = study().space_of(for_release("0.5.16")).configs
    assert distributions_of(configs)["NCCL_P2P_LEVEL"].choices == ("SYS",)
    assert view_distributions_of(configs)["NCCL_MIN_NCHANNELS"].choices == (None, 8)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("{MY_TOKEN: [x]}", "known to hold no secret"),
        ("{HF_TOKEN: [x]}", "known to hold no secret"),
        ("{nccl_proto: [LL]}", "written in capitals"),
        ("{SPEC_SEARCH_LAUNCH: [x]}", "mark the processes"),
    ],
)
def test_variable_that_is_secret_or_no_knob_is_a_mistake_of_the_file(env, said):
    with pytest.raises(UsageError, match=said):
        study(env)


@pytest.mark.parametrize(
    ("env", "said"), [("{NCCL_PROTO: [FAST]}", "takes words of LL"), ("{NCCL_PROT: [LL]}", "Did you mean `NCCL_PROTO`")]
)
def test_variable_with_a_value_that_nccl_does_not_take_is_refused_before_any_launch(env, said):
    with pytest.raises(UsageError, match=said):
        study(env).space_of(for_release("0.5.16"))


def test_variable_both_searched_and_set_is_refused():
    with pytest.raises(UsageError, match="Remove one of the two"):
        study(engine=", env: {NCCL_P2P_LEVEL: SYS}").space_of(for_release("0.5.16"))


def test_opening_a_variable_makes_measurements_incomparable():
    plain, opened = study("{}"), study()
    (line,) = differences(fingerprint(plain, kind="simulated"), fingerprint(opened, kind="simulated"))
    assert line == "space.env: not set -> NCCL_MIN_NCHANNELS, NCCL_P2P_LEVEL"


def test_searched_limit_admits_every_load():
    with pytest.raises(UsageError, match="must admit every measured concurrency"):
        study(more="  flags: {max-running-requests: [64, 256]}\n")
    spec = study("{}", more="  flags: {max-running-requests: [128, 256], mem-fraction-static: [0.8, 0.85]}\n")
    ids = {config.config_id for config in spec.space_of(for_release("0.5.16")).baselines}
    assert "off+mem_fraction_static=0.8" in ids
    assert "off+max_running_requests=128+mem_fraction_static=0.85" in ids
