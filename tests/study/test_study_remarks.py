"""What a judgement says besides winners: drift of the host, order effects, repeats and workers that disagree."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.analysis.analyse import judge
from search.analysis.drift import slots_to_measure_again
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Note, Outcome
from search.spec.file import parse_study
from search.storage.records import LaunchRecord

IDS = tuple(f"p{i}" for i in range(16))


def phase(concurrency, rate, *, repeat=1, accept=None, times=None, **more):
    """At C=1 over 16 prompts, half of them three times as slow as the others."""
    tpot = 1000 * concurrency / rate
    return PhaseResult(
        concurrency, repeat, 16, 4096, 10.0, rate, rate, tpot, 50.0, accept,
        prompt_ids=IDS, prompt_tpot_ms=(0.5 * tpot, 1.5 * tpot) * 8 if concurrency == 1 else (), **more,
    )  # fmt: skip


def launch(number, config_id="off", c1=(100.0, 100.0), c100=(1000.0, 1000.0), accept=(None, None), **more):
    config = SpecConfig.from_id(config_id)
    phases = [
        phase(load, rate, repeat=repeat, accept=accept[place])
        for place, (load, rates) in enumerate(((1, c1), (100, c100)))
        for repeat, rate in enumerate(rates, 1)
    ]
    base = LaunchRecord(number, "known", config, config, datetime(2026, 1, 1, tzinfo=UTC), outcome=Outcome.MEASURED)
    return replace(base, phases=tuple(phases), **more)


@pytest.fixture
def judged(study_text):
    spec = parse_study(study_text, name="lab.yaml")
    return lambda *launches: judge(spec, launches)


def test_host_that_drifted_is_told_on_the_first_screen(judged):
    got = judged(launch(1), launch(2, "v2-k1-s2-d3"), launch(3, c1=(100.5, 100.5), c100=(930.0, 930.0)))
    assert got.headlines[-1] == (
        "The host drifted: baseline off on slot 0 measures -7.0% [-9.3%, -4.6%] at C=100 in launch 3 against launch 1. "
        "Configs measured in between may differ by as much for no reason of their own."
    )


def test_drift_of_one_percent_at_c1_is_seen_through_prompts_that_differ(judged):
    got = judged(launch(1), launch(2, c1=(96.0, 96.0)))
    assert got.headlines[-1].startswith("The host drifted: baseline off on slot 0 measures -4.0% [-6.")


def test_baseline_that_came_out_again_is_a_remark(judged):
    got = judged(launch(1), launch(2, c1=(100.5, 100.5), c100=(995.0, 995.0)))
    assert not any("drifted" in line for line in got.headlines)
    assert got.remarks == (
        "No drift of the host beyond doubt: baseline off on slot 0 measures +0.5% [-2.3%, +3.4%] at C=1, "
        "-0.5% [-3.0%, +2.0%] at C=100 in launch 2 against launch 1.",
    )


@pytest.mark.parametrize(
    "second",
    [
        {},
        {"number": 2, "slot": 1},
        {"number": 2, "config_id": "off+arf=auto"},
        {"number": 2, "stage": "try"},
        {"number": 2, "outcome": Outcome.LOST},
    ],
)
def test_drift_is_told_by_the_same_baseline_on_the_same_slot_only(judged, second):
    more = [launch(**second, c100=(900.0, 900.0))] if second else []
    got = judged(launch(1), *more)
    assert not any("drift" in line for line in (*got.headlines, *got.remarks))


def test_slots_owe_a_last_baseline_until_it_is_measured():
    off, arf, chain = SpecConfig.from_id("off"), "off+arf=auto", "v2-k1-s2-d3"
    assert slots_to_measure_again([launch(1), launch(2, slot=1)]) == {}
    began = [launch(1), launch(2, slot=1), launch(3, arf), launch(4, chain), launch(5, chain, slot=1)]
    assert slots_to_measure_again(began) == {0: off, 1: off}
    assert slots_to_measure_again([*began, launch(6)]) == {1: off}
    assert slots_to_measure_again([*began, launch(6, outcome=Outcome.LOST)]) == {0: off, 1: off}
    assert slots_to_measure_again([*began, launch(6), launch(7, chain)]) == {0: off, 1: off}
    assert slots_to_measure_again([launch(1, chain, outcome=Outcome.LOST)]) == {}
    assert slots_to_measure_again([launch(1), launch(2, chain, stage="try")]) == {}


def test_repeat_that_stands_apart_is_named_and_kept(judged):
    got = judged(launch(1, c100=(1000.0, 1000.0)), launch(2, c100=(1010.0, 800.0)))
    assert (
        "off: launch 2, repeat 2 at C=100 is -20.0% off the median of 4 repeats (800.0 tok/s); it is kept."
        in got.remarks
    )
    (off,) = got.results
    assert off.values[1].value == 952.5 and off.notes == (Note.UNSTABLE,)


@pytest.mark.parametrize(
    ("rates", "notes"),
    [
        ((1000.0, 1001.0), ()),
        ((1000.0, 900.0), (Note.UNSTABLE,)),
        ((1000.0, 1000.0, 900.0, 901.0), (Note.BISTABLE,)),
    ],
)
def test_repeats_that_disagree_mark_the_config(judged, rates, notes):
    (off,) = judged(launch(1, c100=rates)).results
    assert off.notes == off.loads[100].notes == notes


def test_last_repeats_that_are_slower_in_every_launch_are_an_order_effect(judged):
    ids = ("off", "v1-k1-s1-d2", "v1-k1-s2-d3", "v2-k1-s1-d2", "v2-k1-s2-d3")
    slower = [launch(n, name, c100=(1000.0, 970.0 + n / 10)) for n, name in enumerate(ids, 1)]
    got = judged(*slower)
    assert any(line.startswith("Order effect at C=100: the last repeat of a launch differs from the first by -3.0%")
               for line in got.remarks)  # fmt: skip
    assert all(result.notes == (Note.ORDER_EFFECT,) for result in got.results)
    mixed = [launch(n, name, c100=(1000.0, 1000.0 + 30 * (-1) ** n)) for n, name in enumerate(ids, 1)]
    assert not any(result.notes for result in judged(*mixed).results)
    assert not any(result.notes for result in judged(*slower[:4]).results)


def test_workers_that_accept_unlike_on_one_tree_are_told(judged):
    one = launch(2, "v1-k1-s2-d3", accept=(2.38, 1.15))
    other = launch(3, "v2-k1-s2-d3", accept=(2.38, 2.3))
    told = [line for line in judged(launch(1), one, other).remarks if "same tree" in line]
    assert len(told) == 1 and told[0].startswith(
        "v1-k1-s2-d3 and v2-k1-s2-d3 draft the same tree, but accept 1.15 and 2.30 tokens per pass at C=100 (-50.0% ["
    )
    deeper = launch(3, "v2-k1-s3-d4", accept=(3.0, 3.0))
    assert not any("same tree" in line for line in judged(launch(1), one, deeper).remarks)


def test_score_and_gains_carry_their_doubt(judged):
    got = judged(launch(1), launch(2, "v2-k1-s2-d3", c1=(110.0, 110.0), c100=(1100.0, 1100.0)))
    chain, off = got.results
    assert chain.score == pytest.approx(1.1) == chain.score_doubt.value
    assert 1.06 < chain.score_doubt.lo < 1.1 < chain.score_doubt.hi < 1.14
    assert 1.06 < chain.gains[1].lo < 1.1 < chain.gains[1].hi < 1.14  # paired: prompts differ by half
    assert (off.gains[100].lo, off.gains[100].hi) == (1.0, 1.0)
    assert got.winners[0].gain_separable is True
