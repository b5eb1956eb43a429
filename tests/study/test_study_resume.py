"""Continuing a study: refusals in words, rows of dead runs closed, nothing mixed."""

from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from search.config import SpecConfig
from search.errors import LaunchFailed, UsageError
from search.outcomes import Evidence, Outcome, Reason
from search.samplers.factory import make_sampler
from search.spec.file import parse_study
from search.spec.fingerprint import differences, fingerprint, study_name
from search.storage.optuna_side import optuna_storage
from search.storage.owner import OWNER
from search.storage.store import Store
from search.study.events import Ending
from search.study.resume import settle
from search.study.trials import Trials
from search.testing.engines import Script, ScriptedEngine, Speed

FAST = Script(Speed({1: 100.0, 30: 600.0, 100: 1000.0}))


def engine():
    return ScriptedEngine(lambda config, _: FAST)


def test_other_conditions_are_refused_with_each_difference_and_no_launch(lab):
    lab.run(engine(), launches=2)
    changed = lab.text.replace("release: 0.5.11", "release: 0.5.13\n  server_args: {mem-fraction-static: 0.8}")
    second = engine()
    error = lab.run(second, text=changed).error
    assert isinstance(error, UsageError) and second.launched == []
    assert "  engine.release: 0.5.11 -> 0.5.13\n" in str(error)
    assert "  engine.server_args.mem-fraction-static: not set -> 0.8\n" in str(error)
    assert "another `--storage`" in str(error)
    # Nothing was changed by the refusal.
    assert lab.run(engine(), launches=3).ending is Ending.LAUNCHES


def test_grown_space_is_refused_naming_the_knob(lab):
    lab.run(engine(), launches=2)
    error = lab.run(engine(), configs=(*lab.configs, "v1-k8-s1-d9")).error
    assert isinstance(error, UsageError)
    assert "  topk: 1, 2 -> 1, 2, 8\n" in str(error) and "new: v1-k8-s1-d9" in str(error)
    error = lab.run(engine(), configs=lab.configs[:-1]).error
    assert "gone: v2-k1-s3-d4" in str(error) and "(7 valid configs, now 6)" in str(error)


def test_budget_watch_known_and_questions_may_change(lab):
    lab.run(engine(), launches=2)
    changed = lab.text.replace("watch: [30]", "watch: [10, 30]").replace("known: [v2-k1-s2-d3]", "known: [v1-k1-s1-d2]")
    changed += "questions:\n  deeper: {config: v2-k1-s3-d4, against: [v2-k1-s2-d3], at: [1]}\n"
    second = engine()
    assert lab.run(second, text=changed, launches=4).ending is Ending.LAUNCHES
    assert second.launched == ["v1-k1-s1-d2", "v2-k1-s3-d4"]


def test_conditions_may_change_while_nothing_was_learned(lab):
    broken = Script(launch_error=LaunchFailed(Reason.ARG_UNKNOWN, Evidence("unrecognized arguments: --tp 2")))
    lab.run(ScriptedEngine(lambda config, _: broken), text=lab.text.replace("0.5.11", "0.5.11\n  server_args: {tp: 2}"))
    assert lab.run(engine(), launches=3).ending is Ending.LAUNCHES


@pytest.fixture
def half_done(lab):
    """One measured launch, then rows as a killed driver leaves them; yields a way to settle them."""
    lab.run(engine(), launches=1)
    spec = parse_study(lab.text, name="lab.yaml")
    sampler = make_sampler("random", configs=[SpecConfig.from_id(c) for c in lab.configs], seed=0)
    storage = optuna_storage(lab.folder / "trials.db")
    study = optuna.load_study(study_name="lab", storage=storage, sampler=sampler)
    with Store(lab.folder / "trials.db") as store:
        yield lab, Trials(study, sampler, spec, "measured"), store
    storage.remove_session()
    storage.engine.dispose()


def leave_running(trials, store, config_id, *, phases=(), outcome=None, owner="gone:1:1"):
    config = SpecConfig.from_id(config_id)
    trial, _ = trials.ask(config, stage="search")
    trial.set_user_attr(OWNER, owner)
    done = store.launches("lab")[0]
    begun = store.begin_launch(
        "lab",
        lambda n: replace(done, number=n, asked=config, config=config, trial=trial.number, outcome=None, phases=()),
    )
    for phase in phases:
        store.add_phase("lab", begun.number, phase)
    if outcome:
        store.finish_launch("lab", replace(begun, outcome=outcome))
    return trial.number


def test_rows_of_dead_runs_are_closed_finished_or_left_to_their_live_owner(half_done):
    lab, trials, store = half_done
    phases = store.launches("lab")[0].phases
    finished = leave_running(trials, store, "v2-k1-s1-d2", phases=phases, outcome=Outcome.MEASURED)
    live = leave_running(trials, store, "v2-k1-s2-d3", owner="elsewhere")
    dead = leave_running(trials, store, "v2-k1-s3-d4", phases=phases[:1])
    launches = settle(trials, name="lab", store=store, is_live=lambda owner: owner == "elsewhere")
    states = {trial.number: trial.state for trial in lab.trials()}
    assert (states[finished], states[live], states[dead]) == (TrialState.COMPLETE, TrialState.RUNNING, TrialState.FAIL)
    assert [launch.outcome for launch in launches] == [Outcome.MEASURED, Outcome.MEASURED, None, Outcome.INTERRUPTED]
    assert len(launches[3].phases) == 1 and launches[3].reason is Reason.STOPPED
    assert launches == store.launches("lab")
    assert lab.trial("v2-k1-s1-d2").constraints == {"launch": 0.0}


def test_dead_runs_config_is_asked_again(half_done):
    lab, trials, store = half_done
    leave_running(trials, store, "v2-k1-s2-d3")
    again = engine()
    lab.run(again, launches=3)
    assert again.launched == ["v2-k1-s2-d3"]


def test_enqueued_trial_that_never_started_is_closed(half_done):
    lab, trials, store = half_done
    trials._study.enqueue_trial(SpecConfig.from_id("v2-k1-s2-d3").params)
    settle(trials, name="lab", store=store)
    assert not [trial for trial in lab.trials() if trial.state is TrialState.WAITING]
    assert not trials.is_taken(SpecConfig.from_id("v2-k1-s2-d3"))


def test_kinds_never_share_a_name():
    assert study_name("kimi-k25", "measured") == "kimi-k25"
    assert study_name("kimi-k25", "simulated") == "kimi-k25.simulated"
    assert study_name("recordings/kimi-k25-story", "replay") == "kimi-k25-story.replay"


def test_fingerprint_takes_facts_and_hides_secrets(study_text):
    def of(token, **facts):
        text = study_text.replace("release: 0.5.11", f"release: 0.5.11\n  env: {{HF_TOKEN: {token}, NCCL_ALGO: Ring}}")
        return fingerprint(parse_study(text, name="x"), kind="measured", facts=facts)

    first, second = of("hf_first", gpus="1x H200"), of("hf_second", gpus="1x B200")
    assert "hf_first" not in str(first) and first["engine.env.NCCL_ALGO"] == "Ring"
    changed = [line.split(":")[0] for line in differences(first, second)]
    assert changed == ["engine.env.HF_TOKEN", "gpus"]


def test_log_that_a_killed_driver_left_is_scrubbed_by_the_next_run(half_done, monkeypatch):
    lab, trials, store = half_done
    monkeypatch.setenv("HUB_TOKEN", "s3cretS3cret9")
    leave_running(trials, store, "v2-k1-s2-d3")
    folder = lab.folder / "reports" / store.launches("lab")[-1].folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.log").write_text("login with s3cretS3cret9\nready\n")
    lab.run(engine(), launches=2)
    assert (folder / "server.log").read_text() == "login with ***\nready\n"
