"""Tables beside one another: what is told of a true change, of none, and where it came in."""

import numpy as np
import pytest

from search.analysis.compared import compared
from search.analysis.side import Side
from search.config import SpecConfig
from search.stats.readings import Reading

OFF, CHAIN, TREE = map(SpecConfig.from_id, ("off", "v2-k1-s2-d3", "v1-k2-s2-d7"))
TRUTH = {OFF: 700.0, CHAIN: 770.0, TREE: 500.0}


def side(name, truth, *, pace=1.0, starts=5, scatter=0.01, seed=0, host=None, first=0, loads=(100,)):
    """A table of configs that each were started several times; at concurrency 1 in time per token."""
    rng = np.random.default_rng(seed)
    readings = {}
    for load in loads:
        for place, (config, value) in enumerate(truth.items()):
            rate = value * pace * np.exp(scatter * rng.standard_normal(starts))
            readings.setdefault(load, {})[config] = tuple(
                Reading(
                    first + 100 * place + start, 1000.0 / told if load == 1 else told,
                    slot=host or name, prompt_set="same",
                )
                for start, told in enumerate(rate)
            )  # fmt: skip
    return Side(name, "", {}, readings)


def words(pair):
    return {(change.config, change.concurrency): change.word for change in pair.changes}


@pytest.mark.parametrize("load", [1, 100])
def test_gain_that_fell_on_a_faster_host_is_worse_and_its_speed_carries_no_claim(load):
    before = side("a", TRUTH, loads=(load,))
    after = side("b", {**TRUTH, CHAIN: 600.0}, pace=1.5, seed=1, loads=(load,))
    told = compared([before, after]).whole
    assert words(told)[OFF, load] == "assumed scatter"
    assert words(told)[CHAIN, load] == "worse"
    assert words(told)[TREE, load] in ("the same", "not separable")
    (chain,) = [change for change in told.changes if change.config == CHAIN]
    assert chain.kind == "gain"
    assert chain.before.ratio == pytest.approx(1.1, abs=0.02)
    assert chain.change.lo < 600 / 770 < chain.change.hi


def test_speed_on_one_host_with_one_set_of_prompts_is_told_of_the_baseline_too():
    before = side("a", TRUTH, host="one")
    after = side("b", TRUTH, pace=1.3, seed=1, host="one", first=10_000)
    told = compared([before, after]).whole
    assert words(told)[OFF, 100] == "better"
    (off,) = [change for change in told.changes if change.config == OFF]
    assert off.kind == "speed" and off.change.ratio == pytest.approx(1.3, abs=0.02)


def test_gains_within_what_matters_are_the_same():
    before, after = side("a", TRUTH, scatter=0.002, starts=8), side("b", TRUTH, scatter=0.002, starts=8, seed=1)
    assert words(compared([before, after]).whole)[CHAIN, 100] == "the same"


def test_single_numbers_claim_nothing():
    before, after = side("a", TRUTH, starts=1), side("b", {**TRUTH, CHAIN: 300.0}, starts=1, seed=1)
    assert set(words(compared([before, after]).whole).values()) == {"assumed scatter"}


def test_what_only_one_has_is_named_with_what_became_of_it_in_the_other():
    before = side("a", TRUTH)
    after = side("b", {OFF: 700.0, CHAIN: 770.0}, seed=1)
    after = Side(after.name, "", {}, after.readings, failed={TREE: "OOM_GRAPH"})
    told = compared([before, after]).whole
    assert dict(told.only_before) == {"v1-k2-s2-d7": "OOM_GRAPH"}
    assert dict(told.only_after) == {}


def test_decision_that_changes_is_told_by_load():
    before = side("a", TRUTH, loads=(30, 100))
    after = side("b", {**TRUTH, CHAIN: 600.0}, seed=1, loads=(30, 100))
    told = compared([before, after]).whole
    assert {load: (one.config, other.config) for load, (one, other) in told.changed.items()} == {
        30: ("v2-k1-s2-d3", "off"),
        100: ("v2-k1-s2-d3", "off"),
    }
    assert [decision.basis for decision in told.decisions[100]] == ["shown", "baseline"]


def test_without_a_baseline_speeds_are_compared_and_the_best_is_what_was_measured():
    before, after = (side(name, {CHAIN: 770.0, TREE: 500.0}, seed=seed) for name, seed in (("a", 0), ("b", 1)))
    told = compared([before, after]).whole
    assert {change.kind for change in told.changes} == {"speed"}
    assert told.decisions[100][0].config == "v2-k1-s2-d3"
    assert told.decisions[100][0].basis == "as measured"


def test_change_comes_in_with_the_first_release_that_shows_it():
    slow = {**TRUTH, CHAIN: 640.0}
    tables = [side("r1", TRUTH), side("r2", TRUTH, seed=1), side("r3", slow, seed=2), side("r4", slow, seed=3)]
    arrivals = [(one.config, one.step, one.word) for one in compared(tables).arrivals]
    assert arrivals == [(CHAIN, "r3", "worse")]


def test_change_in_small_steps_is_told_of_all_of_them_together():
    rates = (770.0, 755.0, 741.0, 727.0, 713.0)
    tables = [
        side(f"r{place}", {OFF: 700.0, CHAIN: rate}, scatter=0.008, seed=place) for place, rate in enumerate(rates)
    ]
    told = compared(tables)
    assert {change.word for pair in told.steps for change in pair.changes if change.config == CHAIN} == {
        "not separable"
    }
    assert [(one.config, one.step, one.word) for one in told.arrivals] == [(CHAIN, "", "worse")]


@pytest.mark.slow
def test_equal_tables_differ_in_one_of_twenty_at_most():
    false = 0
    for seed in range(120):
        before = side("a", TRUTH, starts=3, scatter=0.03, seed=2 * seed, loads=(1, 30, 100))
        after = side("b", TRUTH, pace=1.2, starts=3, scatter=0.03, seed=2 * seed + 1, loads=(1, 30, 100))
        false += any(word in ("better", "worse") for word in words(compared([before, after]).whole).values())
    # With a true rate of 5%, more than 12 of 120 come by chance once in 250.
    assert false <= 12
