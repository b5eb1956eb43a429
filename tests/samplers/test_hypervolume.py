"""Hypervolume in two dimensions, and its expected growth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.samplers.hypervolume import expected_improvement, expected_improvement_lognormal, front_of, hypervolume

ZERO = np.zeros(2)
points_in_square = st.lists(st.tuples(st.floats(-0.5, 1.0), st.floats(-0.5, 1.0)), min_size=1, max_size=8)


def test_two_crossing_rectangles_count_their_overlap_once():
    assert hypervolume(np.array([(2.0, 1.0), (1.0, 3.0)]), ZERO) == 4.0


def test_points_behind_the_reference_count_nothing():
    assert hypervolume(np.array([(2.0, -1.0), (-1.0, 3.0)]), ZERO) == 0.0


def test_front_leaves_out_dominated_and_repeated_points():
    assert front_of(np.array([(1.0, 3.0), (2.0, 1.0), (1.0, 2.0), (2.0, 1.0)])).tolist() == [1, 0]


def test_without_uncertainty_the_expected_growth_is_the_growth():
    front = np.array([(2.0, 1.0), (1.0, 3.0)])
    gain = expected_improvement(front, ZERO, np.array([(1.5, 2.0), (0.5, 0.5)]), np.full((2, 2), 1e-9))
    assert gain == pytest.approx([0.5, 0.0], abs=1e-6)


def test_beyond_an_empty_front_the_growth_is_a_product_of_two_excesses():
    # E[max(0, X)] of a standard Gaussian is 1 / sqrt(2 pi) = 0.398942.
    gain = expected_improvement(np.zeros((0, 2)), ZERO, np.zeros((1, 2)), np.ones((1, 2)))
    assert gain[0] == pytest.approx(0.159155, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(points_in_square, st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)), st.floats(0.05, 0.5))
def test_expected_growth_agrees_with_sampling(points, mean, sd):
    front = np.array(points)
    exact = expected_improvement(front, ZERO, np.array([mean]), np.full((1, 2), sd))[0]
    draws = np.array(mean) + sd * np.random.default_rng(0).standard_normal((3000, 2))
    before = hypervolume(front, ZERO)
    sampled = [hypervolume(np.vstack([front, draw]), ZERO) - before for draw in draws]
    assert exact == pytest.approx(np.mean(sampled), abs=6 * np.std(sampled) / 3000**0.5 + 1e-3)


@given(points_in_square, st.tuples(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5)), st.floats(0.05, 0.5))
def test_more_front_never_leaves_more_to_gain(points, mean, sd):
    front = np.array(points)
    spread = np.full((1, 2), sd)
    all_of_it = expected_improvement(front, ZERO, np.array([mean]), spread)[0]
    half = expected_improvement(front[: len(front) // 2], ZERO, np.array([mean]), spread)[0]
    assert all_of_it <= half + 1e-9


def test_lognormal_growth_agrees_with_sampling():
    front, reference = np.array([(-9.0, 900.0), (-12.0, 1100.0)]), np.array([-14.0, 700.0])
    mean, sd = np.log([[10.0, 1050.0]]), np.array([[0.1, 0.2]])
    exact = expected_improvement_lognormal(front, reference, mean, sd)[0]
    draws = np.exp(mean + sd * np.random.default_rng(0).standard_normal((20_000, 2))) * np.array([-1.0, 1.0])
    sampled = [hypervolume(np.vstack([front, draw]), reference) - hypervolume(front, reference) for draw in draws]
    assert exact == pytest.approx(np.mean(sampled), rel=0.03)


def test_lognormal_growth_without_uncertainty_is_the_growth():
    # From a rate of 700 to 1000 tok/s, and from 14 down to 10 ms: 4 times 300.
    empty = np.zeros((0, 2))
    gain = expected_improvement_lognormal(
        empty, np.array([-14.0, 700.0]), np.log([[10.0, 1000.0]]), np.full((1, 2), 1e-9)
    )
    assert gain[0] == pytest.approx(1200.0)
