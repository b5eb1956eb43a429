from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.contracts import PhaseResult
from search.stats.estimates import (
    Estimate,
    prompts_to_tell,
    rate_of,
    ratio,
    repeat_doubt,
    separable,
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
    held = {"throughput": 0, "time per token": 0, "ratio": 0}
    for _ in range(250):
        got = throughput_estimate(list(loaded_repeats(draw, repeats)), rng=draw)
        held["throughput"] += got.lo <= 100 <= got.hi
        base = 10 * (1 + 0.2 * draw.standard_normal(16))
        got = tpot_estimate(list(prompt_repeats(draw, repeats, base)), rng=draw)
        held["time per token"] += got.lo <= 10 <= got.hi
        other = base * 0.9 * (1 + 0.05 * draw.standard_normal(16))
        got = ratio(tpot_estimate(list(prompt_repeats(draw, repeats, other)), rng=draw), got)
        held["ratio"] += got.lo <= 0.9 <= got.hi
    assert all(0.92 <= count / 250 <= 0.996 for count in held.values()), held


def test_prompts_that_differ_drop_out_of_a_paired_ratio():
    base = [5.0, 15.0] * 8
    slow = tpot_estimate([result(tpot=10.0, prompts=base, ids=IDS)] * 2, rng=rng())
    fast = tpot_estimate([result(tpot=9.0, prompts=[0.9 * ms for ms in base], ids=IDS)] * 2, rng=rng())
    nameless = tpot_estimate([result(tpot=10.0, prompts=base)] * 2, rng=rng())
    assert slow.hi - slow.lo > 5  # alone, either may be off by a quarter
    told = ratio(slow, fast)
    assert told.value == pytest.approx(10 / 9) and 1.07 < told.lo < told.hi < 1.16
    assert separable(slow, fast) is True and separable(nameless, fast) is False
    rates = ratio(rate_of(slow), rate_of(fast))
    assert rates.value == pytest.approx(0.9) and rates.lo == pytest.approx(1 / told.hi, rel=1e-3)


def test_only_shared_prompts_are_paired():
    mine = tpot_estimate([result(tpot=12.5, prompts=[10.0, 10.0, 20.0, 10.0], ids="abcd")] * 2, rng=rng())
    theirs = tpot_estimate([result(tpot=10.0, prompts=[10.0, 10.0, 10.0], ids="bdx")] * 2, rng=rng())
    assert ratio(mine, theirs).value == 1.0
    strangers = tpot_estimate([result(tpot=5.0, prompts=[5.0, 5.0], ids="yz")] * 2, rng=rng())
    assert ratio(mine, strangers).value == 2.5


def test_answers_that_came_in_one_piece_are_not_paired():
    hasty = tpot_estimate([result(tpot=10.0, prompts=[0.0, 20.0], ids="ab")] * 2, rng=rng())
    assert ratio(hasty, hasty).value == 1.0 and separable(hasty, hasty) is False


def test_prompts_in_another_order_are_matched_by_name():
    got = tpot_estimate(
        [result(prompts=[5.0, 15.0] * 8, ids=IDS), result(prompts=[15.0, 5.0] * 8, ids=[*IDS[1:], IDS[0]])], rng=rng()
    )
    assert got.prompts.ms == (5.0, 15.0) * 8


def test_ratio_of_independent_estimates_adds_the_facing_doubts_in_squares():
    told = ratio(Estimate(120, 114, 126), Estimate(100, 95, 105))
    assert (told.value, round(told.lo, 3), round(told.hi, 3)) == (1.2, 1.118, 1.288)
    assert ratio(Estimate(120), Estimate(100, 95, 105)) == Estimate(1.2)
    assert ratio(Estimate(1, 0, 2), Estimate(1, 0.9, 1.1)).lo == 0


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


def at(concurrency, value):
    return result(tpot=value, tps=value, concurrency=concurrency)


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ((10.0, 10.0), 0.01837),  # the assumed 1%: sqrt(2 / 3) of it, Student's t of 3, by sqrt(2)
        ((10.0, 12.0), 0.16804),
        ((10.0, 12.0, 11.0, 11.0), 0.07434),
    ],
)
def test_doubt_that_repeats_can_lower_is_that_of_their_spread_at_concurrency_1(values, doubt):
    prompts = [replace(at(1, value), prompt_tpot_ms=(1.0, 50.0), prompt_ids=("a", "b")) for value in values]
    assert repeat_doubt(prompts) == pytest.approx(doubt, rel=0.001)  # however much prompts differ


def test_doubt_that_repeats_can_lower_is_half_the_interval_at_a_load():
    repeats = [at(100, 900.0), at(100, 1000.0)]
    told = throughput_estimate(repeats, rng=rng())
    assert repeat_doubt(repeats) == pytest.approx((told.hi - told.lo) / 2 / 950, rel=0.1)


def test_single_repeat_does_not_tell_its_doubt():
    assert repeat_doubt([at(1, 10.0)]) is None and repeat_doubt([at(100, 10.0)]) is None


def alike(prompts, *, gain, spread, repeats_off=0.0, seed=0):
    """Two configs on the same prompts: the second faster by `gain`, each prompt's gain spread by `spread`."""
    draw = rng(seed)
    base = draw.uniform(8.0, 12.0, prompts)
    other = base / (1 + gain) * (1 + spread * draw.standard_normal(prompts))
    names = [f"p{place}" for place in range(prompts)]
    return [
        rate_of(
            tpot_estimate(
                [result(tpot=times.mean() * off, prompts=times * off, ids=names) for off in (1.0, 1.0 + repeats_off)],
                rng=rng(),
            )
        )
        for times in (other, base)
    ]


def test_as_many_prompts_as_it_takes_are_told_and_do_tell():
    faster, slower = alike(16, gain=0.10, spread=0.30, seed=3)
    assert separable(faster, slower) is False
    needed = prompts_to_tell(faster, slower)
    # 0.30 per prompt against a gap of log 1.1 at two standard errors, less the assumed spread of repeats: some 40 to 60
    # for the 10% that the sample of 16 should show; it shows another gap, which is what the answer goes by.
    gap, room = np.log(ratio(faster, slower).value), 2 * faster.prompts.level_se**2
    assert needed == pytest.approx(0.30**2 / ((gap / 1.96) ** 2 - room), rel=0.5)
    many = [separable(*alike(400, gain=0.10, spread=0.30, seed=seed)) for seed in range(20)]
    few = [separable(*alike(12, gain=0.10, spread=0.30, seed=seed)) for seed in range(20)]
    assert sum(many) > 18 and sum(few) < 10


def test_gain_that_is_told_needs_no_prompts():
    assert prompts_to_tell(*alike(16, gain=0.30, spread=0.02)) is None


def test_gain_that_repeats_hide_is_not_promised_to_more_prompts():
    assert prompts_to_tell(*alike(16, gain=0.03, spread=0.02, repeats_off=0.3)) is None


def test_estimates_without_shared_prompts_say_nothing_of_them():
    assert prompts_to_tell(Estimate(100.0, 90.0, 110.0), Estimate(99.0, 90.0, 108.0)) is None
