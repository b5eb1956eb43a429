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


def several(scatter=0.003):
    """Three starts of the baseline, three of a chain, which differ by `scatter`."""
    shifts = (1 - scatter, 1.0, 1 + scatter)
    for number, shift in enumerate(shifts, 1):
        yield launch(number, c1=(100 * shift,) * 2, c100=(1000 * shift,) * 2)
        yield launch(number + 3, "v2-k1-s2-d3", c1=(90 * shift,) * 2, c100=(950 * shift,) * 2)


def test_host_that_drifted_is_told_on_the_first_screen(judged):
    got = judged(*several(), launch(7, c1=(100.2, 100.2), c100=(930.0, 930.0), stage="closing"))
    assert got.headlines[-1].startswith("The host drifted: baseline off on slot 0 measures -7.0% [-7.")
    assert got.headlines[-1].endswith(
        "] at C=100 in launch 7 against launches 1, 2, 3. Configs measured in between may differ by as much for no reason "
        "of their own."
    )


def test_drift_is_seen_through_prompts_that_differ(judged):
    got = judged(*several(), launch(7, c1=(96.0, 96.0), stage="closing"))
    assert got.headlines[-1].startswith("The host drifted: baseline off on slot 0 measures -4.0% [-4.")


def test_what_starts_differ_by_anyway_is_no_drift(judged):
    got = judged(*several(0.03), launch(7, c100=(960.0, 960.0), stage="closing"))
    assert not any("drifted" in line for line in got.headlines)
    (steady,) = [
        line for line in got.remarks if line.startswith("No drift of the host is shown: baseline off on slot 0")
    ]
    assert "-4.0% [-1" in steady


def test_two_starts_of_a_baseline_are_too_few_to_tell_a_drift(judged):
    got = judged(launch(1), launch(2, "v2-k1-s2-d3"), launch(3, c100=(930.0, 930.0)))
    assert not any("drifted" in line for line in got.headlines)
    assert ", assumed scatter] at C=100 in launch 3 against launch 1." in got.remarks[-1]


def test_both_scatters_are_told_with_what_makes_the_interval_wide(judged):
    (told,) = [line for line in judged(*several(0.02)).remarks if line.startswith("Scatter at C=100")]
    assert told.startswith(
        "Scatter at C=100: starts of one config differ by 2.0% [1.2%, 5.7%] (4 degrees of freedom), repeats"
    )
    assert told.endswith("The interval of v2-k1-s2-d3 there is wide because of: 100% starts.")


def test_slot_that_is_not_like_the_first_is_told(judged):
    other = [replace(one, number=one.number + 10, slot=1) for one in several()]
    slow = [
        replace(one, phases=tuple(replace(p, output_tps=0.9 * p.output_tps) for p in one.phases)) if one.slot else one
        for one in other
    ]
    assert not any("is not like slot" in line for line in judged(*several(), *other).headlines)
    said = judged(*several(), *slow).headlines[-1]
    assert said.startswith("Slot 1 is not like slot 0: its baseline off measures -10.0% [-10.") and "at C=100" in said


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
    assert off.values[1].value == pytest.approx((1000.0**2 * 1010.0 * 800.0) ** 0.25) and off.notes == (Note.UNSTABLE,)


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


def test_score_and_gains_carry_their_intervals(judged):
    faster = [launch(n, "v2-k1-s2-d3", c1=(110.0 + n / 10,) * 2, c100=(1100.0 + n,) * 2) for n in (4, 5, 6)]
    got = judged(*(launch(n, c1=(100.0 + n / 10,) * 2, c100=(1000.0 + n,) * 2) for n in (1, 2, 3)), *faster)
    chain, off = got.results
    assert chain.score == pytest.approx(1.1, rel=0.01) == chain.score_ci.value
    assert chain.score == pytest.approx((chain.gains[1].value * chain.gains[100].value) ** 0.5)
    assert 1.08 < chain.score_ci.lo < chain.score < chain.score_ci.hi < 1.12
    assert 1.09 < chain.gains[1].lo < chain.gains[1].value < chain.gains[1].hi < 1.12  # paired: prompts differ by half
    assert (off.gains[100].value, off.gains[100].lo) == (1.0, None)
    assert got.winners[0].claimed
