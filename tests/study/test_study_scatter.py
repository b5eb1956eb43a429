"""Readings that are kept between questions say what readings made anew say."""

from dataclasses import replace

import numpy as np
import pytest

from search.metrics import DEFAULTS
from search.study.scatter import is_behind_everywhere, readings_of
from tests.study.test_study_trust import World


@pytest.mark.parametrize("seed", range(3))
def test_kept_readings_answer_as_those_made_anew_when_launches_and_their_phases_come_and_go(seed):
    rng = np.random.default_rng(seed)
    world, kept, answers = World(rng, start=0.02, place=0.005, repeat=0.01), {}, set()
    for number in range(20):
        config = "off" if number % 5 == 0 else f"v2-k1-s{rng.integers(1, 5)}-d8"
        record = world.measured(config, times=rng.choice([0.5, 1.0, 1.2]))
        earlier = world.launches[:-1]
        if earlier and rng.random() < 0.3:  # a row is read again, shorter: what was kept of it no longer holds
            at = rng.integers(len(earlier))
            world.launches[at] = replace(earlier[at], phases=earlier[at].phases[:-1])
        earlier = world.launches[:-1]
        for axis in DEFAULTS:
            assert readings_of(axis, earlier, kept) == readings_of(axis, earlier)
        if not record.config.speculates:
            continue
        asked = DEFAULTS, record, record.phases, earlier
        answers.add(is_behind_everywhere(*asked, kept))
        assert is_behind_everywhere(*asked, kept) is is_behind_everywhere(*asked)
    assert answers == {True, False}
