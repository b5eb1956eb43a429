"""Whether a launch can carry the plugin, and the environment it gets."""

from dataclasses import replace

import pytest

from search.config import SpecConfig, SpecVersion
from search.deployment import Deployment, Hardware
from search.server.shape_support import (
    TOKEN_VARIABLE,
    known_releases,
    new_token,
    plugin_folder,
    shapes_environment,
    shapes_support,
)

DEPLOYMENT = Deployment("/m", "/d", "EAGLE3", 2, Hardware("NVIDIA H200", 90, 141.0, "nvlink"), "0.5.16")
CHAIN = SpecConfig(SpecVersion.V2, 1, 2, 3)


def support(release="0.5.16", config=CHAIN, **changes):
    return shapes_support(release, replace(DEPLOYMENT, **changes), config)


@pytest.mark.parametrize("release", known_releases())
def test_support_of_a_known_release_is_to_be_tried_and_tells_what_is_not_proven(release):
    told = support(release)
    assert told.ok
    assert told.proven or release in told.reason


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11", "0.5.17", "0.5.16.post1", "0.6.0", "fork"])
def test_support_of_a_release_without_a_row_names_those_that_have_one(release):
    told = support(release)
    assert not told.ok
    assert "0.5.16" in told.reason


def test_support_of_a_patched_tree_is_that_of_its_base():
    assert support("0.5.16+sm120").ok


@pytest.mark.parametrize("config", [SpecConfig(SpecVersion.OFF), SpecConfig(SpecVersion.V1, 1, 2, 3)])
def test_support_of_off_and_v1_is_denied(config):
    assert not support(config=config).ok


@pytest.mark.parametrize("algorithm", ["NGRAM", "DFLASH"])
def test_support_of_other_drafts_is_denied_by_name(algorithm):
    assert algorithm in support(algorithm=algorithm).reason


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("enable-dp-attention", True),
        ("enable_dp_attention", True),
        ("dp-size", 2),
        ("pp-size", 2),
        ("enable-two-batch-overlap", True),
        ("enable-pdmux", True),
        ("enable-multi-layer-eagle", True),
        ("speculative-use-rejection-sampling", True),
        ("lora-paths", ("a", "b")),
        ("cuda-graph-backend-prefill", "full"),
        ("host", "0.0.0.0"),
        ("disaggregation-mode", "decode"),
    ],
)
def test_support_with_a_flag_that_binds_a_shape_is_denied_by_name(flag, value):
    told = support(server_args={flag: value})
    assert not told.ok
    assert told.reason


@pytest.mark.parametrize(("flag", "value"), [("dp-size", 1), ("enable-dp-attention", False), ("page-size", 16)])
def test_support_with_harmless_flags_stands(flag, value):
    assert support(server_args={flag: value}).ok


def test_support_with_adaptive_steps_is_denied():
    assert not support(config=replace(CHAIN, extra=(("adaptive", "on"),))).ok


def test_environment_extends_the_path_and_the_whitelist_but_makes_none():
    token = new_token()
    plain = shapes_environment(token, {"PYTHONPATH": "/theirs"}, DEPLOYMENT)
    assert plain == {TOKEN_VARIABLE: token, "PYTHONPATH": f"{plugin_folder()}:/theirs"}
    studys = replace(DEPLOYMENT, env={"PYTHONPATH": "/studys", "SGLANG_PLUGINS": "a, b"})
    assert shapes_environment(token, {"PYTHONPATH": "/theirs", "SGLANG_PLUGINS": "c"}, studys) == {
        TOKEN_VARIABLE: token,
        "PYTHONPATH": f"{plugin_folder()}:/studys",
        "SGLANG_PLUGINS": "a,b,search_shapes",
    }


def test_environment_made_twice_is_the_same():
    token = new_token()
    once = shapes_environment(token, {"SGLANG_PLUGINS": "a"}, DEPLOYMENT)
    assert shapes_environment(token, once, DEPLOYMENT) == once


def test_token_is_masked_in_a_launch_script():
    from search.server.masking import mask_pair

    assert "0123" not in mask_pair(TOKEN_VARIABLE, "0123" * 8)
