import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.contracts import PhaseResult
from search.stats.estimates import (
    Estimate,
    throughput_estimate,
    tpot_estimate,
)

RATES = st.floats(0.1, 1e5)


def result(tpot=10.0, tps=100.0, prompts=(), windows=(), ids=(), concurrency=1) -> PhaseResult:
    return PhaseResult(
        concurrency=concurrency,
        repeat=1,
        requests=10,
        output_tokens=10_000,
        duration_s=10.0,
        output_tps=tps,
        whole_run_tps=tps,
        tpot_ms=tpot,
        ttft_ms=50.0,
        prompt_tpot_ms=tuple(prompts),
        prompt_ids=tuple(ids),
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
def test_repeats_that_differ_more_widen_the_interval(value, spread):
    calm = throughput_estimate([result(tps=value), result(tps=value * 1.001)], rng=rng())
    wild = throughput_estimate([result(tps=value), result(tps=value * (1 + spread))], rng=rng())
    assert wild.hi - wild.lo > calm.hi - calm.lo


def test_equal_repeats_keep_the_width_of_a_quiet_host():
    got = tpot_estimate([result(tpot=10.0), result(tpot=10.0)], rng=rng())
    assert 0.1 < got.hi - got.lo < 0.5


def test_prompts_that_differ_widen_the_interval():
    same = tpot_estimate([result(prompts=[10.0] * 20)] * 2, rng=rng())
    mixed = tpot_estimate([result(prompts=[5.0, 15.0] * 10)] * 2, rng=rng())
    assert same.hi - same.lo < 0.5
    assert 3 < mixed.hi - mixed.lo < 6  # a standard error of 5 / sqrt(20), four of them wide


def test_more_windows_of_the_same_noise_narrow_the_interval():
    noise = 100 + 50 * rng().standard_normal(1000)
    few = throughput_estimate([result(windows=noise[:10])], rng=rng())
    many = throughput_estimate([result(windows=noise)], rng=rng())
    assert many.hi - many.lo < (few.hi - few.lo) / 3


def test_slices_that_resemble_their_neighbours_count_for_fewer():
    noise = 100 + 50 * rng().standard_normal(30)
    apart = throughput_estimate([result(windows=np.repeat(noise, 3))], rng=rng())
    mixed = throughput_estimate([result(windows=np.tile(noise, 3))], rng=rng())
    assert apart.hi - apart.lo > 1.2 * (mixed.hi - mixed.lo)


IDS = tuple(f"p{i}" for i in range(16))


def levels(draw, repeats):
    """How far each repeat of one phase is off on a host that is somewhat quieter or noisier than assumed."""
    cv = 0.01 * np.exp(0.5 * draw.standard_normal())
    return 1 + cv * draw.standard_normal(repeats)


def loaded_repeats(draw, repeats):
    """Repeats around 100 tokens/s whose slices resemble their neighbours."""
    for level in levels(draw, repeats):
        noise = 2 * draw.standard_normal(13)
        windows = 100 * level + noise[1:] + 0.5 * noise[:-1]
        yield result(tps=float(windows.mean()), windows=windows, concurrency=100)


def prompt_repeats(draw, repeats, base):
    """Repeats over prompts that take `base` ms per token."""
    for level in levels(draw, repeats):
        times = base * level * (1 + 0.02 * draw.standard_normal(len(base)))
        yield result(tpot=float(times.mean()), prompts=times, ids=IDS)


@pytest.mark.parametrize("repeats", [2, 3])
def test_intervals_hold_the_truth_about_as_often_as_promised(repeats):
    draw = rng(7)
    held = {"throughput": 0, "time per token": 0}
    for _ in range(250):
        got = throughput_estimate(list(loaded_repeats(draw, repeats)), rng=draw)
        held["throughput"] += got.lo <= 100 <= got.hi
        base = 10 * (1 + 0.2 * draw.standard_normal(16))
        got = tpot_estimate(list(prompt_repeats(draw, repeats, base)), rng=draw)
        held["time per token"] += got.lo <= 10 <= got.hi
    assert all(0.92 <= count / 250 <= 0.996 for count in held.values()), held


def test_prompts_in_another_order_are_matched_by_name():
    got = tpot_estimate(
        [result(prompts=[5.0, 15.0] * 8, ids=IDS), result(prompts=[15.0, 5.0] * 8, ids=[*IDS[1:], IDS[0]])], rng=rng()
    )
    same = tpot_estimate([result(prompts=[5.0, 15.0] * 8, ids=IDS)] * 2, rng=rng())
    assert (got.lo, got.hi) == (same.lo, same.hi)  # by place they would all be 10 ms, and tell nothing apart
