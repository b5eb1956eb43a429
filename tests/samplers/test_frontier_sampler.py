"""FrontierSampler: what it asks, in which order, and what it learns from."""

import optuna
import pytest
from optuna.trial import TrialState

from benchmarks.race.worlds.invented import invented
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.model.observations import Observation
from search.samplers.factory import make_sampler
from search.samplers.finite import MAY_ASK_AGAIN, SpaceExhausted
from search.samplers.frontier import WHY, FrontierSampler, Parts
from search.samplers.outlook import LaunchCost
from search.storage.optuna_side import quiet_optuna

TABLE = invented(8)


def new_study(sampler, storage=None):
    with quiet_optuna():
        return optuna.create_study(
            study_name="s", directions=["minimize", "maximize"], sampler=sampler, storage=storage, load_if_exists=True
        )


def frontier(configs=TABLE.configs, seed=0):
    return make_sampler("frontier", configs=configs, seed=seed)


def ask(study):
    trial = study.ask()
    config = SpecConfig.from_params(trial.relative_params)
    for name in config.params:
        trial.suggest_categorical(name, study.sampler.distributions[name].choices)
    return trial, config


def values(config, table=TABLE):
    return [table.ms_per_token[config, 1], 1e5 / table.ms_per_token[config, 100]]


def tell(study, trial, config, *, fails=False):
    trial.set_constraint("launch", 1.0 if fails else 0.0)
    study.tell(trial, values(config))


def run(study, launches):
    asked = []
    for _ in range(launches):
        trial, config = ask(study)
        asked.append(config)
        tell(study, trial, config, fails=config in TABLE.failing)
    return asked


def test_first_ask_of_an_empty_study_is_the_simplest_baseline():
    assert ask(new_study(frontier()))[1] == SpecConfig("off")


def test_every_config_is_asked_exactly_once_and_then_the_space_is_exhausted():
    space = TABLE.configs[:10]
    study = new_study(frontier(space))
    assert sorted(run(study, 10), key=str) == sorted(space, key=str)
    with pytest.raises(SpaceExhausted, match="All 10 valid configs"):
        ask(study)


def test_resumed_study_goes_on_as_if_it_had_never_stopped():
    straight = run(new_study(frontier(seed=4)), 7)
    storage = optuna.storages.InMemoryStorage()
    halves = run(new_study(frontier(seed=4), storage), 3)
    halves += run(new_study(frontier(seed=4), storage), 4)
    assert halves == straight


def test_asks_in_parallel_are_all_different_and_look_beyond_the_first_choice():
    study = new_study(frontier())
    run(study, 4)
    together = [ask(study)[1] for _ in range(6)]
    assert len(set(together)) == 6


def test_running_trial_counts_as_it_is_expected_to_end():
    study = new_study(frontier())
    run(study, 3)
    sampler = study.sampler
    before = sampler.outlook(study)
    _, config = ask(study)
    after = sampler.outlook(study)
    place = after.prior.index[config]
    assert after.gains[place] < 0.5 * before.gains[place]


def test_gated_trial_teaches_its_half_and_is_not_asked_again():
    study = new_study(frontier())
    run(study, 3)
    trial, config = ask(study)
    begun = study.sampler.outlook(study, but=trial.number)
    trial.set_user_attr("c1_output_tps", 1000.0 / values(config)[0])
    study.tell(trial, state=TrialState.PRUNED)
    outlook = study.sampler.outlook(study)
    place = outlook.prior.index[config]
    assert outlook.belief.std(1)[place] < 0.6 * begun.belief.std(1)[place]
    assert config not in outlook.front
    assert config not in run(study, 5)


def test_failed_configs_make_their_like_less_probable_to_start():
    study = new_study(frontier())
    done = run(study, 2)
    big = [config for config in TABLE.configs if config.verify_tokens >= 8 and config not in done]
    before = study.sampler.outlook(study).feasible
    study.enqueue_trial(dict(big[0].params))
    trial = study.ask()
    for name in big[0].params:
        trial.suggest_categorical(name, study.sampler.distributions[name].choices)
    trial.set_user_attr("reason", "OOM_GRAPH")
    tell(study, trial, big[0], fails=True)
    outlook = study.sampler.outlook(study)
    others = [outlook.prior.index[config] for config in big[1:]]
    assert outlook.feasible[outlook.prior.index[big[0]]] < 0.1
    assert all(outlook.feasible[others] < before[others])


def test_lost_trial_frees_its_config_and_teaches_nothing():
    study = new_study(frontier())
    run(study, 3)
    trial, config = ask(study)
    trial.set_user_attr(MAY_ASK_AGAIN, True)
    study.tell(trial, state=TrialState.FAIL)
    assert ask(study)[1] == config


def test_why_of_a_choice_is_kept_with_its_trial():
    study = new_study(frontier())
    run(study, 4)
    why = study.trials[-1].user_attrs[WHY]
    assert why.startswith("expected front gain ")
    assert "feasible" in why
    assert "tok/s" in why


@pytest.mark.parametrize(
    ("told", "fails"),
    [([5.0, 100.0], False), ([5.0, 100.0], True), ([float("inf"), 100.0], False), ([0.0, -1.0], False)],
)
def test_garbage_for_every_config_still_ends(told, fails):
    space = TABLE.configs[:8]
    study = new_study(frontier(space))
    for _ in space:
        trial, _ = ask(study)
        trial.set_constraint("launch", 1.0 if fails else 0.0)
        study.tell(trial, told)
    with pytest.raises(SpaceExhausted):
        ask(study)


def test_study_with_other_directions_is_asked_at_random_by_seed_and_trial():
    def first(seed):
        sampler = FrontierSampler(configs=TABLE.configs, seed=seed)
        with quiet_optuna():
            study = optuna.create_study(direction="minimize", sampler=sampler)
        return [study.ask().relative_params for _ in range(3)]

    assert first(1) == first(1) != first(2)


def low_phase(config, ms):
    return [
        PhaseResult(
            concurrency=1,
            repeat=1,
            requests=16,
            output_tokens=None,
            duration_s=None,
            output_tps=1000.0 / ms,
            whole_run_tps=None,
            tpot_ms=ms,
            ttft_ms=None,
            accept_length=None,
        )
    ]


def test_hopeless_low_phase_skips_the_high_one_and_a_leading_one_does_not():
    study = new_study(frontier())
    study.sampler._cost = LaunchCost(boot_s=20.0)
    done = run(study, 6)
    trial, config = ask(study)
    best = min(values(other)[0] for other in done)
    frozen = study.get_trials(deepcopy=False)[trial.number]
    assert study.sampler.skips_second(study, frozen, low_phase(config, 6 * best))
    assert not study.sampler.skips_second(study, frozen, low_phase(config, 0.8 * best))


def test_baseline_is_never_cut_short():
    study = new_study(frontier())
    trial, config = ask(study)
    frozen = study.get_trials(deepcopy=False)[trial.number]
    assert config == SpecConfig("off")
    assert not study.sampler.skips_second(study, frozen, low_phase(config, 1e4))


def test_without_the_part_gating_nothing_is_cut_short():
    study = new_study(FrontierSampler(configs=TABLE.configs, seed=0, parts=Parts(gating=False)))
    study.sampler._cost = LaunchCost(boot_s=20.0)
    run(study, 6)
    trial, config = ask(study)
    frozen = study.get_trials(deepcopy=False)[trial.number]
    assert not study.sampler.skips_second(study, frozen, low_phase(config, 1e4))


def test_without_the_part_feasibility_failures_teach_nothing():
    study = new_study(FrontierSampler(configs=TABLE.configs, seed=0, parts=Parts(feasibility=False)))
    run(study, 2)
    before = study.sampler.outlook(study).feasible
    trial, config = ask(study)
    tell(study, trial, config, fails=True)
    assert list(study.sampler.outlook(study).feasible) == list(before)


def test_without_physics_the_belief_starts_flat_and_still_asks_every_config_once():
    space = TABLE.configs[:9]
    study = new_study(FrontierSampler(configs=space, seed=0, parts=Parts(physics=False)))
    assert sorted(run(study, 9), key=str) == sorted(space, key=str)


def test_parts_that_are_off_hide_what_they_would_have_told():
    seen = Observation(SpecConfig("v2", 1, 2, 3), 1, 5.0, accept_length=2.1, histogram=(20.0, 30.0, 50.0))
    assert Parts().reduced(seen) == seen
    assert Parts(histograms=False).reduced(seen).histogram == ()
    assert Parts(histograms=False).reduced(seen).accept_length == 2.1
    assert Parts(split=False).reduced(seen).accept_length is None
