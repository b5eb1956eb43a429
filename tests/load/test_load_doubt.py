import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.contracts import PhaseResult
from search.load import Estimate, accept_drift, separable, throughput_estimate, tpot_estimate

RATES = st.floats(0.1, 1e5)


def result(tpot=10.0, tps=100.0, prompts=(), windows=(), tokens=10_000, accept=None, concurrency=1) -> PhaseResult:
    return PhaseResult(
        concurrency=concurrency,
        repeat=1,
        requests=10,
        output_tokens=tokens,
        duration_s=10.0,
        output_tps=tps,
        whole_run_tps=tps,
        tpot_ms=tpot,
        ttft_ms=50.0,
        accept_length=accept,
        prompt_tpot_ms=tuple(prompts),
        window_tps=tuple(windows),
    )


def rng(seed=0):
    return np.random.default_rng(seed)


@given(st.lists(RATES, min_size=2, max_size=5), st.lists(RATES, max_size=30), st.integers(0, 2**32))
def test_interval_holds_the_value_and_repeats_with_the_seed(values, samples, seed):
    for estimate, repeats in (
        (tpot_estimate, [result(tpot=v, prompts=samples) for v in values]),
        (throughput_estimate, [result(tps=v, windows=samples) for v in values]),
    ):
        got = estimate(repeats, rng=rng(seed))
        assert got.value == pytest.approx(np.mean(values))
        assert 0 <= got.lo <= got.value <= got.hi
        assert got == estimate(repeats, rng=rng(seed))


@given(RATES)
def test_single_repeat_without_samples_has_no_interval(value):
    assert tpot_estimate([result(tpot=value)], rng=rng()) == Estimate(value, None, None)
    assert throughput_estimate([result(tps=value)], rng=rng()) == Estimate(value, None, None)


def test_no_repeat_is_refused():
    with pytest.raises(ValueError, match="at least one repeat"):
        tpot_estimate([], rng=rng())


@given(st.floats(1, 1e4), st.floats(0.05, 0.5))
def test_repeats_that_differ_more_are_doubted_more(value, spread):
    calm = throughput_estimate([result(tps=value), result(tps=value * 1.001)], rng=rng())
    wild = throughput_estimate([result(tps=value), result(tps=value * (1 + spread))], rng=rng())
    assert wild.hi - wild.lo > calm.hi - calm.lo


def test_equal_repeats_are_still_doubted_as_a_quiet_host_would():
    got = tpot_estimate([result(tpot=10.0), result(tpot=10.0)], rng=rng())
    assert 0.1 < got.hi - got.lo < 0.5


def test_prompts_that_differ_widen_the_interval():
    same = tpot_estimate([result(prompts=[10.0] * 20)] * 2, rng=rng())
    mixed = tpot_estimate([result(prompts=[5.0, 15.0] * 10)] * 2, rng=rng())
    assert same.hi - same.lo < 0.5
    assert 3 < mixed.hi - mixed.lo < 6  # a standard error of 5 / sqrt(20), four of them wide


def test_more_windows_of_the_same_noise_narrow_the_interval():
    few = throughput_estimate([result(windows=[50.0, 150.0] * 5)], rng=rng())
    many = throughput_estimate([result(windows=[50.0, 150.0] * 500)], rng=rng())
    assert many.hi - many.lo < few.hi - few.lo


def test_intervals_hold_the_truth_about_as_often_as_promised():
    draw = rng(7)
    held = 0
    for _ in range(200):
        repeats = []
        for _ in range(2):
            level = 100 * (1 + 0.01 * draw.standard_normal())
            windows = level + 2 * draw.standard_normal(10)
            repeats.append(result(tps=float(windows.mean()), windows=windows.tolist()))
        got = throughput_estimate(repeats, rng=draw)
        held += got.lo <= 100 <= got.hi
    assert held / 200 >= 0.92


@given(RATES, RATES)
def test_estimates_without_doubt_are_neither_equal_nor_different(a, b):
    assert separable(Estimate(a), Estimate(b)) is None


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        (Estimate(10, 9, 11), Estimate(14, 13, 15), True),
        (Estimate(14, 13, 15), Estimate(10, 9, 11), True),
        (Estimate(10, 9, 11), Estimate(11, 10, 12), False),
        (Estimate(10, 9, 11), Estimate(11.5, 10.5, 12.5), True),  # 1.5 against sqrt(2)
        (Estimate(10, 9, 11), Estimate(10, 9, 11), False),
        (Estimate(10, None, None), Estimate(20, 19, 21), None),
    ],
)
def test_estimates_differ_when_the_gap_exceeds_the_facing_doubts(a, b, differ):
    assert separable(a, b) is differ


@pytest.mark.parametrize(
    ("c1", "loaded", "tokens", "drifted"),
    [
        (2.37, 1.15, 10_000, True),
        (2.6, 1.26, 10_000, True),
        (2.4, 2.3, 10_000, False),
        (2.4, 3.0, 10_000, False),
        (2.37, 1.15, 300, False),  # too few verify passes at C=1
        (None, 1.15, 10_000, False),
        (2.37, None, 10_000, False),
    ],
)
def test_accept_drift_needs_a_large_fall_of_enough_passes(c1, loaded, tokens, drifted):
    assert accept_drift(result(accept=c1, tokens=tokens), result(accept=loaded, concurrency=100)) is drifted
