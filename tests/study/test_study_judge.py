"""What launches say, on the story's twelve numbers and on small made-up ones."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.analysis.analyse import judge
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Evidence, Note, Outcome, Reason
from search.spec.file import parse_study
from search.storage.records import LaunchRecord

STORY = {
    "off": {1: 92.7, 30: 689.4, 100: 773.1, 250: 718.1},
    "v2-k1-s2-d3": {1: 86.8, 30: 759.3, 100: 775.0, 250: 754.4},
    "v1-k4-s3-d16": {1: 80.9, 30: 313.3, 100: 353.1, 250: 353.8},
}


def phase(concurrency, rate, *, repeat=1, **more):
    return PhaseResult(
        concurrency=concurrency,
        repeat=repeat,
        requests=16,
        output_tokens=4096,
        duration_s=10.0,
        output_tps=rate,
        whole_run_tps=rate,
        tpot_ms=1000 * concurrency / rate,
        ttft_ms=50.0,
        **more,
    )


def launch(number, config_id, phases=(), **more):
    config = SpecConfig.from_id(config_id)
    base = LaunchRecord(number, "known", config, config, datetime(2026, 1, 1, tzinfo=UTC), outcome=Outcome.MEASURED)
    return replace(base, phases=tuple(phases), **more)


def launches_of(table, **more):
    return [
        launch(number, config_id, [phase(load, rate, **more) for load, rate in rates.items()])
        for number, (config_id, rates) in enumerate(table.items(), start=1)
    ]


def repeated(table):
    """Two repeats each, so that doubt is known: about 1% of the value and more."""
    return [
        launch(n, config_id, [phase(load, rate, repeat=r) for load, rate in rates.items() for r in (1, 2)])
        for n, (config_id, rates) in enumerate(table.items(), start=1)
    ]


@pytest.fixture
def spec(study_text):
    def build(extra="", watch="[30, 250]"):
        return parse_study(study_text.replace("watch: [30]", f"watch: {watch}") + extra, name="x")

    return build


@pytest.fixture
def story(spec):
    return judge(spec(), launches_of(STORY))


def test_story_winner_per_load(story):
    assert [(w.concurrency, w.config.config_id) for w in story.winners] == [
        (1, "off"), (30, "v2-k1-s2-d3"), (100, "off"), (250, "v2-k1-s2-d3"),
    ]  # fmt: skip
    one, thirty, hundred, most = story.winners
    assert one.rate.value == pytest.approx(92.7) and one.gain.value == 1
    assert thirty.gain.value == pytest.approx(1.1014, abs=1e-4) and thirty.gain_separable is None
    assert [c.config_id for c in hundred.tied] == ["v2-k1-s2-d3"] and not thirty.tied
    assert most.gain.value == pytest.approx(1.0506, abs=1e-4) and most.equal_fusion_gain == most.gain


def test_story_in_words(story):
    assert story.headlines == (
        "At C=1: no speculation (off, 92.7 tok/s).",
        "From C=30 on: v2-k1-s2-d3, +10.1% at C=30, +0.2% at C=100 (a tie with off), +5.1% at C=250.",
        "Speculation pays from C=30 to C=250, of loads C=1 to C=250; not at C=100, where no speculation is as fast.",
    )


def test_story_front_scores_and_picks(story):
    assert [r.config.config_id for r in story.front] == ["off", "v2-k1-s2-d3"]
    assert [r.config.config_id for r in story.results] == ["off", "v2-k1-s2-d3", "v1-k4-s3-d16"]
    assert [r.score for r in story.results] == pytest.approx([1.0, 0.9688, 0.6313], abs=1e-4)
    assert [b.config.config_id for b in story.baselines] == ["off"]
    assert [(p.roles, p.result.config.config_id) for p in story.picks] == [
        (("lowest-latency", "highest-throughput", "best-score"), "off"),
        (("best-at-c30", "best-at-c250"), "v2-k1-s2-d3"),
    ]
    assert story.results[0].values[0].value == pytest.approx(10.7875, abs=1e-4)
    assert story.results[0].values[1].value == 773.1


def test_questions_are_answered_with_numbers(spec):
    extra = """\
questions:
  chain-beats-tree: {config: v2-k1-s2-d3, against: [v1-k4-s3-d16], at: [1, 100]}
  chain-beats-off: {config: v2-k1-s2-d3, against: [off], at: [1, 30]}
  chain-at-100: {config: v2-k1-s2-d3, against: [off], at: [100]}
  width-or-overlap: {config: v2-k1-s2-d3, against: [v1-k1-s2-d3], at: [100]}
"""
    launches = launches_of(STORY)
    answers = {answer.name: answer for answer in judge(spec(extra), launches).verdicts}
    assert answers["chain-beats-tree"].verdict == "supported"
    assert answers["chain-beats-tree"].text == "v2-k1-s2-d3 against v1-k4-s3-d16: +7.3% at C=1, +119% at C=100."
    assert answers["chain-beats-off"].verdict == "refuted" and "-6.4% at C=1" in answers["chain-beats-off"].text
    assert answers["chain-at-100"].verdict == "not separable"
    assert answers["width-or-overlap"].text == "v1-k1-s2-d3 was not launched."
    failed = launch(4, "v1-k1-s2-d3", outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH, evidence=Evidence("no room"))
    answers = {answer.name: answer for answer in judge(spec(extra), [*launches, failed]).verdicts}
    assert answers["width-or-overlap"].verdict == "not measured"
    assert answers["width-or-overlap"].text == "v1-k1-s2-d3 ended as FAILED (OOM_GRAPH)."


def test_gap_within_known_doubt_but_above_one_percent_is_tied_and_not_preferred(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1015.0}}
    winner = judge(spec(), repeated(table)).winners[1]
    assert winner.config.config_id == "v2-k1-s2-d3" and winner.gain_separable is False
    assert [config.config_id for config in winner.tied] == ["off"]
    said = judge(spec(), repeated(table)).headlines
    assert said[-1] == "Speculation pays at C=100, of loads C=1 to C=100; the gain at C=100 is within its doubt."


def test_simpler_of_two_within_one_percent_wins(spec):
    table = {
        "off": {1: 100.0, 100: 900.0},
        "v2-k1-s2-d3": {1: 90.0, 100: 1000.0},
        "v2-k1-s3-d4": {1: 90.0, 100: 1004.0},
    }
    winner = judge(spec(), repeated(table)).winners[1]
    assert winner.config.config_id == "v2-k1-s2-d3" and winner.gain_separable is True
    assert [config.config_id for config in winner.tied] == ["v2-k1-s3-d4"]


def test_fusion_is_compared_at_equal_fusion_too(spec):
    table = {
        "off": {1: 90.0, 100: 1000.0},
        "off+arf=auto": {1: 95.0, 100: 1040.0},
        "v2-k1-s2-d3+arf=auto": {1: 100.0, 100: 1000.0},
        "v2-k1-s2-d3": {1: 99.0, 100: 1100.0},
    }
    judgement = judge(spec(), repeated(table))
    low, high = judgement.winners
    # At C=1 the plain chain is within a percent and simpler.
    assert (low.config.config_id, low.baseline.config_id) == ("v2-k1-s2-d3", "off+arf=auto")
    assert low.gain.value == pytest.approx(1.0421, abs=1e-4) and low.equal_fusion_gain.value == pytest.approx(1.1)
    assert high.equal_fusion_gain.value == pytest.approx(1.1) and high.gain.value == pytest.approx(1.0577, abs=1e-4)
    assert judgement.headlines[-1] == (
        "Against the baseline with the winner's own all-reduce fusion: +10.0% [+7.2%, +12.9%] at C=1, "
        "+10.0% [+7.3%, +12.8%] at C=100."
    )


def test_repeats_of_all_launches_of_a_config_are_pooled(spec):
    first = launch(1, "off", [phase(1, 100.0), phase(100, 1000.0)])
    second = launch(2, "off", [phase(1, 100.0), phase(100, 1100.0)])
    (result,) = judge(spec(), [first, second]).results
    assert result.launches == (1, 2) and result.values[1].value == pytest.approx(1050.0)
    assert result.values[1].lo < 1050.0 < result.values[1].hi


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
    computed = launches_of(STORY, **notes)
    assert judge(spec(), computed).winners[1].config.config_id == "v2-k1-s2-d3"
    mixed = [launches_of(STORY)[0], *computed[1:]]
    assert {winner.config.config_id for winner in judge(spec(), mixed).winners} == {"off"}


def test_extrapolated_winners_are_named(spec):
    launches = launches_of(STORY)
    far = replace(launches[1], phases=(*launches[1].phases[:3], phase(250, 754.4, extrapolated=True)))
    said = judge(spec(), [launches[0], far]).headlines[-1]
    assert said == "Extrapolated (not in the data the simulator was fitted to): v2-k1-s2-d3 at C=250."


def test_what_only_extrapolation_prefers_is_worth_a_launch_but_no_winner(spec):
    rates = {1: 84.1, 30: 900.0, 100: 900.0}
    guessed = launch(4, "v2-k1-s1-d2", [phase(load, rate, extrapolated=True) for load, rate in rates.items()])
    judged = judge(spec(), [*launches_of(STORY), guessed])
    assert [w.config.config_id for w in judged.winners] == ["off", "v2-k1-s2-d3", "off", "v2-k1-s2-d3"]
    assert not any(winner.extrapolated for winner in judged.winners)
    assert [(w.concurrency, w.config.config_id) for w in judged.beyond] == [(30, "v2-k1-s1-d2"), (100, "v2-k1-s1-d2")]
    assert judged.headlines[-1] == (
        "Extrapolated, not a fact: the simulator was not fitted to these, but expects them ahead, so they are worth a "
        "launch: v2-k1-s1-d2 (+30.5%) at C=30, v2-k1-s1-d2 (+16.4%) at C=100."
    )


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
    assert judge(spec(), repeated(STORY)) == judge(spec(), repeated(STORY))


def test_loads_without_speculation_are_listed_with_their_rates_and_ties(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1002.0}}
    assert judge(spec(), repeated(table)).headlines == (
        "From C=1 on: no speculation (off), 100.0 [98.2, 101.9] tok/s at C=1, 1000.0 [983.8, 1019.2] tok/s at C=100 "
        "(a tie with v2-k1-s2-d3).",
        "Speculation does not pay at any measured load (C=1, 100).",
    )


def test_lone_load_names_its_gain_once(spec):
    table = {"off": {1: 100.0, 100: 1000.0}, "v2-k1-s2-d3": {1: 90.0, 100: 1100.0}}
    assert judge(spec(), repeated(table)).headlines[:2] == (
        "At C=1: no speculation (off, 100.0 [98.2, 101.9] tok/s).",
        "At C=100: v2-k1-s2-d3, +10.0% [+7.3%, +12.8%].",
    )


def test_among_equally_simple_ones_the_faster_wins(spec):
    table = {"off": {1: 90.0, 100: 900.0}, "v1-k1-s2-d3": {1: 99.5, 100: 999.0}, "v2-k1-s2-d3": {1: 100.0, 100: 1000.0}}
    assert [w.config.config_id for w in judge(spec(), repeated(table)).winners] == ["v2-k1-s2-d3"] * 2


def test_gain_within_its_doubt_says_how_many_prompts_would_tell_it(spec):
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

    judged = judge(spec(watch="[]"), [told(1, "off", base), told(2, "v2-k1-s2-d3", chain)])
    (pays,) = [line for line in judged.headlines if line.startswith("Speculation pays")]
    assert "the gain at C=1 is within its doubt (some " in pays
    assert int(pays.split("(some ")[1].split(" prompts")[0].replace(",", "")) > 50
    assert pays.endswith("prompts at C=1 would tell: `measure.requests_at_latency`).")
