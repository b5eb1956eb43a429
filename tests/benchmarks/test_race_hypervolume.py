"""The judge's arithmetic, and the expected improvement of the plain rival."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.race.hypervolume import front, hypervolume, reference_point
from benchmarks.race.rivals.expected import expected_improvement

POINTS = st.lists(st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 500.0)), max_size=8)


def test_front_leaves_out_what_another_beats_and_sorts_by_latency():
    assert front([(4.0, 20.0), (2.0, 10.0), (3.0, 9.0), (2.0, 8.0), (4.0, 20.0)]) == [(2.0, 10.0), (4.0, 20.0)]


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([], 0.0),
        ([(2.0, 10.0)], 40.0),
        ([(2.0, 10.0), (4.0, 20.0)], 100.0),
        ([(4.0, 20.0), (2.0, 10.0), (5.0, 15.0)], 100.0),
        ([(10.0, 50.0), (1.0, 5.0)], 0.0),
    ],
    ids=["nothing", "one", "two", "a beaten one adds nothing", "no better than the reference"],
)
def test_hypervolume_is_the_area_between_the_reference_and_the_front(points, area):
    assert hypervolume(points, (10.0, 5.0)) == pytest.approx(area)


def test_reference_is_a_tenth_worse_than_the_worse_of_baseline_and_front_on_each_axis():
    assert reference_point((10.0, 100.0), [(5.0, 50.0), (8.0, 200.0)]) == pytest.approx((11.0, 45.0))


@given(points=POINTS, more=st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 500.0)))
def test_one_more_point_never_makes_the_hypervolume_smaller(points, more):
    reference = (15.0, 100.0)
    assert hypervolume([*points, more], reference) >= hypervolume(points, reference) - 1e-9


def test_expected_improvement_without_uncertainty_is_the_improvement():
    points, reference = np.array([[2.0, -10.0], [4.0, -20.0]]), np.array([10.0, -5.0])
    mean = np.array([[3.0, -15.0], [1.0, -30.0], [5.0, -15.0]])
    gains = expected_improvement(mean, np.full_like(mean, 1e-9), points, reference)
    assert gains == pytest.approx([5.0, 125.0, 0.0], abs=1e-6)


def test_expected_improvement_is_the_mean_over_draws():
    points, reference = np.array([[2.0, -10.0], [4.0, -20.0]]), np.array([10.0, -5.0])
    mean, spread = np.array([[3.5, -14.0]]), np.array([[1.5, 6.0]])
    draws = np.random.default_rng(0).normal(mean, spread, (20_000, 2))
    base = hypervolume([(2.0, 10.0), (4.0, 20.0)], (10.0, 5.0))
    seen = [hypervolume([(2.0, 10.0), (4.0, 20.0), (x, -y)], (10.0, 5.0)) - base for x, y in draws]
    (gain,) = expected_improvement(mean, spread, points, reference)
    assert gain == pytest.approx(np.mean(seen), rel=0.03)
