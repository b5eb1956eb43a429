"""What was expected of launches against what they measured: bands, one-sided misses, chances to start."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.analysis.calibration import predictions
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Evidence, Note, Outcome, Reason
from search.spec.file import parse_study
from search.storage.records import Expected, LaunchRecord

CHAIN = SpecConfig.from_id("v2-k1-s2-d3")
EXPECTED = Expected(first=(9.0, 10.0, 12.5), second=(700.0, 800.0, 900.0), feasible=0.9, enters_front=0.5, gain=0.1)


@pytest.fixture
def spec(study_text):
    return parse_study(study_text, name="x")


def launch(number=3, *, ms=10.0, tps=800.0, expected=EXPECTED, **more):
    phases = tuple(
        PhaseResult(load, 1, 16, 4096, 10.0, rate, rate, 1000 * load / rate, 50.0)
        for load, rate in ((1, None if ms is None else 1000 / ms), (100, tps))
        if rate is not None
    )
    base = LaunchRecord(
        number, "search", CHAIN, CHAIN, datetime(2026, 1, 1, tzinfo=UTC), outcome=Outcome.MEASURED, expected=expected
    )
    return replace(base, phases=phases, **more)


def failed(number, reason, config=CHAIN, **more):
    evidence = Evidence("CUDA out of memory")
    return replace(launch(number, ms=None, tps=None, **more), asked=config, outcome=reason.outcome, reason=reason,
                   evidence=evidence)  # fmt: skip


def test_both_objectives_are_compared_as_rates_the_slow_end_first(spec):
    low, high = predictions(spec, [launch(ms=8.0, tps=650.0)]).numbers
    assert (low.concurrency, high.concurrency) == (1, 100)
    assert low.expected == pytest.approx((80.0, 100.0, 1000 / 9)) and low.measured.value == pytest.approx(125.0)
    assert low.ratio == pytest.approx(1.25) and not low.held
    assert high.expected == (700.0, 800.0, 900.0) and high.ratio == pytest.approx(0.8125) and not high.held


@pytest.mark.parametrize(("tps", "held"), [(699.0, False), (700.0, True), (900.0, True), (901.0, False)])
def test_band_holds_its_ends(spec, tps, held):
    assert predictions(spec, [launch(tps=tps)]).numbers[1].held is held


def test_numbers_outside_are_named_with_what_was_expected_the_worst_first(spec):
    said = predictions(spec, [launch(3, tps=650.0), launch(4, ms=20.0)]).sentences
    assert said[0] == (
        "Of 4 numbers that the model predicted before the launch, 2 lie within its 90% band; 3.6 should."
    )
    assert said[1] == (
        "The model was wrong here: v2-k1-s2-d3 at C=1 (launch 4) measured 50.0 tok/s, where it expected 100.0 (80.0 to "
        "111.1)."
    )
    assert said[2].startswith("The model was wrong here: v2-k1-s2-d3 at C=100 (launch 3) measured 650.0 tok/s")


def test_fewer_in_their_bands_than_chance_explains_is_said(spec):
    said = predictions(spec, [launch(3, tps=650.0), launch(4, ms=20.0), launch(5, ms=20.0, tps=1000.0)]).sentences
    assert said[0] == (
        "Of 6 numbers that the model predicted before the launch, 2 lie within its 90% band; 5.4 should. That is fewer "
        "than chance explains: its bands are too narrow for this deployment."
    )


def test_bands_that_hold_as_often_as_they_should_are_not_called_narrow(spec):
    launches = [launch(n, ms=10.0 + 0.1 * (-1) ** n, tps=800.0 - 5 * (-1) ** n) for n in range(3, 13)]
    launches[0] = launch(3, tps=1000.0)
    said = predictions(spec, launches).sentences
    assert said[0].startswith("Of 20 numbers") and said[0].endswith("19 lie within its 90% band; 18.0 should.")
    assert not any("in the mean" in line for line in said)


def test_few_numbers_are_counted_without_a_verdict(spec):
    assert predictions(spec, [launch(tps=650.0)]).sentences[0].endswith("1 lies within its 90% band; 1.8 should.")


def test_one_sided_misses_are_told_although_every_band_holds(spec):
    launches = [launch(n, ms=10.0 + 0.1 * (-1) ** n, tps=720.0 + n) for n in range(3, 9)]
    said = predictions(spec, launches).sentences
    # Six ratios around 725.5 / 800.
    assert "At C=100 launches are slower than it expected, by 9.3% in the mean." in said
    assert not any("C=1 " in line for line in said)


def test_gated_launch_is_compared_at_the_load_it_measured(spec):
    (only,) = predictions(spec, [launch(tps=None, outcome=Outcome.GATED)]).numbers
    assert only.concurrency == 1 and only.held


def test_what_nobody_asked_for_or_expected_is_left_out(spec):
    other = launch(4, notes=(Note.EFFECTIVE_DIFFERS,))
    assert predictions(spec, [launch(3, expected=None), other, launch(5, outcome=None)]).numbers == ()
    assert predictions(spec, [launch(3, expected=None)]).sentences == ()


def test_starts_are_counted_against_their_chances_and_sure_ones_that_failed_are_named(spec):
    tree = SpecConfig.from_id("v1-k2-s2-d7")
    unlikely = replace(EXPECTED, feasible=0.3)
    launches = [
        launch(3),
        failed(4, Reason.OOM_GRAPH, tree),
        failed(5, Reason.OOM_GRAPH, SpecConfig.from_id("v1-k1-s1-d2"), expected=unlikely),
    ]
    said = predictions(spec, launches).sentences
    assert "Of 3 configs it expected 2.1 to give a measurement; 1 did." in said
    (named,) = [line for line in said if "was to give a measurement" in line]
    assert named == (
        "The model was wrong here: v1-k2-s2-d7 (launch 4) was to give a measurement with a chance of 90%, and did not: "
        "OOM_GRAPH."
    )


def test_failures_of_the_host_are_not_the_models_and_second_attempts_count_once(spec):
    launches = [failed(3, Reason.HOST_BUSY), launch(4), failed(5, Reason.STOPPED, SpecConfig.from_id("v1-k1-s1-d2"))]
    assert predictions(spec, launches).sentences[-1] == ("Of 1 config it expected 0.9 to give a measurement; 1 did.")
