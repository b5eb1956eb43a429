"""Configs that share starts: a common start's luck is no gain, and a place is in the interval."""

import numpy as np
import pytest

from benchmarks.coverage.shared import SharedDesign, SharedWorld, shared_tally
from search.stats.compare import compare
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter


@pytest.mark.parametrize(
    ("world", "design"),
    [
        (SharedWorld(0.02, 0.01), SharedDesign()),
        (SharedWorld(0.04, 0.01, place=0.01, slope=0.005), SharedDesign()),
        (SharedWorld(0.04, 0.01), SharedDesign(baseline=6, afresh=0)),
    ],
)
def test_studies_with_shared_starts_in_which_nothing_differs_claim_no_more_than_they_may(world, design):
    told = shared_tally(world, design, 120, np.random.default_rng(11))
    assert max(told.any_gain, told.inside, told.across, told.question, told.knob) <= 0.10
    assert told.half_inside < told.half_across


def readings(config, start, place, level=0.0, *, repeats=2, noise=0.0):
    values = [100 * np.exp(level + noise * repeat) for repeat in range(repeats)]
    return [Reading(start=start, value=float(value), place=place, repeat=n) for n, value in enumerate(values, 1)]


def study(*, slope):
    """Three own starts of the baseline, one shared start whose first config is measured again."""
    groups = {"off": [one for start in (1, 2, 3) for one in readings("off", start, 0, 0.01 * start, noise=0.001)]}
    for place, config in enumerate(("a", "b", "c", "d", "a", "e", "f", "g", "h", "i", "a")):
        mine = readings(config, 9, place, slope * place + 0.001 * (-1) ** place, noise=0.001)
        groups.setdefault(config, []).extend(mine)
    return groups


def test_comparison_across_starts_is_wider_for_what_came_at_a_later_place_and_corrected_for_it():
    groups = study(slope=0.01)
    scatter = pooled_scatter(groups)
    first = compare(readings("x", 9, 0), groups["off"], scatter)
    later = compare(readings("x", 9, 8, 0.08), groups["off"], scatter)
    assert scatter.slope == pytest.approx(0.01, rel=0.1)
    assert later.variance > first.variance
    assert later.log_ratio == pytest.approx(first.log_ratio, abs=0.01)


def test_anchor_is_one_start_however_often_it_was_measured():
    groups = study(slope=0.0)
    told = compare(groups["a"], groups["off"], pooled_scatter(groups))
    assert told.starts == (1, 3)
