"""When repeats of one phase agree, and when one stands apart."""

import numpy as np
import pytest

from search.contracts import PhaseResult
from search.outcomes import Note
from search.stats.repeats import outliers, repeat_notes


def result(tps, *, windows=(), tpot=10.0, concurrency=100, prompts=(), ids=()):
    return PhaseResult(
        concurrency, 1, 16, 4096, 10.0, tps, tps, tpot, 50.0,
        window_tps=tuple(windows), prompt_tpot_ms=tuple(prompts), prompt_ids=tuple(ids),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([100.0, 101.0, 140.0], [(2, 0.386)]),
        ([100.0, 100.0, 100.0, 94.0], [(3, -0.06)]),
        ([100.0, 100.0, 100.0, 96.0], []),  # repeats differ by as much
        ([90.0, 100.0, 110.0, 120.0], []),
        ([100.0, 140.0], []),  # which of two?
        ([], []),
    ],
)
def test_outliers_are_named_with_their_distance(values, named):
    assert [(found.place, round(found.off, 3)) for found in outliers(values)] == named


@pytest.mark.parametrize(
    ("rates", "notes"),
    [
        ([100.0], ()),
        ([100.0, 104.0], ()),
        ([100.0, 109.0], (Note.UNSTABLE,)),
        ([100.0, 100.0, 88.0], (Note.UNSTABLE,)),
        ([100.0, 101.0, 120.0, 121.0], (Note.BISTABLE,)),
        ([100.0, 107.0, 114.0, 121.0], (Note.UNSTABLE,)),
    ],
)
def test_repeats_that_differ_are_noted(rates, notes):
    assert repeat_notes([result(rate) for rate in rates]) == notes


def test_noisy_slices_excuse_repeats_that_differ():
    noisy = [60.0, 140.0] * 4
    assert repeat_notes([result(100.0, windows=noisy), result(109.0, windows=noisy)]) == ()


def test_slow_prompts_do_not_excuse_repeats_of_the_same_prompts():
    def one(tpot, times, ids):
        return result(1000 / tpot, tpot=tpot, concurrency=1, prompts=times, ids=ids)

    base, ids = [5.0, 15.0] * 4, "abcdefgh"
    slower = [1.1 * ms for ms in base]
    assert repeat_notes([one(10.0, base, ids), one(11.0, slower, ids)]) == (Note.UNSTABLE,)
    assert repeat_notes([one(10.0, base, ids), one(11.0, slower, "ijklmnop")]) == ()


def test_answers_without_any_time_tell_no_noise():
    hasty = result(100.0, tpot=10.0, concurrency=1, prompts=[0.0, 20.0], ids="ab")
    assert repeat_notes([hasty, hasty]) == ()
    assert repeat_notes([result(100.0, concurrency=1, prompts=[0.0, 0.0], ids="ab")] * 2) == ()


@pytest.mark.parametrize(
    ("slices", "bistable"),
    [
        ([100.0] * 8 + [80.0] * 8, True),
        ([100.0, 101.0, 99.0, 100.0] * 2 + [80.0, 81.0, 79.0, 80.0] * 2, True),
        ([100.0, 80.0] * 8, False),  # prefills, not states
        ([100.0] * 14 + [80.0] * 2, False),  # too short
        ([100.0] * 8 + [97.0] * 8, False),  # too close
        ([100.0 - i for i in range(16)], False),  # a slope
        ([100.0] * 5 + [80.0] * 5, False),  # too few
        ([100.0] * 16, False),
    ],
)
def test_two_lasting_levels_in_a_window_are_bistable(slices, bistable):
    assert repeat_notes([result(90.0, windows=slices)]) == ((Note.BISTABLE,) if bistable else ())


def test_quiet_hosts_are_hardly_ever_noted():
    draw, noted = np.random.default_rng(3), 0
    for _ in range(400):
        repeats = []
        for _ in range(2):
            windows = 100 * (1 + 0.01 * draw.standard_normal()) + 6 * draw.standard_normal(20)
            repeats.append(result(float(windows.mean()), windows=windows))
        noted += repeat_notes(repeats) != ()
    assert noted <= 2
