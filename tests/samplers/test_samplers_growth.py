"""What an ask costs late in a study, counted in calls of our own code: times would tell of the machine.

What Optuna's samplers do with the trials that they are shown is theirs; they are asked once.
"""

import numpy as np
import optuna
import pytest
from optuna.trial import create_trial

from search.config import SpecConfig
from search.metrics import DEFAULTS
from search.model.belief import Prior
from search.model.observations import Observation
from search.samplers.factory import make_sampler
from search.samplers.thinning import MOST_CONFIGS, kept_configs
from search.storage.optuna_side import quiet_optuna


@pytest.fixture(scope="module")
def configs():
    return [SpecConfig("off")] + [
        SpecConfig(version, 1, steps, steps + 1, allreduce_fusion=arf, extra=(("page_size", size),))
        for version in ("v1", "v2")
        for arf in ("off", "auto")
        for size in (1, 16, 32, 64)
        for steps in range(1, 66)
    ]


def study_of(sampler, configs):
    with quiet_optuna():
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    space = sampler.distributions
    for place, config in enumerate(configs):
        distributions = {name: space[name] for name in config.params}
        values = [10.0 + place % 7, 100.0 + place % 11]
        study.add_trial(
            create_trial(params=config.params, distributions=distributions, values=values, constraints={"launch": 0.0})
        )
    return study


@pytest.mark.parametrize("name", ["frontier", "tpe", "random", "grid"])
def test_ask_at_1000_trials_costs_at_most_twice_what_it_costs_at_100(name, configs, calls_of):
    costs = []
    for many in (100, 1000):
        sampler = make_sampler(name, configs=configs, seed=1)
        study = study_of(sampler, configs[:many])
        study.tell(study.ask(), [1.0, 1.0])  # each trial is read once, by the first ask after its end
        _ = study.ask().relative_params
        costs.append(calls_of(lambda study=study: study.ask().relative_params))
    assert costs[1] <= 2 * costs[0], costs


def test_belief_is_given_the_front_the_baselines_and_no_more_configs_at_1000_than_at_100(configs):
    given = []
    for many in (100, 1000):
        sampler = make_sampler("frontier", configs=configs, seed=1)
        with quiet_optuna():
            outlook = sampler.outlook(study_of(sampler, configs[:many]))
        given.append(outlook)
        assert configs[0] in outlook.front or outlook.measured_count <= MOST_CONFIGS
    assert given[0].measured_count == 100 and given[1].measured_count == MOST_CONFIGS
    assert int(given[1].belief.measured.any(axis=1).sum()) == MOST_CONFIGS


def test_kept_configs_hold_everything_on_the_front_and_reach_all_parts_of_the_space(configs):
    rng = np.random.default_rng(0)
    prior = Prior.of(configs, (1, 100), draws=10)
    paces = rng.uniform(10.0, 20.0, (1000, 2))
    seen = [
        Observation(config, load, float(pace))
        for config, both in zip(configs, paces, strict=False)
        for load, pace in zip((1, 100), both, strict=True)
    ]
    kept = kept_configs(prior, seen, DEFAULTS)
    front = {
        config
        for config, (one, other) in zip(configs, paces, strict=False)
        if not any(a <= one and b <= other and (a, b) != (one, other) for a, b in paces)
    }
    assert len(kept) == MOST_CONFIGS and front <= kept and configs[0] in kept
    for knob in ("spec_version", "allreduce_fusion", "extra"):
        assert {getattr(one, knob) for one in kept} == {getattr(one, knob) for one in configs[:1000]}
    assert kept_configs(prior, seen[:200], DEFAULTS) == set(configs[:100])
