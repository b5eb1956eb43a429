"""What has no ratio: a goodput of 0, a rate of 0, answers that are not the baseline's."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.analysis.analyse import judge
from search.analysis.findings import PredictedValue
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.metrics import METRICS
from search.outcomes import Outcome
from search.spec.file import parse_study
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck
from search.stats.repeats import outliers, repeat_notes
from search.storage.records import LaunchRecord

TEXT = """\
study: nothing
model: {target: a/b, draft: c/d, algorithm: EAGLE3}
hardware: {gpus: 1, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine: {release: 0.5.11}
space: {spec_version: [v1, v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree], allreduce_fusion: ["off"]}
watch: []
"""
GOOD = "objectives: [{metric: ttft_p99_ms, at: 1}, {metric: goodput, at: 30}]\nmeasure: {limits: {ttft_ms: 700}}\n"
USUAL = "objectives: {latency: 1, throughput: 30}\n"
CHAIN, TREE = "v2-k1-s2-d3", "v1-k2-s2-d7"
SPREAD = (1.0, 1.01, 0.99)
"""Of three starts of a config."""


def phase(load, *, rate=100.0, repeat=1, **more):
    tpot = 1000 * load / rate if rate else None
    base = PhaseResult(load, repeat, 16, 4096, 10.0, rate, rate, tpot, 50.0)
    return replace(base, ttft_p99_ms=60.0, **more)


def launch(number, config_id, phases, **more):
    config, at = SpecConfig.from_id(config_id), datetime(2026, 1, 1, tzinfo=UTC)
    return LaunchRecord(number, "known", config, config, at, outcome=Outcome.MEASURED, phases=tuple(phases), **more)


def studied(goodput, starts=3):
    """Starts of each config with a share of its requests within the limits."""
    found = []
    for turn in range(starts):
        for config_id, share in goodput.items():
            phases = [phase(load, repeat=r, goodput=share * SPREAD[turn]) for load in (1, 30) for r in (1, 2)]
            found.append(launch(len(found) + 1, config_id, phases))
    return found


def at_goodput(judged):
    return next(one for one in judged.objective_winners if one.objective.metric.name == "goodput")


def test_gain_over_a_baseline_of_no_goodput_is_unknown_and_so_is_the_score():
    judged = judge(parse_study(TEXT + GOOD, name="x"), studied({"off": 0.0, CHAIN: 0.6}))
    score = {one.config.config_id: (one.score, one.score_ci) for one in judged.results}
    assert score["off"][0] == 1.0
    assert score[CHAIN][1] is None and score[CHAIN][0] != score[CHAIN][0]  # not 17.3, the root of 0.6 / 0.002
    told = at_goodput(judged)
    assert told.config.config_id == CHAIN and told.gain is None and not told.ahead
    assert (told.value.value, told.baseline_value.value) == (pytest.approx(0.6, rel=0.02), 0.0)
    line = next(line for line in judged.headlines if line.startswith("Share of requests"))
    assert line.endswith(", where off has 0.0%.") and "better" not in line


def test_goodput_of_nothing_is_worse_than_a_baseline_that_has_some_by_no_number():
    judged = judge(parse_study(TEXT + GOOD, name="x"), studied({"off": 0.6, CHAIN: 0.0, TREE: 0.9}))
    told, by_id = at_goodput(judged), {one.config.config_id: one for one in judged.results}
    assert told.config.config_id == TREE and told.gain.value == pytest.approx(1.5)
    assert by_id[CHAIN].score_ci is None and by_id[TREE].score == pytest.approx(1.5**0.5)
    assert [one.config.config_id for one in judged.results][-1] == CHAIN


def test_knob_is_worth_no_number_where_one_side_is_nothing():
    judged = judge(parse_study(TEXT + GOOD, name="x"), studied({"off": 0.6, CHAIN: 0.0, TREE: 0.9}))
    assert judged.knobs and all(0.9 < one.gain.value < 1.6 for one in judged.knobs)  # not 0.9 / 0.002


def test_rate_of_nothing_ends_no_judgement():
    launches = [
        launch(n, config, [phase(1, repeat=r) for r in (1, 2)] + [phase(30, rate=0.0, repeat=r) for r in (1, 2, 3)])
        for n, config in enumerate(["off", CHAIN] * 3, 1)
    ]
    judged = judge(parse_study(TEXT + USUAL, name="x"), launches)
    assert not any(winner.claimed for winner in judged.winners)
    nothing = [phase(30, rate=0.0, repeat=r) for r in (1, 2, 3)]
    assert repeat_notes(nothing) == () and outliers([0.0, 0.0, 5.0]) == ()


def test_prediction_of_nothing_has_no_ratio():
    told = PredictedValue(1, SpecConfig("off"), 30, METRICS["goodput"], (0.0, 0.0, 0.5), Estimate(0.4))
    assert told.ratio is None and told.held


LOSSY = (OutputCheck(30, "lossy", "the answers are others"),)
QUESTIONS = """\
questions:
  wide: {knob: topk, value: 2, against: [1], at: [30]}
  pair: {config: v1-k2-s2-d7, against: [v2-k1-s2-d3], at: [30]}
"""


def asked(lossless):
    rates = {"off": 100.0, CHAIN: 110.0, TREE: 150.0}
    launches = [
        launch(
            len(rates) * turn + place, config_id,
            [phase(load, rate=rate * SPREAD[turn], repeat=r) for load in (1, 30) for r in (1, 2)],
            lossless=lossless if config_id == TREE else (),
        )
        for turn in range(3)
        for place, (config_id, rate) in enumerate(rates.items(), 1)
    ]  # fmt: skip
    return judge(parse_study(TEXT + USUAL + QUESTIONS, name="x"), launches)


def test_question_about_a_lossy_config_is_not_measured_and_quotes_no_gain():
    wide, pair = asked(LOSSY).verdicts
    assert {wide.verdict, pair.verdict} == {"not measured"}
    assert not any("%" in one.text for one in (wide, pair))
    assert f"({TREE}) has lossy answers: it takes part in no comparison" in wide.text
    assert f"the answers of {TREE} are lossy: it takes part in no comparison" in pair.text


def test_question_about_the_same_config_without_loss_is_answered():
    for one in asked(()).verdicts:
        assert one.verdict == "supported" and "+36" in one.text


RATES = st.sampled_from([0.0, 1e-9, 0.5, 100.0, 1e12])
SHARES = st.sampled_from([None, 0.0, 0.001, 0.5, 1.0])


@st.composite
def absurd_studies(draw):
    """Up to six starts of three configs with rates and goodputs from nothing to absurd."""
    launches = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        stage = draw(st.sampled_from(["known", "search", "confirm", "closing"]))
        phases = [
            phase(load, rate=draw(RATES), repeat=repeat, goodput=draw(SHARES), window_tps=(draw(RATES), draw(RATES)))
            for load in (1, 30)
            for repeat in range(1, draw(st.integers(1, 3)) + 1)
        ]
        launches.append(replace(launch(number, draw(st.sampled_from(["off", CHAIN, TREE])), phases), stage=stage))
    return launches


@pytest.mark.parametrize("objectives", [GOOD, USUAL])
@settings(max_examples=60)
@given(launches=absurd_studies())
def test_whatever_was_measured_is_judged_and_what_is_told_of_it_is_finite(objectives, launches):
    judged = judge(parse_study(TEXT + objectives + QUESTIONS, name="x"), launches)
    gains = [gain for one in judged.results for gain in one.gains.values()]
    gains += [one.gain for one in (*judged.winners, *judged.knobs)]
    gains += [one.gain for one in judged.objective_winners if one.gain is not None]
    ends = [end for gain in gains for end in (gain.value, gain.lo, gain.hi) if end is not None]
    assert all(math.isfinite(end) and end > 0 for end in ends)
    assert all(one.score_ci is None or math.isfinite(one.score_ci.value) for one in judged.results)
    assert not any(word in line for line in (*judged.headlines, *judged.remarks) for word in ("nan", "inf%", "[inf"))
