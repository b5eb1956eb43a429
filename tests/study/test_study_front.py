"""Who is on the front: equal ones together, lossy ones never."""

from dataclasses import replace
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.analysis.findings import ConfigResult
from search.analysis.gains import by_score
from search.analysis.results import pareto_front
from search.config import SpecConfig
from search.metrics import DEFAULTS
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck


def result(steps, ms, tps, *, verdict="", score=nan):
    config = SpecConfig("v2", 1, steps, steps + 1) if steps else SpecConfig("off")
    checks = (OutputCheck(1, verdict, "so"),) if verdict else ()
    values = (Estimate(ms), Estimate(tps))
    return ConfigResult(config, {}, values, score, (steps + 1,), confirmed=False, notes=(), lossless=checks)


def ids(results):
    return [one.config.config_id for one in results]


def test_configs_with_equal_values_are_all_on_the_front():
    equal = [result(1, 10.0, 700.0), result(2, 10.0, 700.0), result(3, 10.0, 700.0)]
    assert ids(pareto_front(DEFAULTS, [result(0, 11.0, 600.0), *equal])) == ids(equal)


def test_config_that_is_equal_in_one_value_and_worse_in_the_other_is_not():
    best = result(1, 10.0, 700.0)
    assert ids(pareto_front(DEFAULTS, [best, result(2, 10.0, 690.0), result(3, 10.5, 700.0)])) == ids([best])


@pytest.mark.parametrize("verdict", ["lossy", "garbage"])
def test_lossy_config_is_not_on_the_front_and_stands_last_however_fast(verdict):
    plain, fast = result(0, 11.0, 600.0, score=1.0), result(1, 1.0, 9000.0, verdict=verdict, score=15.0)
    assert ids(pareto_front(DEFAULTS, [plain, fast])) == ["off"]
    assert ids(by_score([fast, plain])) == ids([plain, fast])


@pytest.mark.parametrize("verdict", ["lossless", "not judged"])
def test_config_that_was_not_found_lossy_is_ranked(verdict):
    plain, fast = result(0, 11.0, 600.0, score=1.0), result(1, 1.0, 9000.0, verdict=verdict, score=15.0)
    assert ids(pareto_front(DEFAULTS, [plain, fast])) == ids(by_score([plain, fast]))[:1] == ids([fast])


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=12))
def test_front_holds_exactly_what_no_other_is_better_than(values):
    everything = [result(steps, float(ms), float(tps)) for steps, (ms, tps) in enumerate(values)]

    def beaten(one):
        mine = (one.values[0].value, -one.values[1].value)
        others = [(other.values[0].value, -other.values[1].value) for other in everything]
        return any(other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in others)

    assert set(ids(pareto_front(DEFAULTS, everything))) == {
        one.config.config_id for one in everything if not beaten(one)
    }


def test_confirmed_ones_with_equal_values_are_all_on_the_front():
    def confirmed(one):
        return replace(one, confirmed=True, searched=one)

    equal = [confirmed(result(1, 10.0, 700.0)), confirmed(result(2, 10.0, 700.0))]
    assert ids(pareto_front(DEFAULTS, [*equal, result(0, 11.0, 600.0)])) == ids(equal)
