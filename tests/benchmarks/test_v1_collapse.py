"""The layout of accepted tokens: whose rows are whose, and what that does to accept lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.v1_collapse import ROOT, explained, guess_of, main, passes, rows_are_own
from search.engines.recording import read_recording

OWN, GUESS = np.array([0.2, 0.1, 0.7]), np.array([0.9, 0.05, 0.05])
MEAN = np.arange(3)


@pytest.mark.parametrize(
    ("accepted", "own"),
    [
        ([1], [True]),
        ([3, 3, 3], [True, True, True]),  # all accepted: the layouts agree
        ([1, 1, 1], [True, False, False]),  # three tokens in the first request's three rows
        ([2, 2, 2], [True, True, False]),
    ],
)
def test_last_token_is_own_where_its_row_is(accepted, own):
    assert rows_are_own(accepted, 3) == own


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30))
def test_first_request_is_always_right_and_full_acceptance_makes_all_right(accepted):
    assert rows_are_own(accepted, 4)[0]
    assert all(rows_are_own([4] * len(accepted), 4))


def test_one_request_at_a_time_never_guesses():
    counts, own = passes(OWN, GUESS, 1, requests=40, length=128, seed=0)
    assert own == 1.0
    assert counts @ MEAN == pytest.approx(OWN @ MEAN, abs=0.1)


def test_more_requests_guess_more_and_accept_less():
    lengths = [passes(OWN, GUESS, load, requests=3 * load, length=128, seed=0) for load in (1, 4, 16, 64)]
    assert [own for _, own in lengths] == sorted((own for _, own in lengths), reverse=True)
    assert lengths[-1][0] @ MEAN < lengths[0][0] @ MEAN - 0.5


def test_nothing_collapses_where_a_guess_is_as_good():
    counts, _ = passes(OWN, OWN, 64, requests=300, length=128, seed=0)
    assert counts @ MEAN == pytest.approx(OWN @ MEAN, abs=0.03)


def test_guess_is_found_from_the_collapsed_load():
    collapsed, _ = passes(OWN, GUESS, 50, requests=150, length=128, seed=0)
    assert guess_of(OWN, collapsed, 50, requests=150, length=128) == pytest.approx(GUESS, abs=0.02)


def test_recorded_collapse_lies_far_nearer_to_the_layout_s_than_to_none():
    found = list(explained(read_recording(ROOT / "h200-codelm-0.5.11")))
    assert {one.config for one in found} == {"v1-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16"}
    assert all(abs(one.predicted - one.measured) < 0.5 * (one.alone - one.measured) for one in found)


def test_command_without_a_v1_config_says_what_is_needed(capsys):
    assert main([str(ROOT / "public" / "sglang-22246-glm-4.7")]) == 2
    assert "v1" in capsys.readouterr().out
