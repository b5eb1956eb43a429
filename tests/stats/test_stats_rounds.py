"""Rounds in turn: a drift leaves the estimate alone, intervals hold, and what can be seen is seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.errors import UsageError
from search.stats.rounds import alternated, order_of


def drawn(rng, rounds, *, gap=0.0, drift=0.0, noise=0.01):
    found = {"a": [], "b": []}
    for place, letter in enumerate(order_of(rounds)):
        value = gap * (letter == "b") + drift * place + rng.normal(0, noise)
        found[letter].append(float(100 * np.exp(value)))
    return alternated(found["a"], found["b"])


@given(st.sampled_from([4, 6, 10]), st.floats(-0.3, 0.3), st.floats(-0.05, 0.05))
def test_steady_drift_leaves_the_difference_alone(rounds, gap, drift):
    told = drawn(np.random.default_rng(0), rounds, gap=gap, drift=drift, noise=0.0)
    assert told.ratio == pytest.approx(np.exp(gap), rel=1e-9)
    assert told.smallest == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_intervals_hold_and_equal_shapes_differ_in_a_twentieth(drift):
    rng = np.random.default_rng(7)
    held = sum(one.lo <= 1 <= one.hi for one in (drawn(rng, 10, drift=drift) for _ in range(1500)))
    assert 0.93 <= held / 1500 <= 0.97


def test_smallest_difference_is_shown_four_times_in_five():
    rng = np.random.default_rng(8)
    smallest = np.median([drawn(rng, 10).smallest for _ in range(500)])
    shown = sum(one.lo > 1 for one in (drawn(rng, 10, gap=float(np.log1p(smallest))) for _ in range(1000)))
    assert 0.72 <= shown / 1000 <= 0.88


@pytest.mark.parametrize("rounds", [0, 2, 5])
def test_odd_or_few_rounds_are_refused(rounds):
    with pytest.raises(UsageError, match="even number from 4"):
        order_of(rounds)
