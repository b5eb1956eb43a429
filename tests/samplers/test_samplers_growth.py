"""What an ask costs late in a study, counted in calls of our own code: times would tell of the machine.

What Optuna's samplers do with the trials that they are shown is theirs; they are asked once.
"""

import optuna
import pytest
from optuna.trial import create_trial

from search.config import SpecConfig
from search.samplers.factory import make_sampler
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


@pytest.mark.parametrize("name", ["tpe", "random", "grid"])
def test_ask_at_1000_trials_costs_at_most_twice_what_it_costs_at_100(name, configs, calls_of):
    costs = []
    for many in (100, 1000):
        sampler = make_sampler(name, configs=configs, seed=1)
        study = study_of(sampler, configs[1 : many + 1])
        study.tell(study.ask(), [1.0, 1.0])  # each trial is read once, by the first ask after its end
        _ = study.ask().relative_params
        costs.append(calls_of(lambda study=study: study.ask().relative_params))
    assert costs[1] <= 2 * costs[0], costs
