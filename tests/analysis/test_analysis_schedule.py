"""What to run at which load, and whether SGLang's adaptive steps can run it."""

import json

import pytest

from search.analysis.findings import ConfigResult, Gain, LoadResult, LoadWinner
from search.analysis.schedule import schedule_of, steps_by_load
from search.app.schedule import adaptive_steps
from search.config import SpecConfig
from search.dialects import for_release
from search.errors import UnsupportedKnob
from search.spec.file import find_study, load_study
from search.stats.estimates import Estimate

OFF = SpecConfig.from_id("off")


def winner(load, name, gain=1.0, *, claimed=True, tied=(), same=()):
    return LoadWinner(
        load, SpecConfig.from_id(name), Estimate(100.0 * gain), OFF, Estimate(100.0), Gain(gain, gain - 0.01, gain + 0.01),
        claimed, tuple(map(SpecConfig.from_id, tied)), None, False, same=tuple(map(SpecConfig.from_id, same)),
    )  # fmt: skip


def result(name, **gains):
    at = {int(load[1:]): gain for load, gain in gains.items()}
    loads = {load: LoadResult(load, Estimate(100.0 * gain), None, None, None, (), False) for load, gain in at.items()}
    return ConfigResult(
        SpecConfig.from_id(name), loads, (Estimate(1.0), Estimate(1.0)), 1.0, (1,), False, (),
        gains={load: Gain(gain, gain - 0.01, gain + 0.01) for load, gain in at.items()},
    )  # fmt: skip


CHAINS = (
    winner(1, "off", claimed=False),
    winner(10, "v2-k1-s3-d4", 1.2),
    winner(30, "v2-k1-s3-d4", 1.1),
    winner(100, "v2-k1-s1-d2", 1.05),
)
RESULTS = (
    result("off", c1=1.0, c10=1.0, c30=1.0, c100=1.0),
    result("v2-k1-s3-d4", c1=0.9, c10=1.2, c30=1.1, c100=0.95),
    result("v2-k1-s1-d2", c1=0.95, c10=1.1, c30=1.08, c100=1.05),
)


def stretches(*winners):
    return [(one.start, str(one.config), one.measured) for one in schedule_of(winners, ()).stretches]


def test_loads_in_a_row_with_one_answer_are_one_stretch():
    assert stretches(*CHAINS) == [
        (1, "off", (1,)), (10, "v2-k1-s3-d4", (10, 30)), (100, "v2-k1-s1-d2", (100,)),
    ]  # fmt: skip


def test_first_stretch_begins_at_one_whatever_was_measured():
    assert stretches(winner(10, "v2-k1-s3-d4", 1.2))[0][0] == 1


def test_config_that_is_shown_to_be_as_good_goes_on():
    told = stretches(winner(10, "v2-k1-s3-d4", 1.2), winner(30, "v2-k1-s2-d3", 1.1, same=("v2-k1-s3-d4",)))
    assert told == [(1, "v2-k1-s3-d4", (10, 30))]


def test_gain_that_is_not_shown_is_no_reason_to_switch():
    assert stretches(winner(1, "v2-k1-s3-d4", 1.2, claimed=False)) == [(1, "off", (1,))]


def test_schedule_pays_where_the_best_single_config_is_shown_to_be_worse():
    schedule = schedule_of(CHAINS, RESULTS)
    assert (str(schedule.single.config), schedule.single.loses) == ("v2-k1-s1-d2", (1, 10, 30))
    assert schedule.pays


def test_schedule_does_not_pay_where_the_single_config_cannot_be_told_from_the_winners():
    winners = (winner(1, "v2-k1-s3-d4", 1.2, tied=("v2-k1-s1-d2",)), winner(100, "v2-k1-s1-d2", 1.05))
    results = (result("v2-k1-s1-d2", c1=1.19, c100=1.05), result("v2-k1-s3-d4", c1=1.2, c100=0.9))
    assert not schedule_of(winners, results).pays


@pytest.mark.parametrize(
    ("winners", "why"),
    [
        ((winner(1, "off", claimed=False),), "no load has a gain that is shown"),
        ((winner(1, "v1-k1-s2-d3", 1.1), winner(30, "v2-k1-s2-d3", 1.1)), "switch chains of the v2 worker, and v1-k1-s2-d3 is none"),
        ((winner(1, "v2-k2-s2-d7", 1.1),), "v2-k2-s2-d7 is none"),
        ((winner(1, "v2-k1-s3-d4+arf=auto", 1.1), winner(30, "v2-k1-s2-d3", 1.1)), "differ in more than their steps"),
        ((winner(1, "v2-k1-s3-d4", 1.1),), "one config is the answer at every load"),
    ],
)  # fmt: skip
def test_schedule_that_adaptive_steps_cannot_run_says_why(winners, why):
    steps, said = steps_by_load(schedule_of(winners, ()))
    assert steps == {} and why in said


def test_file_has_a_slot_for_each_measured_load_with_its_one_step_count():
    steps, _ = steps_by_load(schedule_of(CHAINS, RESULTS))
    assert steps == {1: 0, 10: 3, 30: 3, 100: 1}
    name, text = for_release("0.5.16").schedule_file(steps)
    slots = {size: slot["candidate_steps"] for size, slot in json.loads(text).items() if size.isdigit()}
    assert (name, slots) == ("adaptive-steps.json", {"1": [0], "10": [3], "30": [3], "100": [1]})


@pytest.mark.parametrize(
    ("release", "steps", "said"),
    [
        ("0.5.9", {1: 3, 30: 1}, "has no adaptive steps; they begin at 0.5.11"),
        ("0.5.12", {1: 3, 30: 1}, "by batch size they go from 0.5.13"),
        ("0.5.13", {1: 0, 30: 1}, "a load without drafting can be had from 0.5.14"),
    ],
)
def test_release_that_cannot_switch_by_load_says_from_when_on(release, steps, said):
    with pytest.raises(UnsupportedKnob, match=said):
        for_release(release).schedule_file(steps)


def test_drafting_at_every_load_needs_no_zero_steps():
    assert json.loads(for_release("0.5.13").schedule_file({1: 3, 30: 1})[1])["30"] == {"candidate_steps": [1]}


def study(release, algorithm="EAGLE3", **args):
    from pathlib import Path

    spec = load_study(find_study("kimi-k25", here=Path.cwd()))
    engine = spec.engine.model_copy(
        update={"release": release, "patches": (), "server_args": {"attention-backend": "triton", **args}}
    )
    return spec.model_copy(update={"engine": engine, "model": spec.model.model_copy(update={"algorithm": algorithm})})


def test_flags_name_the_file_where_the_release_switches_and_it_pays():
    told = adaptive_steps(schedule_of(CHAINS, RESULTS), study("0.5.16"), for_release("0.5.16"))
    assert told.flags == ("--speculative-adaptive", "--speculative-adaptive-config", "adaptive-steps.json")
    assert str(told.start) == "v2-k1-s3-d4" and "candidate_steps" in told.text


@pytest.mark.parametrize(
    ("spec", "schedule", "why"),
    [
        (study("0.5.9"), schedule_of(CHAINS, RESULTS), "they begin at 0.5.11"),
        (study("0.5.16"), schedule_of(CHAINS, ()), "not shown to beat the best single config"),
        (study("0.5.16", "STANDALONE"), schedule_of(CHAINS, RESULTS), "would switch adaptive steps off on this deployment"),
    ],
)  # fmt: skip
def test_there_is_no_file_where_it_would_not_help(spec, schedule, why):
    told = adaptive_steps(schedule, spec, for_release(spec.engine.release))
    assert told.text == "" and why in told.why_not
