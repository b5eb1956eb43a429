"""A small part of `benchmarks/coverage`: seeded, with bounds that a right method misses once in thousands of changes."""

import numpy as np
import pytest

from benchmarks.coverage.__main__ import main
from benchmarks.coverage.intervals import cell, inside_cell
from benchmarks.coverage.studies import Design, tally
from benchmarks.coverage.worlds import World


@pytest.mark.parametrize("between", [0.0, 0.02])
def test_interval_from_four_degrees_on_holds_the_truth_and_is_little_wider_than_need_be(between):
    told = cell(World(between, 0.03), 4, "2 to 4", 600, np.random.default_rng(1))
    assert 0.92 <= told.held <= 0.98 and 1.1 < told.half / told.oracle < 1.6
    assert 0.92 <= told.next_held <= 0.98


def test_interval_below_four_degrees_never_holds_less():
    assert cell(World(0.04, 0.01), 1, "2", 300, np.random.default_rng(2)).held >= 0.93


def test_interval_inside_starts_holds_the_truth_while_places_change_the_value():
    told = inside_cell(0.04, 0.01, 0.005, 3, 300, np.random.default_rng(3))
    assert 0.91 <= told.held <= 0.99 and told.half < told.across / 3


def test_study_in_which_nothing_differs_claims_no_more_than_it_may():
    told = tally(World(0.02, 0.01), Design(), 0.0, 300, np.random.default_rng(4))
    assert told.any_gain <= 0.09 and told.drift <= 0.09 and told.question <= 0.09 and told.knob <= 0.09


def test_study_with_one_better_config_finds_it():
    told = tally(World(0.02, 0.01), Design(), 0.10, 100, np.random.default_rng(5))
    assert told.found >= 0.85 and told.won >= 0.85 and abs(told.error) < 0.01


def test_benchmark_prints_and_writes_every_cell(tmp_path, capsys):
    path = tmp_path / "coverage.json"
    assert main(["--quick", "--draws", "3", "--json", str(path)]) == 0
    assert "inside a start" in capsys.readouterr().out and '"group": "study"' in path.read_text()
