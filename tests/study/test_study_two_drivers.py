"""A second driver of the same study that acts at the worst moment."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import optuna
import pytest
from optuna.trial import TrialState

from search.config import SpecConfig
from search.outcomes import Outcome
from search.samplers.finite import FiniteSpaceSampler
from search.spec.file import parse_study
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study.events import Ending
from search.study.resume import settle
from search.study.trials import Trials
from search.testing.engines import Script, ScriptedEngine


class Overtaken(FiniteSpaceSampler):
    """Calls `then` between choosing a config and having it, the first time."""

    then = staticmethod(lambda: None)

    def sample_relative(self, study, trial, search_space):
        chosen = super().sample_relative(study, trial, search_space)
        then, self.then = self.then, lambda: None
        then()
        return chosen


@pytest.fixture
def driver(lab):
    """Makes `Trials` as another process has them; all on one database."""
    lab.run(ScriptedEngine(lambda config, _: Script()), launches=1)
    spec = parse_study(lab.text, name="lab.yaml")
    opened = []

    def make(kind):
        sampler = kind(None, configs=[SpecConfig.from_id(c) for c in lab.configs], seed=0)
        store, storage = Store(lab.folder / "trials.db"), optuna_storage(lab.folder / "trials.db")
        opened.append((store, storage))
        study = optuna.load_study(study_name="lab", storage=storage, sampler=sampler)
        return sampler, Trials(study, sampler, spec, "measured", claim=partial(store.claim, "lab"))

    yield make
    for store, storage in opened:
        store.close()
        storage.remove_session()
        storage.engine.dispose()


def test_driver_that_is_overtaken_while_it_chooses_takes_another_config(lab, driver):
    slow, slow_trials = driver(Overtaken)
    _, fast_trials = driver(FiniteSpaceSampler)
    got = []
    slow.then = lambda: got.append(fast_trials.ask(None, stage="search")[1])
    got.append(slow_trials.ask(None, stage="search")[1])
    assert [config.config_id for config in got] == ["v1-k1-s1-d2", "v1-k1-s2-d3"]
    running = [trial.user_attrs["config_id"] for trial in lab.trials() if trial.state is TrialState.RUNNING]
    assert sorted(running) == ["v1-k1-s1-d2", "v1-k1-s2-d3"]


def test_config_of_an_abandoned_trial_may_be_had_again(lab, driver):
    _, first = driver(FiniteSpaceSampler)
    _, second = driver(FiniteSpaceSampler)
    trial, config = first.ask(None, stage="search")
    assert second.ask(config, stage="search") is None
    first.abandon(trial, reason="STOPPED")
    assert second.ask(config, stage="search")[1] == config
    assert first.ask(config, stage="search") is None


def test_last_launch_that_another_driver_takes_ends_the_run_without_one_too_many(lab):
    def taken(config, _):
        with Store(lab.folder / "trials.db") as store:
            (mine,) = store.launches("lab")
            other = store.begin_launch("lab", lambda n: replace(mine, number=n, trial=None))
            store.finish_launch("lab", replace(other, outcome=Outcome.MEASURED))
        return Script()

    assert lab.run(ScriptedEngine(taken), launches=2).ending is Ending.LAUNCHES
    assert [launch.number for launch in lab.launches()] == [1, 2]
    assert [trial.state for trial in lab.trials()] == [TrialState.COMPLETE, TrialState.FAIL]
    assert lab.run(ScriptedEngine(lambda config, _: Script()), launches=3).ending is Ending.LAUNCHES
    assert [launch.asked.config_id for launch in lab.launches()] == ["off", "off", "v2-k1-s2-d3"]


def test_driver_that_joins_while_the_baseline_runs_elsewhere_searches(lab, monkeypatch):
    """Its breaker must not take a launch without an outcome for a baseline that failed."""
    monkeypatch.setattr("search.storage.store.this_process", lambda: "another-host:1:1")
    lab.run(ScriptedEngine(lambda config, _: Script()), launches=1)
    monkeypatch.undo()
    with Store(lab.folder / "trials.db") as store:
        (done,) = store.launches("lab")
        store.finish_launch("lab", replace(done, outcome=None))  # as if it still ran
        store.beat("another-host:1:1", datetime.now(UTC))
    joined = lab.run(ScriptedEngine(lambda config, _: Script()), launches=3)
    assert joined.error is None and joined.ending is Ending.LAUNCHES
    assert [launch.number for launch in joined.launches] == [2, 3]
    assert [launch.outcome for launch in lab.launches()] == [None, Outcome.MEASURED, Outcome.MEASURED]


def test_driver_whose_open_trial_another_one_closes_goes_on_keeps_its_measurements_and_says_it_once(lab):
    """As a driver does that takes this one for dead: rows closed, the config free again."""

    def struck(config, _):
        if config.speculates:
            storage = optuna_storage(lab.folder / "trials.db")
            study = optuna.load_study(study_name="lab", storage=storage)
            sampler = FiniteSpaceSampler(None, configs=[SpecConfig.from_id(c) for c in lab.configs], seed=0)
            with Store(lab.folder / "trials.db") as store:
                spec = parse_study(lab.text, name="lab.yaml")
                settle(Trials(study, sampler, spec, "measured"), name="lab", store=store, is_live=lambda _: False)
            storage.remove_session()
            storage.engine.dispose()
        return Script()

    heard = lab.run(ScriptedEngine(struck), launches=4)
    assert heard.error is None and heard.ending is Ending.LAUNCHES
    launches = lab.launches()
    assert [launch.outcome for launch in launches] == [Outcome.MEASURED] * 4
    assert all(launch.phases for launch in launches)
    assert len({launch.asked for launch in launches}) == 4
    assert sum("was closed by another driver" in line for line in heard.notices) == 1
    # The sampler learns of each measurement, though its trial was closed.
    told = {trial.user_attrs["config_id"] for trial in lab.trials() if trial.state is TrialState.COMPLETE}
    assert told == {launch.asked.config_id for launch in launches}
    assert all(trial.state.is_finished() for trial in lab.trials())
