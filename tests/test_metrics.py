"""Metrics and objectives: values of a phase, ratios whichever way is better, one rate of a load."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from search.contracts import PhaseResult
from search.metrics import (
    DEFAULTS,
    METRICS,
    Direction,
    Metric,
    Objective,
    fields_beside,
    gain_percent,
    mean_rate,
    pace_ms,
    pace_of,
    rate_tps,
    values_of,
)
from search.spec.objectives import ObjectiveSpec

VALUES = st.floats(0.01, 1e6)
METRIC = st.sampled_from(list(METRICS.values()))


def phase(concurrency=1, *, tpot_ms=10.0, output_tps=90.0, **more):
    return PhaseResult(concurrency, 1, 16, 4096, 60.0, output_tps, 80.0, tpot_ms, 50.0, **more)


@given(METRIC, VALUES, VALUES)
def test_ratio_is_above_one_exactly_where_the_first_is_better(metric, a, b):
    assume(not math.isclose(a, b))
    better = a < b if metric.direction is Direction.MINIMIZE else a > b
    assert (metric.ratio(a, b) > 1) is better


@given(METRIC, VALUES, VALUES, VALUES)
def test_ratios_chain_and_turn_round(metric, a, b, c):
    assert metric.ratio(a, b) * metric.ratio(b, a) == pytest.approx(1.0)
    assert metric.ratio(a, b) * metric.ratio(b, c) == pytest.approx(metric.ratio(a, c))


@given(METRIC, VALUES, st.floats(0.001, 0.5))
def test_worsened_value_is_worse_by_about_its_share(metric, value, share):
    objective = Objective(metric, 1)
    ratio = objective.better(objective.worsened(value, share), value)
    assert ratio == pytest.approx(1 / (1 + share) if metric.direction is Direction.MINIMIZE else 1 - share)
    assert objective.worst([value, objective.worsened(value, share)]) == objective.worsened(value, share)


@pytest.mark.parametrize("pair", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (METRICS["goodput"].floor, 0.5)])
def test_share_of_nothing_has_no_ratio(pair):
    assert METRICS["goodput"].ratio(*pair) is None


@given(st.integers(1, 4000), st.floats(0.1, 1e4))
def test_pace_and_rate_of_a_load_are_each_others_inverse(concurrency, tps):
    at = phase(concurrency, tpot_ms=None, output_tps=tps)
    assert pace_of(pace_ms(at), concurrency) == pytest.approx(rate_tps(at)) == pytest.approx(tps)


def test_rate_of_a_load_is_the_time_per_token_alone_and_the_window_above():
    assert rate_tps(phase(1)) == mean_rate([phase(1)]) == 100.0
    assert rate_tps(phase(30)) == mean_rate([phase(30)]) == 90.0
    assert rate_tps(phase(1, tpot_ms=None)) == mean_rate([phase(1, tpot_ms=None)]) == 90.0


@given(st.sampled_from([("tpot_ms", 1), ("user_tps", 1), ("output_tps", 30)]), st.floats(1.0, 100.0))
def test_objective_with_a_link_is_the_pace_in_other_units(named, tpot_ms):
    name, concurrency = named
    objective = Objective(METRICS[name], concurrency)
    assert objective.link is not None
    at = phase(concurrency, tpot_ms=tpot_ms, output_tps=1000.0 * concurrency / tpot_ms)
    scale, power = objective.link
    assert scale * pace_ms(at) ** power == pytest.approx(objective.of(at))


def test_objective_tells_nothing_of_another_concurrency_and_of_what_was_not_told():
    objective = Objective(METRICS["ttft_p99_ms"], 1)
    assert objective.name == "c1_ttft_p99_ms"
    assert objective.of(phase(30, ttft_p99_ms=80.0)) is None
    assert objective.of(phase(1)) is None
    assert objective.mean([phase(1), phase(1, ttft_p99_ms=80.0), phase(1, ttft_p99_ms=90.0)]) == 85.0
    assert values_of((objective, DEFAULTS[1]), [phase(1, ttft_p99_ms=80.0)]) is None


def test_metrics_per_user_and_per_gpu_follow_from_the_phase():
    assert METRICS["user_tps"].of(phase(30, tpot_ms=20.0)) == 50.0
    assert METRICS["tps_per_gpu"].of(phase(100, output_tps=800.0, gpus=8)) == 100.0
    assert METRICS["tps_per_gpu"].of(phase(100)) is None


def test_recording_keeps_columns_for_what_its_objectives_read():
    assert fields_beside(DEFAULTS) == ()
    assert fields_beside((Objective(METRICS["ttft_p99_ms"], 1), Objective(METRICS["goodput"], 30))) == (
        "ttft_p99_ms",
        "goodput",
    )


def test_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(ValidationError, match=r"should be 'tpot_ms', .*input_value='speed'"):
        ObjectiveSpec(metric="speed", at=1)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_every_metric_reads_only_fields_of_a_phase_and_keeps_its_own_name(metric: Metric):
    assert METRICS[metric.name] is metric
    assert set(metric.fields) <= set(PhaseResult.__slots__)


@pytest.mark.parametrize(("ratio", "text"), [(1.101, "+10.1%"), (0.936, "-6.4%"), (0.99999, "+0.0%"), (2.25, "+125%")])
def test_gain_becomes_a_percentage_where_it_is_printed(ratio, text):
    assert gain_percent(ratio) == text
