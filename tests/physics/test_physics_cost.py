"""Cycle time, throughput and limits of the cost model."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.config import SpecConfig
from search.errors import UsageError
from search.physics.cost import pass_ms, predict, running_requests
from search.physics.files import load_physics

STORY = load_physics("kimi-k25-story").model
GENERIC = load_physics("generic").model
CONFIGS = [
    SpecConfig.from_id(text)
    for text in ("off", "v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s5-d6", "v1-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16")
]


def at(config_id, concurrency, model=STORY, **options):
    return predict(model, SpecConfig.from_id(config_id), concurrency, **options)


@given(
    model=st.sampled_from([STORY, GENERIC]),
    requests=st.integers(1, 500),
    tokens=st.integers(1, 64),
)
def test_pass_takes_longer_with_more_tokens_and_with_more_requests(model, requests, tokens):
    here = pass_ms(model, requests=requests, tokens_per_request=tokens)
    assert pass_ms(model, requests=requests, tokens_per_request=tokens + 1) > here
    assert pass_ms(model, requests=requests + 1, tokens_per_request=tokens) > here


@given(config=st.sampled_from(CONFIGS), concurrency=st.integers(1, 400))
def test_throughput_is_what_the_running_requests_emit(config, concurrency):
    prediction = predict(STORY, config, concurrency)
    assert prediction.output_tps <= concurrency / prediction.tpot_ms * 1000 * (1 + 1e-9)
    assert prediction.output_tps == pytest.approx(
        prediction.running * prediction.accept_length / prediction.cycle_ms * 1000
    )
    assert prediction.ttft_ms > prediction.cycle_ms


CAPPED = dataclasses.replace(STORY, v1_running_limit=48)


def capped(config_id, concurrency):
    return predict(CAPPED, SpecConfig.from_id(config_id), concurrency)


def test_worker_that_admits_48_requests_stops_growing_there():
    assert capped("v1-k4-s3-d16", 48).admission_limited is False
    assert capped("v1-k4-s3-d16", 49).admission_limited is True
    assert capped("v1-k4-s3-d16", 250).running == 48
    assert capped("v1-k4-s3-d16", 250).output_tps == capped("v1-k4-s3-d16", 48).output_tps
    waits = [capped("v1-k4-s3-d16", load).ttft_ms for load in (250, 100, 48)]
    assert waits == sorted(waits, reverse=True)
    assert capped("v2-k1-s2-d3", 250).running == 250


def test_story_runs_what_its_study_admits():
    for config_id in ("off", "v2-k1-s2-d3", "v1-k4-s3-d16"):
        assert at(config_id, 250).running == 250
    assert at("v1-k4-s3-d16", 300).running == 256


def test_lowest_limit_applies():
    assert running_requests(STORY, SpecConfig.from_id("off"), 100, running_limit=32) == 32
    assert running_requests(CAPPED, SpecConfig.from_id("v1-k4-s3-d16"), 100, running_limit=256) == 48


def test_verify_is_nearly_the_whole_cycle_of_the_story():
    for config_id in ("v2-k1-s2-d3", "v1-k4-s3-d16"):
        prediction = at(config_id, 1)
        assert 0.94 < prediction.verify_ms / prediction.cycle_ms < 0.99


def test_accept_lengths_of_the_story_are_plausible():
    assert 1.7 <= at("v2-k1-s2-d3", 1).accept_length <= 2.4
    assert 2.0 <= at("v1-k4-s3-d16", 1).accept_length <= 3.2


def test_topk_2_lies_between_chain_and_tree():
    chain, middle, tree = (at(config_id, 30) for config_id in ("v1-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16"))
    assert chain.accept_length < middle.accept_length < tree.accept_length
    assert chain.output_tps > middle.output_tps > tree.output_tps


def test_same_chain_is_a_little_faster_on_v2_than_on_v1():
    ratio = at("v2-k1-s2-d3", 1).output_tps / at("v1-k1-s2-d3", 1).output_tps
    assert 1.0 < ratio < 1.05


def test_fusion_scales_the_pass_by_its_factor():
    model = dataclasses.replace(STORY, fusion_factor=0.9)
    assert at("off+arf=auto", 1, model).tpot_ms == pytest.approx(0.9 * at("off", 1, model).tpot_ms)
    assert at("off+arf=auto", 1).tpot_ms == at("off", 1).tpot_ms


def test_acceptance_collapse_touches_v1_under_load_only():
    model = dataclasses.replace(STORY, v1_accept_loss=2.0, v1_running_limit=None)
    assert at("v1-k4-s3-d16", 1, model).accept_length == at("v1-k4-s3-d16", 1).accept_length
    assert at("v1-k4-s3-d16", 100, model).accept_length < 1.3
    assert at("v2-k1-s2-d3", 100, model).accept_length == at("v2-k1-s2-d3", 1).accept_length


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first_accept", 1.2),
        ("base_ms", 0.0),
        ("token_ms", -0.1),
        ("crowding", float("nan")),
        ("v1_running_limit", 0),
        ("bulk_ms", float("inf")),
    ],
)
def test_impossible_parameter_is_refused_by_name_and_value(name, value):
    with pytest.raises(UsageError, match=f"{name}.*{value}"):
        dataclasses.replace(STORY, **{name: value})
