"""Stock samplers over a finite space: valid, never twice, resumable."""

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState

from search.config import SpecConfig, tree_bound
from search.errors import UsageError
from search.samplers.factory import make_sampler
from search.samplers.finite import MAY_ASK_AGAIN, SpaceExhausted
from search.samplers.knobs import distance, distributions_of, key_of, nearest
from search.spec.samplers import STOCK
from search.storage.optuna_side import quiet_optuna


def small_space():
    configs = [SpecConfig("off"), SpecConfig("off", allreduce_fusion="auto")]
    for version in ("v1", "v2"):
        for topk in (1, 2):
            for steps in (1, 2, 3):
                tokens = steps + 1 if topk == 1 else tree_bound(topk=topk, num_steps=steps)
                configs += [SpecConfig(version, topk, steps, tokens, allreduce_fusion=arf) for arf in ("off", "auto")]
    return configs


def with_page_sizes():
    return [SpecConfig("off")] + [
        SpecConfig("v2", 1, steps, steps + 1, extra=extra)
        for steps in (1, 2, 3)
        for extra in ((), (("page_size", 64),))
    ]


def new_study(sampler):
    with quiet_optuna():
        return optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)


def ask(study, sampler):
    trial = study.ask()
    config = SpecConfig.from_params(trial.relative_params)
    for name in config.params:
        trial.suggest_categorical(name, sampler.distributions[name].choices)
    return trial, config


def measure(study, trial, config):
    trial.set_constraint("launch", 0.0 if config.num_steps != 3 else 1.0)
    study.tell(trial, [10.0 - (config.num_steps or 0), 100.0 * (config.topk or 1)])


@pytest.mark.parametrize("name", STOCK)
@pytest.mark.parametrize("space", [small_space, with_page_sizes])
def test_every_config_is_asked_exactly_once_and_then_the_space_is_exhausted(name, space):
    sampler = make_sampler(name, configs=space(), seed=3)
    study = new_study(sampler)
    asked = []
    for _ in space():
        trial, config = ask(study, sampler)
        asked.append(config.config_id)
        measure(study, trial, config)
    assert sorted(asked) == sorted(config.config_id for config in space())
    assert sampler.remaining(study) == []
    with pytest.raises(SpaceExhausted, match="have been asked"):
        _ = study.ask().relative_params


@pytest.mark.parametrize("name", ["tpe", "nsga2", "random"])
def test_resumed_study_goes_on_as_if_it_had_never_stopped(name):
    def run(split):
        sampler = make_sampler(name, configs=small_space(), seed=5)
        study = new_study(sampler)
        ids = []
        for number in range(20):
            if number == split:
                sampler = make_sampler(name, configs=small_space(), seed=5)
                study.sampler = sampler
            trial, config = ask(study, sampler)
            ids.append(config.config_id)
            measure(study, trial, config)
        return ids

    assert run(split=None) == run(split=11)


def test_other_seed_asks_in_another_order():
    def first(seed):
        sampler = make_sampler("random", configs=small_space(), seed=seed)
        study = new_study(sampler)
        return [ask(study, sampler)[1].config_id for _ in range(6)]

    assert first(1) != first(2)


def test_running_trials_count_as_asked():
    sampler = make_sampler("tpe", configs=small_space(), seed=0)
    study = new_study(sampler)
    ids = [ask(study, sampler)[1].config_id for _ in small_space()]
    assert len(set(ids)) == len(small_space())


def test_failed_trial_frees_its_config_only_if_it_may_be_asked_again():
    sampler = make_sampler("grid", configs=small_space(), seed=0)
    study = new_study(sampler)
    for again in (True, False):
        trial, config = ask(study, sampler)
        trial.set_user_attr(MAY_ASK_AGAIN, again)
        study.tell(trial, state=TrialState.FAIL)
        assert (config in sampler.remaining(study)) is again
        assert config.config_id == "off"


def test_given_up_config_is_not_proposed():
    sampler = make_sampler("grid", configs=small_space(), seed=0)
    study = new_study(sampler)
    sampler.give_up(small_space()[0])
    assert ask(study, sampler)[1] == small_space()[1]


def test_spared_configs_are_not_proposed_until_they_are_spared_no_more():
    sampler = make_sampler("grid", configs=small_space(), seed=0)
    study = new_study(sampler)
    sampler.spare(small_space()[:2])
    assert ask(study, sampler)[1] == small_space()[2]
    sampler.spare([])
    assert ask(study, sampler)[1] == small_space()[0]


def test_enqueued_config_is_taken_as_it_is_and_not_proposed_again():
    sampler = make_sampler("tpe", configs=small_space(), seed=0)
    study = new_study(sampler)
    wanted = SpecConfig.from_id("v2-k2-s2-d7+arf=auto")
    study.enqueue_trial(wanted.params)
    assert wanted not in sampler.remaining(study)
    trial = study.ask()
    for name in wanted.params:
        trial.suggest_categorical(name, sampler.distributions[name].choices)
    assert trial.params == wanted.params


def test_tpe_learns_from_values_although_off_has_no_tree():
    """Of 60 configs, only deep ones of one worker are good: TPE finds them sooner than chance."""
    configs = [SpecConfig("off")] + [
        SpecConfig(version, 1, steps, steps + 1, allreduce_fusion=arf)
        for version in ("v1", "v2")
        for steps in range(1, 16)
        for arf in ("off", "auto")
    ]
    good = {
        config.config_id
        for config in configs
        if config.speculates and config.spec_version == "v2" and config.num_steps > 11
    }

    def found(name):
        total = 0
        for seed in range(4):
            sampler = make_sampler(name, configs=configs, seed=seed)
            study = new_study(sampler)
            for _ in range(30):
                trial, config = ask(study, sampler)
                total += config.config_id in good
                value = (config.num_steps or 0) + 20 * (config.spec_version == "v2")
                study.tell(trial, [100.0 - value, 10.0 + value])
        return total

    assert found("tpe") > found("random")


def test_unknown_sampler_lists_the_known_ones():
    with pytest.raises(UsageError, match="tpe, nsga2, random, grid, but got 'gp'"):
        make_sampler("gp", configs=small_space(), seed=0)


def test_distributions_hold_off_as_a_worker_version_and_sorted_values():
    space = distributions_of(small_space())
    assert space["spec_version"].choices == ("off", "v1", "v2")
    assert space["num_draft_tokens"].choices == (2, 3, 4, 7, 11)
    assert list(space) == ["spec_version", "topk", "num_steps", "num_draft_tokens", "allreduce_fusion"]


def test_chain_is_the_same_whatever_draft_tokens_are_proposed():
    chain = SpecConfig.from_id("v2-k1-s2-d3").params
    assert key_of({**chain, "num_draft_tokens": 16}) == key_of(chain)
    tree = SpecConfig.from_id("v1-k2-s2-d7").params
    assert key_of({**tree, "num_draft_tokens": 6}) != key_of(tree)


def test_nearest_counts_doublings_and_differing_words():
    wanted = {"spec_version": "v2", "topk": 2, "num_steps": 2, "num_draft_tokens": 8, "allreduce_fusion": "off"}
    ids = ["v2-k1-s1-d2", "v1-k2-s2-d7", "v2-k2-s4-d8"]
    assert nearest(wanted, [SpecConfig.from_id(i) for i in ids]).config_id == "v2-k2-s4-d8"
    assert distance(wanted, {**wanted, "num_draft_tokens": 4, "allreduce_fusion": "auto"}) == 2.0
    assert distance(wanted, {name: wanted[name] for name in wanted if name != "topk"}) == 1.0


@given(st.sampled_from(small_space()), st.sampled_from(small_space()))
def test_distance_is_symmetric_and_zero_only_for_the_same_config(one, other):
    assert distance(one.params, other.params) == distance(other.params, one.params)
    assert (distance(one.params, other.params) == 0) is (one == other)


def test_optuna_still_behaves_as_the_loop_relies_on():
    study = new_study(optuna.samplers.RandomSampler(seed=0))
    trial = study.ask({"x": optuna.distributions.CategoricalDistribution((1, 2))})
    trial.set_constraint("launch", 0.0)
    study.tell(trial, [1.0, 2.0])
    assert study.trials[0].constraints == {"launch": 0.0}
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        trial.set_constraint("other", 1.0)
    study.trials[0].set_constraint("other", 1.0)
    assert study.trials[0].constraints == {"launch": 0.0}
    infeasible = study.ask({"x": optuna.distributions.CategoricalDistribution((1, 2))})
    infeasible.set_constraint("launch", 1.0)
    study.tell(infeasible, [0.5, 3.0])
    gated = study.ask({"x": optuna.distributions.CategoricalDistribution((1, 2))})
    study.tell(gated, state=TrialState.PRUNED)
    assert [best.number for best in study.best_trials] == [0]
