"""What launches say, on the story's twelve numbers and on small made-up ones."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from made_phases import phase

from benchmarks.coverage import product
from search.analysis.analyse import judge
from search.config import SpecConfig
from search.outcomes import Evidence, Note, Outcome, Reason
from search.physics.bands import rate_band, ratio_band
from search.physics.files import load_physics
from search.spec.file import parse_study
from search.storage.records import LaunchRecord

STORY = {
    "off": {1: 92.7, 30: 689.4, 100: 773.1, 250: 718.1},
    "v2-k1-s2-d3": {1: 86.8, 30: 759.3, 100: 775.0, 250: 754.4},
    "v1-k4-s3-d16": {1: 80.9, 30: 313.3, 100: 353.1, 250: 353.8},
}


def launch(number, config_id, phases=(), **more):
    config = SpecConfig.from_id(config_id)
    base = LaunchRecord(number, "known", config, config, datetime(2026, 1, 1, tzinfo=UTC), outcome=Outcome.MEASURED)
    return replace(base, phases=tuple(phases), **more)


def launches_of(table, **more):
    return [
        launch(number, config_id, [phase(load, rate, **more) for load, rate in rates.items()])
        for number, (config_id, rates) in enumerate(table.items(), start=1)
    ]


def started(table, scatter=0.002, starts=3, **more):
    """Several starts of two repeats each; starts of one config differ by about `scatter`, so that it is known."""
    shifts = [1 + scatter * (2 * turn / (starts - 1) - 1) for turn in range(starts)]
    found = []
    for turn, shift in enumerate(shifts):
        for place, (config_id, rates) in enumerate(table.items(), start=1):
            phases = [phase(load, rate * shift, repeat=r, **more) for load, rate in rates.items() for r in (1, 2)]
            found.append(launch(turn * len(table) + place, config_id, phases))
    return found


@pytest.fixture
def spec(study_text):
    def build(extra="", watch="[30, 250]"):
        return parse_study(study_text.replace("watch: [30]", f"watch: {watch}") + extra, name="x")

    return build


@pytest.fixture
def story(spec):
    return judge(spec(), launches_of(STORY))


def test_one_start_of_each_config_claims_nothing_and_says_what_is_ahead(story):
    assert [(w.concurrency, w.config.config_id, w.assumed) for w in story.winners] == [
        (load, "off", True) for load in (1, 30, 100, 250)
    ]
    assert not any(winner.claimed or winner.slower for winner in story.winners)
    ahead = {w.concurrency: [(one.config.config_id, one.gain.value) for one in w.ahead] for w in story.winners}
    assert ahead[1] == [] and ahead[30] == [("v2-k1-s2-d3", pytest.approx(759.3 / 689.4))]
    assert all(one.gain.assumed and one.gain.lo < 1 < one.gain.hi for w in story.winners for one in w.ahead)


def test_one_start_of_each_config_in_words(story):
    said = story.headlines
    assert said[0].startswith("From C=1 on: no speculation (off), 92.7 [")
    assert said[1] == "No gain of speculation is shown at C=1, 30, 100, 250."
    assert said[2].startswith(
        "Ahead of the best baseline, but not shown after all the comparisons made: v2-k1-s2-d3 at C=30, +10.1% ["
    )
    assert ", assumed scatter]" in said[2]
    assert (
        said[3].startswith("Assumed scatter: too little was started twice")
        and "(pooled degrees of freedom: 0 at C=1, 0 at C=100; 4 are needed)" in said[3]
    )
    assert not any("pays" in line for line in said)


def test_story_with_several_starts_of_each(spec):
    judged = judge(spec(), started(STORY))
    assert [(w.concurrency, w.config.config_id, w.claimed) for w in judged.winners] == [
        (1, "off", False), (30, "v2-k1-s2-d3", True), (100, "off", False), (250, "v2-k1-s2-d3", True),
    ]  # fmt: skip
    one, thirty, hundred, _ = judged.winners
    assert one.gain.value == 1 and one.slower
    assert thirty.gain.value == pytest.approx(1.1014, abs=1e-4) and thirty.gain.lo > 1.08
    assert thirty.equal_fusion_gain == thirty.gain
    assert [c.config_id for c in hundred.tied] == ["v2-k1-s2-d3"] == [c.config_id for c in hundred.same]
    assert judged.headlines[-2:] == (
        "Speculation pays at C=30, 250; it does not pay at C=1, where everything measured is slower than off; no gain is "
        "shown at C=100.",
        judged.headlines[-1],
    )
    assert judged.headlines[-1].startswith(
        "Ahead of the best baseline, but not shown after all the comparisons made: v2-k1-s2-d3 at C=100, +0.2% ["
    )


def test_story_front_scores_and_picks(spec):
    story = judge(spec(), started(STORY))
    assert [r.config.config_id for r in story.front] == ["off", "v2-k1-s2-d3"]
    assert [r.config.config_id for r in story.results] == ["off", "v2-k1-s2-d3", "v1-k4-s3-d16"]
    assert [r.score for r in story.results] == pytest.approx([1.0, 0.9688, 0.6313], abs=1e-4)
    assert [b.config.config_id for b in story.baselines] == ["off"]
    assert [(p.roles, p.result.config.config_id) for p in story.picks] == [
        (("lowest-latency", "highest-throughput", "best-score"), "off"),
        (("best-at-c30", "best-at-c250"), "v2-k1-s2-d3"),
    ]
    assert story.results[0].values[0].value == pytest.approx(10.7875, rel=1e-4)
    assert story.results[0].values[1].value == pytest.approx(773.1, rel=1e-4)


def test_every_gain_of_a_config_is_one_number_with_one_interval_around_it(spec):
    judged = judge(spec(), started(STORY))
    for result in judged.results:
        for load, gain in result.gains.items():
            winner = next(w for w in judged.winners if w.concurrency == load)
            if result.config == winner.config:
                assert winner.gain == gain
            if gain.comparison is not None:
                assert gain.lo < gain.value < gain.hi
                assert gain.value == pytest.approx(result.loads[load].rate.value / winner.baseline_rate.value)
                assert (gain.value * gain.value) == pytest.approx(gain.lo * gain.hi)


def test_questions_are_answered_with_numbers(spec):
    extra = """\
questions:
  chain-beats-tree: {config: v2-k1-s2-d3, against: [v1-k4-s3-d16], at: [1, 100]}
  chain-beats-off: {config: v2-k1-s2-d3, against: [off], at: [1, 30]}
  chain-at-100: {config: v2-k1-s2-d3, against: [off], at: [100]}
  width-or-overlap: {config: v2-k1-s2-d3, against: [v1-k1-s2-d3], at: [100]}
"""
    launches = started(STORY)
    answers = {answer.name: answer for answer in judge(spec(extra), launches).verdicts}
    assert answers["chain-beats-tree"].verdict == "supported"
    assert "v2-k1-s2-d3 against v1-k4-s3-d16: +7.3% [+6.9%, +7.7%] at C=1, +119% [" in answers["chain-beats-tree"].text
    assert answers["chain-beats-off"].verdict == "refuted" and "-6.4% [" in answers["chain-beats-off"].text
    assert answers["chain-at-100"].verdict == "same"
    assert answers["width-or-overlap"].text == "v1-k1-s2-d3 was not launched."
    once = {answer.name: answer for answer in judge(spec(extra), launches_of(STORY)).verdicts}
    assert once["chain-beats-tree"].verdict == "assumed scatter"
    failed = launch(10, "v1-k1-s2-d3", outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, evidence=Evidence("no room"))
    answers = {answer.name: answer for answer in judge(spec(extra), [*launches, failed]).verdicts}
    assert answers["width-or-overlap"].verdict == "not measured"
    assert answers["width-or-overlap"].text == "v1-k1-s2-d3 ended as FAILED (OOM_GRAPH)."


def test_question_about_a_knob_compares_the_best_of_each_value(spec):
    """The tree that was named loses; another tree of the same width wins (#12)."""
    table = {
        "off": {1: 100.0, 100: 1000.0},
        "v1-k1-s2-d3": {1: 110.0, 100: 1050.0},
        "v1-k2-s2-d7": {1: 105.0, 100: 1100.0},
        "v1-k2-s3-d8": {1: 121.0, 100: 1200.0},
        "v1-k4-s3-d8": {1: 100.0, 100: 800.0},
    }
    extra = """\
questions:
  wide: {knob: topk, value: 2, against: [1, 4], at: [1, 100]}
  narrow: {knob: topk, value: 1, against: [2], at: [100]}
  deep: {knob: num_steps, value: 5, against: [2], at: [1]}
"""
    judged = judge(spec(extra, watch="[]"), started(table))
    answers = {answer.name: answer for answer in judged.verdicts}
    assert answers["wide"].verdict == "supported" and answers["narrow"].verdict == "refuted"
    assert "best of topk 2 against best of topk 1: +10.0% [" in answers["wide"].text
    assert "(v1-k2-s3-d8 and v1-k4-s3-d8), +21.0% [" in answers["wide"].text
    assert "at fixed other knobs (1 pair)" in answers["wide"].text
    assert answers["deep"].verdict == "not measured"
    assert answers["deep"].text == "no config with num_steps 5 was measured at C=1."
    best = {one.config.config_id for one in judged.contenders}
    assert best == {"v1-k2-s3-d8", "v1-k1-s2-d3", "v1-k4-s3-d8"}
    assert not any(one.is_open for one in judged.contenders)  # both questions have their answer
    once = judge(spec(extra, watch="[]"), launches_of(table))
    assert {answer.verdict for answer in once.verdicts} == {"assumed scatter", "not measured"}


def test_table_of_knobs_says_what_else_differs_and_what_is_not_told_apart(spec):
    table = {
        "off": {1: 100.0, 100: 1000.0},
        "v1-k1-s3-d4": {1: 100.0, 100: 1000.0},
        "v1-k2-s3-d4": {1: 100.1, 100: 1001.0},
        "v1-k4-s3-d16": {1: 80.0, 100: 700.0},
    }
    rows = {(w.knob, w.concurrency, w.value, w.other): w for w in judge(spec(watch="[]"), started(table)).knobs}
    close, far = rows["topk", 100, 2, 1], rows["topk", 100, 2, 4]
    assert close.gain.separable is False and close.differ_too == () and close.pairs == 1
    assert far.gain.separable and far.differ_too == ("num_draft_tokens",) and far.alone is None
    tokens = rows["num_draft_tokens", 100, 4, 16]
    assert tokens.gain.value > 1.3 and tokens.differ_too == ("topk",)  # says nothing of 4 against 16 tokens alone


def test_gap_within_the_scatter_is_ahead_with_the_starts_that_would_settle_it(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1015.0}}
    judged = judge(spec(watch="[]"), started(table, scatter=0.02))
    winner = judged.winners[1]
    assert (
        winner.config.config_id == "off"
        and not winner.claimed
        and [c.config_id for c in winner.tied] == ["v2-k1-s2-d3"]
    )
    assert not winner.same
    (ahead,) = [line for line in judged.headlines if line.startswith("Ahead")]
    assert "v2-k1-s2-d3 at C=100, +1.5% [" in ahead and "more starts of each would settle it" in ahead
    assert not any("pays" in line for line in judged.headlines)


def test_simplest_of_what_cannot_be_told_from_the_best_wins(spec):
    table = {
        "off": {1: 100.0, 100: 900.0},
        "v2-k1-s2-d3": {1: 90.0, 100: 1000.0},
        "v2-k1-s3-d4": {1: 90.0, 100: 1001.0},
    }
    winner = judge(spec(watch="[]"), started(table)).winners[1]
    assert winner.config.config_id == "v2-k1-s2-d3" and winner.claimed
    assert (
        [config.config_id for config in winner.tied] == ["v2-k1-s3-d4"] == [config.config_id for config in winner.same]
    )


def test_gain_that_is_told_from_the_best_is_not_given_away_for_simplicity(spec):
    table = {
        "off": {1: 100.0, 100: 900.0},
        "v2-k1-s2-d3": {1: 90.0, 100: 990.0},
        "v2-k1-s3-d4": {1: 90.0, 100: 1004.0},
    }
    winner = judge(spec(watch="[]"), started(table)).winners[1]
    assert winner.config.config_id == "v2-k1-s3-d4" and winner.claimed and not winner.tied


def test_fusion_is_compared_at_equal_fusion_too(spec):
    table = {
        "off": {1: 90.0, 100: 1000.0},
        "off+arf=auto": {1: 95.0, 100: 1040.0},
        "v2-k1-s2-d3+arf=auto": {1: 100.0, 100: 1000.0},
        "v2-k1-s2-d3": {1: 99.9, 100: 1100.0},
    }
    judgement = judge(spec(), started(table))
    low, high = judgement.winners
    # At C=1 the plain chain cannot be told from the other, and is simpler.
    assert (low.config.config_id, low.baseline.config_id) == ("v2-k1-s2-d3", "off+arf=auto")
    assert low.gain.value == pytest.approx(99.9 / 95) and low.equal_fusion_gain.value == pytest.approx(99.9 / 90)
    assert high.equal_fusion_gain.value == pytest.approx(1.1) and high.gain.value == pytest.approx(1.0577, abs=1e-4)
    (said,) = [line for line in judgement.headlines if "all-reduce fusion" in line]
    assert said.startswith("Against the baseline with the winner's own all-reduce fusion: +11.0% [+10.")


def test_repeats_of_all_launches_of_a_config_are_pooled(spec):
    first = launch(1, "off", [phase(1, 100.0), phase(100, 1000.0)])
    second = launch(2, "off", [phase(1, 100.0), phase(100, 1100.0)])
    (result,) = judge(spec(), [first, second]).results
    assert result.launches == (1, 2) and result.values[1].value == pytest.approx((1000.0 * 1100.0) ** 0.5)
    assert result.values[1].lo < 1000.0 and result.values[1].hi > 1100.0


def test_measurement_belongs_to_the_config_that_ran(spec):
    ran = SpecConfig.from_id("v1-k1-s2-d3")
    swapped = launch(2, "v2-k1-s2-d3", [phase(1, 90.0), phase(100, 800.0)], config=ran, notes=(Note.EFFECTIVE_DIFFERS,))
    judgement = judge(spec(), [launch(1, "off", [phase(1, 100.0), phase(100, 900.0)]), swapped])
    assert [r.config.config_id for r in judgement.results] == ["off", "v1-k1-s2-d3"]
    assert judgement.results[1].notes == (Note.EFFECTIVE_DIFFERS,)


def test_tainted_numbers_win_nothing_and_are_not_picked(spec):
    tainted = launch(2, "v2-k1-s2-d3", [phase(load, 5000.0, notes=(Note.CACHE_TAINTED,)) for load in (1, 100)])
    judgement = judge(spec(), [launch(1, "off", [phase(1, 100.0), phase(100, 900.0)]), tainted])
    assert {winner.config.config_id for winner in judgement.winners} == {"off"}
    assert {pick.result.config.config_id for pick in judgement.picks} == {"off"}
    assert judgement.results[0].config.config_id == "v2-k1-s2-d3"


def test_synthetic_study_may_pick_but_synthetic_rows_among_measured_ones_may_not(spec):
    notes = {"notes": (Note.SYNTHETIC,)}
    computed = started(STORY, **notes)
    assert judge(spec(), computed).winners[1].config.config_id == "v2-k1-s2-d3"
    measured = started(STORY)
    mixed = [*measured[::3], *(one for one in computed if one.config.speculates)]
    assert {winner.config.config_id for winner in judge(spec(), mixed).winners} == {"off"}


def test_extrapolated_winners_are_named(spec):
    table = {name: STORY[name] for name in ("off", "v2-k1-s2-d3")}
    far = [
        replace(one, phases=tuple(replace(p, extrapolated=p.concurrency == 250) for p in one.phases))
        if one.config.speculates
        else one
        for one in started(table)
    ]
    said = judge(spec(), far).headlines
    assert "Extrapolated (not in the data the simulator was fitted to): v2-k1-s2-d3 at C=250." in said


def test_pick_is_extrapolated_only_where_its_own_loads_are(spec):
    """The ladder of a fitted config leaves its data; what it is picked for does not."""
    table = {name: {**STORY[name], 50: 700.0} for name in ("off", "v2-k1-s2-d3")}
    far = [
        replace(one, phases=tuple(replace(p, extrapolated=p.concurrency == 50) for p in one.phases))
        for one in started(table)
    ]
    picks = judge(spec(), far).picks
    assert {pick.result.config.config_id for pick in picks} == {"off", "v2-k1-s2-d3"}
    assert all(pick.result.extrapolated and not pick.extrapolated for pick in picks)


def test_what_only_extrapolation_prefers_is_worth_a_launch_but_no_winner(spec):
    rates = {1: 84.1, 30: 900.0, 100: 900.0}
    guessed = started({"v2-k1-s1-d2": rates}, extrapolated=True)
    guessed = [replace(one, number=10 + place) for place, one in enumerate(guessed)]
    judged = judge(spec(), [*started(STORY), *guessed])
    assert [w.config.config_id for w in judged.winners] == ["off", "v2-k1-s2-d3", "off", "v2-k1-s2-d3"]
    assert not any(winner.extrapolated for winner in judged.winners)
    assert [(w.concurrency, w.config.config_id) for w in judged.beyond] == [(30, "v2-k1-s1-d2"), (100, "v2-k1-s1-d2")]
    assert not any(winner.claimed for winner in judged.beyond)
    assert judged.headlines[-1].startswith(
        "Extrapolated, not a fact: the simulator was not fitted to these, but expects them ahead, so they are worth a "
        "launch: v2-k1-s1-d2, +30.5% ["
    )


QUESTION = "questions:\n  wide: {knob: topk, value: 2, against: [4], at: [100]}\n"


class TestFittedSimulator:
    """A study on the cost model that was fitted to the story's twelve numbers."""

    @pytest.fixture
    def fitted(self, study_text):
        text = study_text.replace("watch: [30]", "watch: [30, 250]")
        return parse_study(
            text
            + "simulation: {physics: kimi-k25-story}\nquestions:\n  tree: {config: v1-k2-s2-d7, against: [off], at: [100]}\n",
            name="x",
        )

    @pytest.fixture
    def judged(self, fitted):
        guessed = [
            replace(one, number=20 + place)
            for place, one in enumerate(started({"v1-k2-s2-d7": {1: 99.0, 30: 999.0, 100: 1999.0, 250: 999.0}}, extrapolated=True))
        ]  # fmt: skip
        return judge(fitted, [*started(STORY), *guessed])

    def test_extrapolated_value_is_the_fits_with_its_band_and_not_the_drawn_one(self, fitted, judged):
        config = SpecConfig.from_id("v1-k2-s2-d7")
        told = next(result for result in judged.results if result.config == config)
        limit = fitted.engine.max_running_requests
        band = rate_band(load_physics("kimi-k25-story"), config, 100, running_limit=limit)
        assert (told.loads[100].rate.value, told.loads[100].rate.lo, told.loads[100].rate.hi) == (
            band.value,
            band.low,
            band.high,
        )
        ratio = ratio_band(load_physics("kimi-k25-story"), config, SpecConfig.from_id("off"), 100, running_limit=limit)
        assert (told.gains[100].value, told.gains[100].lo, told.gains[100].hi) == (ratio.value, ratio.low, ratio.high)
        assert told.gains[100].band and told.gains[100].separable is None

    def test_question_with_an_extrapolated_member_is_not_measured(self, judged):
        (answer,) = judged.verdicts
        assert answer.verdict == "not measured"
        assert answer.text.startswith(
            "v1-k2-s2-d7 was not measured, only extrapolated; `python -m search try --study lab v1-k2-s2-d7` would "
            "decide it; v1-k2-s2-d7 against off: the model expects "
        )
        assert "(90% band " in answer.text

    def test_question_about_a_value_that_was_only_extrapolated_is_not_measured(self, study_text, fitted):
        asked = fitted.model_copy(update={"questions": parse_study(study_text + QUESTION, name="x").questions})
        guessed = [
            replace(one, number=one.number + 20)
            for one in started({"v1-k2-s2-d7": {1: 99.0, 100: 999.0}}, extrapolated=True)
        ]
        (answer,) = judge(asked, [*started(STORY), *guessed]).verdicts
        assert (
            answer.verdict == "not measured"
            and "would decide it; best of topk 2 against best of topk 4: the model expects" in answer.text
        )

    def test_question_whose_best_is_expected_beyond_the_data_is_not_answered_by_the_second_best(
        self, study_text, fitted
    ):
        """Of v1 only the widest tree was measured; the model expects a chain to be twice as fast."""
        asked = "questions:\n  overlap: {knob: spec_version, value: v2, against: [v1], at: [100]}\n"
        spec = fitted.model_copy(update={"questions": parse_study(study_text + asked, name="x").questions})
        assert judge(spec, started(STORY)).verdicts[0].verdict == "supported"
        chain = started({"v1-k1-s2-d3": {1: 80.0, 100: 700.0}}, extrapolated=True)
        chain = [replace(one, number=one.number + 20) for one in chain]
        (answer,) = judge(spec, [*started(STORY), *chain]).verdicts
        assert answer.verdict == "not measured" and answer.text.startswith(
            "v1-k1-s2-d3 was not measured, only extrapolated"
        )

    def test_loads_where_the_fit_alone_speaks_are_no_verdict(self, fitted):
        only = started({"off": {1: 92.0, 100: 773.0}, "v1-k2-s2-d7": {1: 99.0, 100: 1999.0}})
        only = [
            replace(one, phases=tuple(replace(p, extrapolated=one.config.speculates) for p in one.phases))
            for one in only
        ]
        judged = judge(fitted, only)
        assert all(winner.only_expected and not winner.claimed for winner in judged.winners)
        assert judged.headlines[0].startswith(
            "Not measured at these loads; the model expects as the best: off at C=1; "
        )
        assert not any("pay" in line for line in judged.headlines)


def test_failures_are_listed_and_nothing_else_is_needed(spec):
    lost = launch(
        1, "off", outcome=Outcome.LOST, reason=Reason.HOST_BUSY, evidence=Evidence("50 GiB in use", log_path="/l")
    )
    judgement = judge(spec(), [lost, launch(2, "off", outcome=None)])
    (failure,) = judgement.failures
    assert (failure.launch, failure.reason, failure.blame, failure.root_line) == (
        1,
        "HOST_BUSY",
        "host",
        "50 GiB in use",
    )
    assert not judgement.results and not judgement.winners and not judgement.picks and not judgement.headlines


def test_without_a_baseline_nothing_is_claimed(spec):
    judgement = judge(spec(), launches_of({"v2-k1-s2-d3": STORY["v2-k1-s2-d3"]}))
    assert judgement.headlines == ("No load has a measured baseline yet, so nothing can be compared.",)
    assert not judgement.picks and len(judgement.front) == 1


def test_equal_launches_give_equal_judgements(spec):
    assert judge(spec(), started(STORY)) == judge(spec(), started(STORY))


def test_loads_without_speculation_are_listed_with_their_rates_and_ties(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1002.0}}
    said = judge(spec(watch="[]"), started(table)).headlines
    assert said[:2] == (
        "From C=1 on: no speculation (off), 100.0 [99.7, 100.3] tok/s at C=1, 1000.0 [996.8, 1003.2] tok/s at C=100 "
        "(a tie with v2-k1-s2-d3; shown to be the same: v2-k1-s2-d3).",
        "Speculation does not pay at C=1, where everything measured is slower than off; no gain is shown at C=100.",
    )


def test_lone_load_names_its_gain_once(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1100.0}}
    assert judge(spec(watch="[]"), started(table)).headlines[:2] == (
        "At C=1: no speculation (off, 100.0 [99.7, 100.3] tok/s).",
        "At C=100: v2-k1-s2-d3, +10.0% [+9.5%, +10.5%].",
    )


def test_baselines_alone_say_nothing_of_speculation(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "off+arf=auto": {1: 104.0, 100: 1040.0}}
    for launches in (launches_of(table), started(table)):
        judged = judge(spec(watch="[]"), launches)
        (said,) = judged.headlines
        assert said.startswith("Only baselines are measured: ") and "pay" not in said
        assert not any(winner.claimed or winner.config.speculates for winner in judged.winners)


def test_gain_that_prompts_hide_says_that_prompts_would_settle_it(spec):
    base = [8.0, 9.0, 10.0, 11.0, 12.0, 10.0]
    chain = [4.0, 13.0, 6.0, 12.0, 5.0, 14.0]  # 10% faster in the mean, and by a factor of two either way

    def told(number, config_id, times):
        low = [
            replace(
                phase(1, 1000 / (sum(times) / len(times)), repeat=repeat),
                prompt_tpot_ms=tuple(times),
                prompt_ids=tuple("abcdef"),
            )
            for repeat in (1, 2)
        ]
        return launch(number, config_id, [*low, phase(100, 1000.0), phase(100, 1000.0, repeat=2)])

    launches = [told(number, *(("off", base) if number % 2 else ("v2-k1-s2-d3", chain))) for number in range(1, 7)]
    judged = judge(spec(watch="[]"), launches)
    (ahead,) = [line for line in judged.headlines if line.startswith("Ahead")]
    assert "more prompts would settle it: `measure.requests_at_latency`" in ahead
    gain = judged.winners[0].ahead[0].gain
    assert gain.lo < 1 < gain.hi and gain.comparison.shares.prompts > 0.9


def test_confirmed_gain_is_of_the_fresh_starts_on_the_same_prompts(spec):
    """The pick was lucky in the search by 8%; the held-out prompts are slower for everybody."""

    def of(number, config_id, stage, rates):
        phases = [phase(load, rate, repeat=r, held_out=held) for load, rate, held in rates for r in (1, 2)]
        return launch(number, config_id, phases, stage=stage)

    def both(rate):
        return [(1, rate, False), (1, 0.8 * rate, True), (100, 10 * rate, False), (100, 9 * rate, True)]

    launches = [of(n, "off", "baseline", both(100.0 + n / 10)) for n in (1, 2, 3, 4)]
    launches += [of(5, "v2-k1-s2-d3", "search", [(1, 113.0, False), (100, 1130.0, False)])]
    launches += [
        of(n, "v2-k1-s2-d3", "confirm", [(1, 84.0 + n / 10, True), (100, 9 * (105.0 + n / 10), True)])
        for n in (6, 7, 8)
    ]
    judged = judge(spec(watch="[]"), launches)
    for winner in judged.winners:
        assert winner.config.config_id == "v2-k1-s2-d3" and winner.claimed
        assert winner.gain.value == pytest.approx(1.055, abs=0.003)
        assert winner.rate.value / winner.baseline_rate.value == pytest.approx(winner.gain.value, abs=1e-3)


def test_nothing_but_failures_or_numbers_that_are_none_judges_nothing(spec):
    zero = launch(1, "off", [phase(1, 1e-9), phase(100, 1e-9)])
    zero = replace(zero, phases=tuple(replace(p, output_tps=0.0, tpot_ms=float("inf")) for p in zero.phases))
    tree = launch(2, "v2-k1-s2-d3", [phase(1, 100.0), phase(100, 1000.0)])
    for launches in (
        [],
        [zero],
        [zero, tree],
        [replace(tree, outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, phases=())],
    ):
        judged = judge(spec(watch="[]"), launches)
        assert not any(winner.claimed for winner in judged.winners)
        assert not any("pay" in line for line in judged.headlines)


def test_whole_judgements_of_equal_configs_rarely_claim_anything():
    """Baseline three times, nine others, three picks twice more, on a host whose starts scatter by 2%."""
    told = product.tally(product.World(0.02, 0.01), product.Design(), 40, 1)
    assert told.any_gain <= 3 / 40 and told.question <= 3 / 40 and told.drift <= 5 / 40


def test_whole_judgements_find_a_config_that_is_ten_percent_better():
    told = product.tally(product.World(0.02, 0.01, gain=0.1), product.Design(), 40, 7)
    assert told.found >= 0.8 and told.any_gain <= 0.075 and abs(told.error) < 0.02
