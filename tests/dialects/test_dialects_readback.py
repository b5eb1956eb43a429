"""Read-back: what the server says it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.config import SpecConfig
from search.dialects import MetaFields, for_release, known_releases

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WITH_V1 = ("0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1")
FIELDS = [
    "speculative_algorithm",
    "speculative_eagle_topk",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
    "disable_overlap_schedule",
    "enable_flashinfer_allreduce_fusion",
    "internal_states",
    "max_running_requests",
    "dp_size",
    "tp_size",
    "version",
    "attention_backend",
    "page_size",
]


def body(**changes):
    """A body as 0.5.11 gave it for a tree, cut down to what is read."""
    return {
        "speculative_algorithm": "EAGLE3",
        "speculative_eagle_topk": 2,
        "speculative_num_steps": 2,
        "speculative_num_draft_tokens": 7,
        "disable_overlap_schedule": True,
        "enable_flashinfer_allreduce_fusion": False,
        "tp_size": 8,
        "dp_size": 1,
        "attention_backend": "flashinfer",
        "mem_fraction_static": 0.6,
        "max_running_requests": 128,
        "api_key": "secret",
        "internal_states": [{"effective_max_running_requests_per_dp": 112}],
        "version": "0.5.11",
    } | changes


def read(asked: str, info, release: str = "0.5.11"):
    return for_release(release).effective(info, SpecConfig.from_id(asked))


def test_v2_tree_asked_of_0_5_11_is_read_back_as_the_v1_tree_that_runs():
    assert read("v2-k2-s2-d7", body()).config.config_id == "v1-k2-s2-d7"


@pytest.mark.parametrize("release", WITH_V1)
@pytest.mark.parametrize(
    ("changes", "config_id"),
    [
        ({}, "v1-k2-s2-d7"),
        ({"disable_overlap_schedule": False}, "v2-k2-s2-d7"),
        ({"speculative_algorithm": None}, "off"),
        ({"speculative_num_steps": 3, "speculative_num_draft_tokens": 8}, "v1-k2-s3-d8"),
        ({"enable_flashinfer_allreduce_fusion": True}, "v1-k2-s2-d7+arf=auto"),
        # 0.5.9 turns the flag on for one GPU too, where nothing is reduced.
        ({"enable_flashinfer_allreduce_fusion": True, "tp_size": 1}, "v1-k2-s2-d7"),
        ({"enable_flashinfer_allreduce_fusion": True, "enable_dp_attention": True}, "v1-k2-s2-d7"),
    ],
)
def test_config_is_read_from_the_resolved_arguments(changes, config_id, release):
    assert read("v1-k2-s2-d7", body(**changes), release).config.config_id == config_id


@pytest.mark.parametrize(
    ("asked", "changes", "config_id"),
    [
        ("v1-k2-s2-d7+attn=triton", {}, "v1-k2-s2-d7+attn=flashinfer"),
        ("v1-k2-s2-d7+attn=flashinfer", {}, "v1-k2-s2-d7+attn=flashinfer"),
        ("v1-k2-s2-d7+page=16", {"page_size": 64}, "v1-k2-s2-d7+page=64"),
        ("v1-k2-s2-d7+page=16", {}, "v1-k2-s2-d7+page=16"),
        ("v1-k2-s2-d7+art=nccl", {"disable_custom_all_reduce": True}, "v1-k2-s2-d7+art=nccl"),
        ("v1-k2-s2-d7+art=nccl", {"disable_custom_all_reduce": False}, "v1-k2-s2-d7"),
        ("v1-k2-s2-d7+art=nccl", {}, "v1-k2-s2-d7+art=nccl"),
    ],
)
def test_asked_optional_knobs_are_compared_and_defaults_are_not_knobs(asked, changes, config_id):
    assert read(asked, body(**changes)).config.config_id == config_id


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 112),
        ({"internal_states": [{"effective_max_running_requests_per_dp": n} for n in (8, 6)]}, 6),
        ({"internal_states": [None, None, 2.9, 3.67]}, 128),
        ({"internal_states": [], "max_running_requests": 48, "dp_size": 8}, 6),
        ({"internal_states": None, "max_running_requests": None}, None),
    ],
)
def test_running_limit_is_the_smallest_of_a_data_parallel_rank(changes, limit):
    assert read("v1-k2-s2-d7", body(**changes)).max_running_requests == limit


def test_details_keep_backends_and_leave_secrets_out():
    settings = read("v1-k2-s2-d7", body())
    assert settings.release == "0.5.11"
    assert dict(settings.details)["attention_backend"] == "flashinfer"
    assert dict(settings.details)["mem_fraction_static"] == "0.6"
    assert "secret" not in str(settings)


@pytest.mark.parametrize("release", known_releases())
@pytest.mark.parametrize("info", [{}, None, [], "no", {"speculative_algorithm": 3}])
def test_untold_values_are_taken_from_what_was_asked(info, release):
    settings = read("v1-k2-s2-d7+arf=auto", info, release)
    assert settings.config.config_id == "v1-k2-s2-d7+arf=auto"
    assert (settings.release, settings.max_running_requests) == ("", None)


def test_tree_that_no_server_can_run_is_not_believed():
    assert read("v1-k2-s2-d7", body(speculative_num_draft_tokens=99)).config.config_id == "v1-k2-s2-d7"


@given(
    info=st.dictionaries(st.sampled_from(FIELDS), JSON) | st.dictionaries(st.text(max_size=5), JSON) | JSON,
    asked=st.sampled_from(["off", "v1-k2-s2-d7+page=16", "v2-k1-s2-d3+art=nccl+attn=triton"]),
    release=st.sampled_from(known_releases()),
)
def test_malformed_body_never_raises(info, asked, release):
    settings = read(asked, info, release)
    assert SpecConfig.from_params(settings.config.params) == settings.config


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ("0.5.9", ("spec_accept_histogram", "spec_accept_token_num", "spec_draft_token_num")),
        ("0.5.11", ("spec_accept_histogram", "spec_accepted_drafts", "spec_proposed_drafts")),
        ("0.5.12.post1", ("spec_correct_drafts_histogram", "spec_num_correct_drafts", "spec_num_proposed_drafts")),
        ("0.5.23", ("spec_correct_drafts_histogram", "spec_num_correct_drafts", "spec_num_proposed_drafts")),
    ],
)
def test_request_fields_hold_the_portable_pair_and_the_releases_own(release, fields):
    assert for_release(release).meta_fields == MetaFields("completion_tokens", "spec_verify_ct", *fields)


@pytest.mark.parametrize(
    ("asked", "changes", "config_id"),
    [
        ("v2-k2-s2-d7", {}, "v2-k2-s2-d7+overlap=off"),
        ("v2-k2-s2-d7+overlap=off", {}, "v2-k2-s2-d7+overlap=off"),
        ("v2-k2-s2-d7+overlap=off", {"disable_overlap_schedule": False}, "v2-k2-s2-d7"),
        ("v2-k2-s2-d7", {"disable_overlap_schedule": False}, "v2-k2-s2-d7"),
        (
            "v2-k2-s2-d7",
            {"disable_overlap_schedule": False, "flashinfer_allreduce_fusion_backend": "trtllm"},
            "v2-k2-s2-d7+arf=trtllm",
        ),
        (
            "v2-k2-s2-d7+arf=auto",
            {"disable_overlap_schedule": False, "flashinfer_allreduce_fusion_backend": None},
            "v2-k2-s2-d7",
        ),
        (
            "v2-k1-s15-d16",
            {
                "disable_overlap_schedule": False,
                "speculative_algorithm": "DFLASH",
                "speculative_num_steps": 1,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": 8,
            },
            "v2-k1-s7-d8",
        ),
    ],
)
def test_newer_releases_tell_overlap_and_backend_of_the_one_worker(asked, changes, config_id):
    assert read(asked, body(**changes), "0.5.16").config.config_id == config_id
