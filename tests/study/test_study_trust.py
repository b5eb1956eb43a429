"""Whether a pick that was measured in a shared start and in its own measures alike, and what follows if it does not."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from search.config import SpecConfig
from search.contracts import LaunchPaths
from search.metrics import DEFAULTS
from search.outcomes import Note, Outcome
from search.stats.losslessness import write_answers
from search.storage.records import LaunchRecord
from search.study.trust import judge_pair, pair_of
from search.testing.engines import Script, ScriptedEngine, Speed
from tests.study.made_phases import phase

GROUP = ("v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4")
SLOW, FAST = Speed({1: 100.0, 30: 800.0, 100: 1000.0}), Speed({1: 200.0, 30: 1800.0, 100: 2000.0})
PASSES = np.array([0.3, 0.3, 0.25, 0.15])
SHAPES = [f"v2-k{topk}-s{steps}-d{steps + 1}" for topk in (1, 2) for steps in range(1, 8)]


class World:
    """A study's launches, drawn: everything is equally fast, but for what starts, places and repeats draw."""

    def __init__(self, rng, *, start, place, repeat):
        self.rng, self.start, self.place, self.repeat = rng, start, place, repeat
        self.launches = []

    def measured(self, config_id, *, stage="search", shared=None, place=0, times=1.0, accepts=PASSES, at=100.0):
        number = len(self.launches) + 1
        if not place:
            self.drew = [self.rng.normal(0, self.start) for _ in (1, 100)]
        config = SpecConfig.from_id(config_id)
        phases = []
        for start, load in zip(self.drew, (1, 100), strict=True):
            here = start + self.rng.normal(0, self.place)
            for repeat in (1, 2):
                rate = (at if load == 1 else 10 * at) * times * np.exp(here + self.rng.normal(0, self.repeat))
                counts = tuple(map(int, self.rng.multinomial(600, accepts))) if config.speculates else ()
                length = 1 + sum(n * c for n, c in enumerate(counts)) / 600 if counts else None
                told = {"accept_length": length, "accept_histogram": counts, "held_out": False}
                phases.append(phase(load, float(rate), repeat=repeat, **told))
        record = LaunchRecord(
            number=number,
            stage=stage,
            asked=config,
            config=config,
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            outcome=Outcome.MEASURED,
            folder=f"launches/{number:04d}",
            phases=tuple(phases),
            start=shared,
            place=place,
            switch_s=40.0 if place else None,
        )
        self.launches.append(record)
        return record

    def study(self, **of_the_own_start):
        """Three starts of the baseline, two shared starts, and the luckiest of them in a start of its own."""
        self.measured("off", stage="baseline")
        for half in (SHAPES[:7], SHAPES[7:]):
            first = len(self.launches) + 1
            for place, config_id in enumerate(half):
                self.measured(config_id, shared=first, place=place)
        luckiest = max(
            (one for one in self.launches if one.place), key=lambda one: sum(p.output_tps for p in one.repeats(100))
        )
        self.measured("off", stage="confirm")
        self.measured(luckiest.config.config_id, stage="confirm", **of_the_own_start)
        return self.launches


def judged(world, reports=None, **own):
    launches = world.study(**own)
    pair = pair_of(launches)
    assert pair is not None
    return judge_pair(pair, DEFAULTS, launches, reports)


@pytest.mark.parametrize("start", [0.0, 0.02, 0.06])
def test_equal_worlds_are_called_different_in_at_most_a_twentieth(start):
    rng = np.random.default_rng(round(1000 * start))
    found = [judged(World(rng, start=start, place=0.005, repeat=0.01)) for _ in range(150)]
    assert sum(bool(one.differs) for one in found) <= 7


@pytest.mark.parametrize(
    ("own", "word"),
    [({"times": 0.55}, "c100_output_tps"), ({"accepts": np.array([0.6, 0.3, 0.1, 0.0])}, "accept length")],
)
def test_what_differs_is_said_with_its_numbers_when_the_own_start_is_another(own, word):
    rng = np.random.default_rng(5)
    found = [judged(World(rng, start=0.01, place=0.002, repeat=0.005), **own) for _ in range(20)]
    assert sum(any(line.startswith(word) for line in one.differs) for one in found) >= 19


@pytest.mark.parametrize("alike", [True, False])
def test_greedy_text_decides_when_answers_are_kept(tmp_path, alike):
    world = World(np.random.default_rng(1), start=0.01, place=0.002, repeat=0.005)
    launches = world.study()
    pair = pair_of(launches)
    for one, offset in ((pair.shared, 0 if alike else 7), (pair.own, 0)):
        for number in (1, 2):
            names = tuple(f"p{place}" for place in range(16))
            words = tuple(tuple(range(offset + place, offset + place + 40)) for place in range(16))
            answered = replace(phase(1, 100.0, repeat=number), prompt_ids=names, outputs=words)
            write_answers(LaunchPaths(tmp_path / one.folder).outputs(1), answered)
    found = judge_pair(pair, DEFAULTS, launches, tmp_path)
    assert any("greedy text" in line for line in found.words)
    assert any("greedy text" in line for line in found.differs) is not alike


def test_nothing_is_judged_before_a_switched_config_has_a_start_of_its_own():
    world = World(np.random.default_rng(2), start=0.01, place=0.002, repeat=0.005)
    world.measured("off", stage="baseline")
    world.measured(GROUP[0], shared=2)
    world.measured(GROUP[1], shared=2, place=1)
    # The first of a start was never switched to.
    world.measured(GROUP[0], stage="confirm")
    assert pair_of(world.launches) is None
    own = world.measured(GROUP[1], stage="confirm")
    assert pair_of(world.launches).own == own


def study_with_later_stages(lab):
    return lab.text.replace("closing: false, confirm: 0, ladder: 0", "closing: true, ladder: 0")


def differing(config, before):
    """Fast after the switch, slow in every start of its own."""
    return Script(FAST if config.config_id == "v2-k1-s1-d2" and before == 0 else SLOW)


def test_study_says_start_differs_keeps_the_note_and_shares_no_start_from_then_on(lab):
    group = (*GROUP, "v2-k1-s4-d5", "v2-k1-s5-d6", "v2-k1-s6-d7")
    told = {"configs": ("off", *group), "groups": (group,), "text": study_with_later_stages(lab)}
    heard = lab.run(ScriptedEngine(differing), launches=9, **told)
    assert heard.error is None
    (said,) = [line for line in heard.notices if line.startswith("START_DIFFERS")]
    assert "v2-k1-s1-d2" in said
    noted = [one for one in lab.launches() if Note.START_DIFFERS in one.notes]
    assert [(one.asked.config_id, one.switch_s) for one in noted] == [("v2-k1-s1-d2", 40.0)]
    again = ScriptedEngine(differing)
    went_on = lab.run(again, launches=40, **told)
    assert went_on.error is None
    assert again.switched == []
    assert len(set(again.launched) & set(group)) > 1


def test_study_says_that_both_ways_measure_alike_when_they_do(lab):
    served = ScriptedEngine.table({name: FAST if name == "v2-k1-s1-d2" else SLOW for name in lab.configs})
    heard = lab.run(served, text=study_with_later_stages(lab), configs=("off", *GROUP), groups=(GROUP,))
    assert heard.error is None
    assert [line for line in heard.notices if "measures alike" in line]
    assert not any(Note.START_DIFFERS in one.notes for one in lab.launches())
