"""Outlook: what is expected of a config, from twelve hand-made numbers and from invented tables."""

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks.race.worlds.invented import invented
from search.config import SpecConfig, tree_bound
from search.model.belief import Prior
from search.model.feasibility import Feasibility, Start
from search.model.observations import Observation
from search.samplers.outlook import LaunchCost, Outlook

STORY = Path(__file__).parents[2] / "recordings/kimi-k25-story/measurements.csv"
SPACE = (
    SpecConfig("off"),
    *(
        SpecConfig(version, topk, steps, steps + 1 if topk == 1 else min(16, tree_bound(topk=topk, num_steps=steps)))
        for version in ("v1", "v2")
        for topk in (1, 2, 4)
        for steps in (1, 2, 3, 4)
    ),
)


def outlook_of(seen, **more):
    prior = Prior.of(SPACE, (1, 30, 100, 250), seed=0)
    measured = list(dict.fromkeys(item.config for item in seen))
    starts = [Start(config, started=True) for config in measured]
    return Outlook(prior, Feasibility(SPACE), observations=seen, starts=starts, measured=measured, **more)


@pytest.fixture(scope="module")
def story():
    with STORY.open() as file:
        seen = [
            Observation(
                SpecConfig.from_id(row["config_id"]),
                int(row["concurrency"]),
                1000.0 * int(row["concurrency"]) / float(row["output_tps"]),
            )
            for row in csv.DictReader(file)
        ]
    return outlook_of(seen)


def test_front_of_the_story_is_off_and_the_chain_within_their_uncertainty(story):
    assert SpecConfig("off") in story.front
    assert SpecConfig("v1", 4, 3, 16) not in story.front


def test_forecast_of_a_config_nobody_launched_is_banded_and_says_what_it_rests_on(story):
    told = story.forecast(SpecConfig("v1", 2, 2, 7))
    low, middle, high = told.bands[1]
    assert low < middle < high
    assert high / low > 1.2
    assert told.bands[0][0] < told.bands[0][1] < told.bands[0][2]
    assert 0.0 <= told.enters_front <= told.feasible <= 1.0
    assert set(told.nearest) <= {SpecConfig("off"), SpecConfig("v2", 1, 2, 3), SpecConfig("v1", 4, 3, 16)}
    assert not told.measured
    assert told.why.startswith("expected front gain")


def test_locked_config_is_forecast_like_any_other(story):
    told = story.forecast(SpecConfig("v2", 2, 2, 7))
    assert told.bands[1][1] > story.forecast(SpecConfig("v1", 2, 2, 7)).bands[1][1]
    assert told.gain > 0.0


def test_measured_config_is_forecast_where_it_was_measured(story):
    told = story.forecast(SpecConfig("v2", 1, 2, 3))
    assert told.measured
    assert told.bands[0][1] == pytest.approx(11.52, rel=0.02)
    assert told.bands[1][1] == pytest.approx(775, rel=0.03)


def test_dearer_launch_of_equal_gain_is_worth_less():
    seen = [Observation(SPACE[0], 1, 10.0), Observation(SPACE[0], 100, 100.0)]
    cheap, dear = (outlook_of(seen, cost=LaunchCost(boot_s=boot)) for boot in (60.0, 6000.0))
    config = SpecConfig("v2", 1, 2, 3)
    assert cheap.gains[cheap.prior.index[config]] == dear.gains[dear.prior.index[config]]
    assert cheap.worth(config) > 5 * dear.worth(config)


def test_expected_gain_falls_below_noise_gain_once_all_is_known():
    table = invented(1, roughness=0.0)
    prior = Prior.of(table.configs)
    feasibility = Feasibility(table.configs)

    def look(measured):
        seen = [
            Observation(config, load, table.ms_per_token[config, load], 0.01)
            for config in measured
            for load in (1, 100)
        ]
        starts = [Start(config, started=True) for config in measured]
        return Outlook(prior, feasibility, observations=seen, starts=starts, measured=measured)

    early, late = look(table.configs[:2]), look(table.configs[:-1])
    assert early.expected_gain(table.configs[2:]) > early.noise_gain
    assert late.expected_gain(table.configs[-1:]) < late.noise_gain


def test_among_gains_far_beneath_the_noise_gain_the_sure_start_goes_first():
    table = invented(1, roughness=0.0)
    times = table.ms_per_token
    slow_last = sorted(table.configs, key=lambda config: times[config, 1] * times[config, 100])
    measured, others = slow_last[:-40], slow_last[-40:]
    seen = [Observation(config, load, times[config, load], 0.01) for config in measured for load in (1, 100)]
    prior = Prior.of(table.configs)

    class Chances:
        def __init__(self, uncertain=None):
            self.told = np.array([0.5 if config == uncertain else 0.96 for config in table.configs])

        def probability(self, starts):
            return self.told

    def look(uncertain=None):
        return Outlook(prior, Chances(uncertain), observations=seen, starts=[], measured=measured)

    sure = look()
    gains = {config: sure.gains[prior.index[config]] for config in others}
    far = [config for config in others if sure.expected_gain([config]) < 0.01 * sure.noise_gain]
    hopeful, safe = max(far, key=gains.get), min(far, key=gains.get)
    outlook = look(uncertain=hopeful)
    assert gains[hopeful] * 0.5**2 > gains[safe] * 0.96**2  # growth alone would take the uncertain one
    assert outlook.best([hopeful, safe], per_second=False) == safe


def test_equals_are_decided_for_the_simpler_config():
    outlook = outlook_of([Observation(SPACE[0], 1, 10.0), Observation(SPACE[0], 100, 100.0)])
    outlook._worth = np.ones(len(SPACE))
    outlook.seconds = np.ones(len(SPACE))
    assert outlook.best(SPACE[1:]) == SpecConfig("v1", 1, 1, 2)
