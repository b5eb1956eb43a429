"""Winners, questions and drift: what they say when something differs, when nothing does, and when nothing is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from search.stats.compare import compare
from search.stats.many import holm, max_t_tail, modulus_quantile, step_down
from search.stats.questions import best_of_each, drifts, finding, pooled
from search.stats.readings import Reading
from search.stats.scatter import Scatter, pooled_scatter
from search.stats.verdicts import LEVEL, Contest, study_winners, winners


def study(
    levels: dict[str, float], *, scatter: float = 0.002, seed: int = 0, fresh: tuple[str, ...] = (), base: int = 3
) -> dict[str, list[Reading]]:
    """Baseline `0` in three starts, each other config in one, those of `fresh` in two more."""
    rng = np.random.default_rng(seed)
    number = iter(range(10_000))
    found: dict[str, list[Reading]] = {config: [] for config in levels}
    wanted = [("0", False)] * base + [(c, False) for c in levels if c != "0"] + [(c, True) for c in fresh] * 2
    for config, is_fresh in wanted:
        start, luck = next(number), scatter * rng.normal()
        found[config] += [
            Reading(start, 100 * math.exp(levels[config] + luck + scatter / 2 * rng.normal()), repeat=r, fresh=is_fresh)
            for r in range(2)
        ]
    return found


def judged(groups: dict[str, list[Reading]], **more: object):
    return winners(groups, ["0"], pooled_scatter(groups), int, **more)  # type: ignore[arg-type]


def test_winner_when_a_pick_beats_the_baseline_is_that_pick_with_its_gain_from_its_fresh_starts():
    groups = study({"0": 0.0, "1": 0.10, "2": 0.0, "3": 0.0}, fresh=("1", "2", "3"))
    lucky = [replace(one, value=one.value * (1 if one.fresh else 1.02)) for one in groups["1"]]
    told = judged(groups | {"1": lucky})
    assert told.winner == "1" and told.reference == "0" and [one.config for one in told.claimed] == ["1"]
    assert told.gain.ratio == pytest.approx(math.exp(0.10), rel=0.01)
    assert told.gain == next(one.gain for one in told.standings if one.config == "1")


def test_winner_when_nothing_beats_it_is_the_baseline_and_others_are_merely_ahead():
    groups = study({"0": 0.0, "1": 0.004, "2": -0.05}, scatter=0.02, fresh=("1", "2"), base=4)
    told = judged(groups)
    assert told.winner == "0" and told.gain is None and not told.claimed
    assert all(one.gain.ratio > 1 for one in told.ahead)
    assert set(told.tied) | {"0"} >= {one.config for one in told.ahead if not one.gain.separable}


def test_winner_of_two_that_cannot_be_told_apart_is_the_simpler_and_the_other_is_named():
    groups = study({"0": 0.0, "1": 0.10, "2": 0.1005, "3": 0.0}, scatter=0.004, fresh=("1", "2", "3"))
    told = judged(groups)
    assert told.winner == "1" and told.tied == ("2",) and {one.config for one in told.claimed} == {"1", "2"}
    assert told.same == ("2",)


def test_simpler_config_that_is_separably_slower_does_not_win():
    told = judged(study({"0": 0.0, "1": 0.05, "2": 0.12, "3": 0.0}, fresh=("1", "2", "3")))
    assert told.winner == "2" and told.tied == ()


def test_lower_is_better_turns_everything_round():
    up = study({"0": 0.0, "1": 0.10, "2": 0.0, "3": 0.0}, fresh=("1", "2", "3"))
    down = {config: [replace(one, value=1e4 / one.value) for one in mine] for config, mine in up.items()}
    one, two = judged(up), judged(down, higher_is_better=False)
    assert two.winner == one.winner == "1" and two.gain.ratio == pytest.approx(one.gain.ratio)
    assert two.gain.lo == pytest.approx(one.gain.lo)


def test_only_what_has_fresh_starts_is_tested_where_anything_has():
    told = judged(study({"0": 0.0, "1": 0.0, "2": 0.3, "3": 0.0}, fresh=("1", "3")))
    standing = next(one for one in told.standings if one.config == "2")
    assert told.winner == "0" and not standing.tested and standing in told.ahead


def test_without_fresh_starts_all_candidates_are_tested_together():
    told = judged(study({"0": 0.0, "1": 0.0, "2": 0.3}, base=6))
    assert told.winner == "2" and all(one.tested for one in told.standings)
    assert {one.level for one in told.standings} == {LEVEL}


def test_no_gain_is_claimed_on_assumed_scatter_however_large():
    told = judged(study({"0": 0.0, "1": 5.0}, fresh=("1",), base=2))
    assert told.assumed and told.winner == "0" and not told.claimed and [one.config for one in told.ahead] == ["1"]


def test_gain_must_beat_every_baseline():
    groups = study({"0": 0.0, "1": 0.10, "2": 0.101, "3": 0.0}, fresh=("2", "3"), base=4)
    told = winners(groups, ["0", "1"], pooled_scatter(groups), int)
    assert told.reference == "1" and told.winner == "1" and not told.claimed
    assert told.standings[0].config == "2" and told.standings[0].gain.ratio == pytest.approx(1, rel=0.01)


def test_contest_without_baseline_or_readings_has_no_winner():
    for groups in ({}, {"0": []}, {"1": [Reading(1, 5.0)]}, {"0": [Reading(1, math.nan)]}):
        told = winners(groups, ["0"], Scatter(), int)
        assert told.winner is None and told.gain is None and told.claimed == ()


def test_objectives_have_most_of_the_level_and_hand_it_on_when_all_is_claimed():
    good = study({"0": 0.0, "1": 0.2, "2": 0.2, "3": 0.2}, fresh=("1", "2", "3"))
    none = study({"0": 0.0, "1": 0.0, "2": 0.0, "3": 0.0}, fresh=("1", "2", "3"), seed=1)
    contests = {
        load: Contest(mine, pooled_scatter(mine), objective=load in (1, 100))
        for load, mine in ((30, none), (1, good), (100, none))
    }
    told = study_winners(contests, ["0"], int)
    assert list(told) == [30, 1, 100]
    assert told[1].spent == pytest.approx(0.4 * LEVEL) and told[1].hands_on
    assert told[100].spent == pytest.approx(0.6 * LEVEL) and told[30].spent == pytest.approx(0.4 * LEVEL)
    assert sum(one.spent for load, one in told.items() if load != 1) == pytest.approx(LEVEL)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_verdict_of_any_numbers_is_finite_and_claims_only_what_its_interval_says(data):
    values = st.floats(1e-2, 1e4)
    groups = {
        str(config): [
            Reading(10 * config + start, data.draw(values), repeat=repeat, fresh=config > 0 and start > 0)
            for start in range(data.draw(st.integers(0, 4)))
            for repeat in range(data.draw(st.integers(1, 3)))
        ]
        for config in range(4)
    }
    told = judged(groups)
    for standing in told.standings:
        assert standing.gain is None or all(
            map(math.isfinite, (standing.gain.ratio, standing.gain.lo, standing.gain.hi))
        )
        assert not standing.claimed or standing.gain.lo > 1
    assert (told.winner is None) == (not groups["0"])
    assert told.winner not in told.tied


def test_max_t_of_one_is_student_t_and_of_several_is_dunnetts():
    assert max_t_tail(2.5, [0.4], 7) == pytest.approx(scipy_stats.t.sf(2.5, 7), rel=1e-2)
    exact = 1 - scipy_stats.multivariate_t(shape=np.full((3, 3), 0.4) + 0.6 * np.eye(3), df=7, seed=1).cdf([2.5] * 3)
    assert max_t_tail(2.5, [0.4] * 3, 7) == pytest.approx(exact, rel=0.02)
    assert max_t_tail(2.0, [0.5] * 2, math.inf) < max_t_tail(2.0, [0.5] * 2, 5)


def test_adjusted_chances_are_ordered_like_the_statistics_and_no_smaller_than_alone():
    statistics = [0.5, 4.0, 2.5]
    told = step_down(statistics, [0.4, 0.4, 0.4], 8)
    assert told[1] < told[2] < told[0]
    assert all(p >= scipy_stats.t.sf(t, 8) * 0.98 for p, t in zip(told, statistics, strict=True))
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert modulus_quantile(1, 7) == pytest.approx(scipy_stats.t.ppf(0.975, 7), rel=1e-3)


def gains_of(levels: list[float], scatter: float = 0.002, seed: int = 0):
    groups = study({str(i): level for i, level in enumerate([0.0, *levels])}, scatter=scatter, seed=seed, base=6)
    return [compare(groups[str(i + 1)], groups["0"], pooled_scatter(groups)) for i in range(len(levels))]


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [([0.05, 0.08], "supported"), ([0.05, -0.08], "refuted"), ([0.0, 0.0005], "same"), ([0.05, 0.0], "not separable")],
)
def test_finding_of_known_differences(levels, verdict):
    assert finding(gains_of(levels)) == verdict


def test_finding_without_a_measurement_is_no_verdict():
    assert finding([]) == finding([*gains_of([0.5]), None]) == "not measured"
    assert finding([replace(gains_of([0.5])[0], assumed=True)]) == "assumed scatter"


def test_finding_of_equal_configs_that_scatter_is_not_separable():
    assert finding(gains_of([0.0, 0.0, 0.0], scatter=0.02, seed=5)) == "not separable"


def test_best_of_each_value_picks_by_the_search_and_compares_on_fresh_starts():
    groups = study({"0": 0.0, "1": 0.10, "2": 0.02, "3": 0.05, "4": 0.0}, fresh=("1", "3"), base=4)
    lucky = [replace(one, value=one.value * (1 if one.fresh else 1.5)) for one in groups["3"]]
    mine, theirs = {c: groups[c] for c in "12"}, {"3": lucky, "4": groups["4"]}
    told = best_of_each(mine, theirs, pooled_scatter(groups))
    assert (told.best, told.other, told.picked_afresh) == ("1", "3", True)
    assert told.gain.ratio == pytest.approx(math.exp(0.05), rel=0.01) and told.gain.separable


def test_best_of_each_value_on_the_starts_that_picked_them_is_wider_than_a_plain_comparison():
    groups = study({"0": 0.0} | {str(i): 0.0 for i in range(1, 9)}, scatter=0.02, base=6)
    scatter = pooled_scatter(groups)
    told = best_of_each({c: groups[c] for c in "1234"}, {c: groups[c] for c in "5678"}, scatter)
    plain = compare(groups[told.best], groups[told.other], scatter)
    assert not told.picked_afresh and told.gain.lo < plain.lo and told.gain.hi > plain.hi
    assert told.gain.ratio == pytest.approx(plain.ratio)


def test_best_of_each_with_a_value_that_was_not_measured_says_nothing():
    groups = study({"0": 0.0, "1": 0.1})
    told = best_of_each({"1": groups["1"]}, {}, pooled_scatter(groups))
    assert told.best == "1" and told.other is None and told.gain is None


def test_drift_of_a_host_that_changed_is_told_and_of_one_that_scatters_is_not():
    groups = study({"0": 0.0, "1": 0.0, "2": 0.0}, scatter=0.01, fresh=("1", "2"), base=4)
    scatter = pooled_scatter(groups)
    closing = [Reading(900, 100.5), Reading(900, 100.2, repeat=1)]
    slow = [replace(one, value=one.value * 0.9) for one in closing]
    told = drifts(
        {"steady": (groups["0"], closing, scatter), "slower": (groups["0"], slow, scatter), "none": ([], slow, scatter)}
    )
    assert set(told) == {"steady", "slower"}
    assert (
        told["slower"].shown
        and not told["steady"].shown
        and told["slower"].change.ratio == pytest.approx(0.9, rel=0.03)
    )
    assert not drifts({"assumed": (groups["0"], slow, Scatter())})["assumed"].shown


def test_worth_of_a_knob_over_pairs_is_their_mean_and_narrower_than_each():
    gains = gains_of([0.04, 0.06])
    told = pooled(gains)
    assert told.log_ratio == pytest.approx(sum(one.log_ratio for one in gains) / 2)
    assert told.variance < min(one.variance for one in gains) and pooled([]) is None
