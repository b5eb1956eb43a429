"""The ratio of two servers' batches, and its interval."""

from random import Random

import pytest

from benchmarks.shapes.batches import ratio_of


def test_interval_holds_the_true_ratio_as_often_as_it_says():
    rng = Random(1)
    hits = 0
    for _ in range(1000):
        ours = [103 * (1 + 0.02 * rng.gauss(0, 1)) for _ in range(6)]
        theirs = [100 * (1 + 0.04 * rng.gauss(0, 1)) for _ in range(4)]
        ratio = ratio_of(ours, theirs)
        hits += ratio.low <= 1.03 <= ratio.high
    assert 930 <= hits <= 975


def test_ratio_of_equal_values_is_certain():
    ratio = ratio_of([2.0, 2.0], [1.0, 1.0, 1.0])
    assert (ratio.value, ratio.low, ratio.high, ratio.half_width) == (2.0, 2.0, 2.0, 0.0)


def test_half_width_is_what_three_per_cent_mean():
    ratio = ratio_of([99.0, 101.0, 100.0], [99.0, 101.0, 100.0])
    assert ratio.value == pytest.approx(1.0)
    assert ratio.high == pytest.approx(1 / ratio.low)
    assert ratio.half_width == pytest.approx(0.0227, abs=0.0005)


def test_ratio_is_unknown_with_one_value():
    assert ratio_of([1.0], [1.0, 2.0]) is None
