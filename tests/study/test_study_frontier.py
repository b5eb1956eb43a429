"""The FrontierSampler inside a study: reasons, evidence, gating, stopping, restarts."""

import pytest
from optuna.trial import TrialState

from search.config import SpecConfig
from search.contracts import RealClock
from search.errors import LoadFailed
from search.outcomes import Evidence, Outcome, Reason
from search.samplers.evidence import EVIDENCE
from search.samplers.frontier import FrontierSampler
from search.spec.file import parse_study
from search.storage.optuna_side import optuna_storage
from search.study.events import Ending
from search.study.forecasts import launch_cost
from search.testing.engines import Script, ScriptedEngine, Speed

CHAINS = ("v1-k1-s1-d2", "v1-k1-s2-d3", "v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4")
TREES = ("v1-k2-s2-d7", "v1-k4-s2-d21", "v1-k4-s3-d37", "v1-k4-s4-d53", "v1-k8-s2-d73")
SPACE = ("off", *CHAINS, *TREES)


def speed(config):
    """Drafts that help by 0.6 a step, and a verify pass that tokens make dear, the more so at C=100."""
    if not config.speculates:
        return Speed({1: 100.0, 30: 600.0, 100: 1000.0})
    accept = 1 + sum(min(0.9, 0.55 + 0.05 * config.topk) ** step for step in range(1, config.num_steps + 1))
    low = accept / (10.0 + 0.12 * config.num_draft_tokens + 1.5 * config.num_steps)
    high = accept / (1.0 + 0.22 * config.num_draft_tokens)
    return Speed({1: 1000 * low, 30: 600.0, 100: 700.0 * high}, accept=accept)


def usual(config, _=0, **more):
    return Script(speed(config), **more)


@pytest.fixture
def frontier(lab):
    lab.text = lab.text.replace("sampler: random", "sampler: frontier").replace(
        "closing: false", "stop_early: false, closing: false"
    )
    lab.configs = SPACE
    return lab


def ids(launches):
    return [launch.asked.config_id for launch in launches]


def outlook_of(lab):
    import optuna

    storage = optuna_storage(lab.folder / "trials.db")
    sampler = FrontierSampler(configs=[SpecConfig.from_id(name) for name in lab.configs], seed=0)
    study = optuna.load_study(study_name="lab", storage=storage, sampler=sampler)
    outlook = sampler.outlook(study)
    storage.remove_session()
    storage.engine.dispose()
    return outlook


def test_frontier_is_what_a_study_file_gets_without_a_word(study_text):
    assert parse_study(study_text.replace("sampler: random\n", ""), name="x").sampler == "frontier"


def test_each_proposal_says_what_is_expected_of_it_and_the_record_keeps_it(frontier):
    heard = frontier.run(ScriptedEngine(usual), launches=4)
    said = [launch.why for launch in heard.launching_[2:]]
    assert all(why.startswith("expected front gain ") and "feasible" in why and "tok/s" in why for why in said)
    assert [launch.why for launch in frontier.launches()[2:]] == said


def test_what_was_expected_is_stored_before_the_launch_and_held_against_its_numbers(frontier):
    heard = frontier.run(ScriptedEngine(usual), launches=5)
    baseline, *others = frontier.launches()
    assert baseline.expected is None  # nothing is known before it
    assert [launch.stage for launch in others] == ["known", "search", "search", "search"]
    for launch in others:
        slow, middle, fast = launch.expected.second
        assert 0 < slow < middle < fast and launch.expected.first == tuple(sorted(launch.expected.first))
        if launch.stage == "search":
            assert (
                f"and {middle:.0f} tok/s" in launch.why
                and f"expected front gain {launch.expected.gain:.1%}" in launch.why
            )
    told = heard.judgement.predictions.numbers
    assert {one.launch for one in told} == {2, 3, 4, 5}
    assert all(one.measured.value > 0 for one in told)


def test_sampler_without_a_belief_expects_nothing(lab):
    heard = lab.run(ScriptedEngine(usual), launches=3)
    assert all(launch.expected is None for launch in lab.launches())
    assert heard.judgement.predictions.sentences == ()


def test_trials_keep_repeats_and_histograms_for_the_belief(frontier):
    frontier.run(ScriptedEngine(usual), launches=3)
    told = frontier.trial("v2-k1-s2-d3").user_attrs[EVIDENCE]
    assert len(told["1"]["ms"]) == len(told["100"]["ms"]) == 2
    assert told["100"]["accept"] == pytest.approx(1.96)


def test_garbage_teaches_no_speed_however_fast_it_came(frontier):
    garbage = LoadFailed(Reason.BAD_OUTPUT, Evidence("one token for ever"))
    fast = Script(Speed({1: 900.0, 100: 9000.0}), phase_error={30: garbage}, boot_s=9e9)
    engine = ScriptedEngine(lambda config, _: fast if config.config_id == "v2-k1-s2-d3" else usual(config))
    frontier.run(engine, launches=2)
    trial = frontier.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.COMPLETE and trial.constraints == {"launch": 1.0}
    assert EVIDENCE not in trial.user_attrs
    assert [str(config) for config in outlook_of(frontier).front] == ["off"]


def test_restarted_study_proposes_what_an_uninterrupted_one_would(frontier):
    whole = ids(frontier.run(ScriptedEngine(usual), launches=8).launches)
    (frontier.folder / "trials.db").unlink()
    parts = ids(frontier.run(ScriptedEngine(usual), launches=5).launches)
    parts += ids(frontier.run(ScriptedEngine(usual), launches=8).launches)
    assert parts == whole


def test_proposal_without_hope_ends_after_its_latency_phase(frontier):
    heard = frontier.run(ScriptedEngine(usual))
    assert heard.ending is Ending.EXHAUSTED and len(heard.launches) == len(SPACE)
    gated = [launch for launch in heard.launches if launch.outcome is Outcome.GATED]
    assert gated and all(launch.stage == "search" for launch in gated)
    for launch in gated:
        assert {phase.concurrency for phase in launch.phases} == {1} and len(launch.phases) == 2
        assert "C=100 skipped" in launch.evidence.root_line and "cannot enter the front" in launch.evidence.root_line
        trial = frontier.trial(launch.asked.config_id)
        assert trial.state is TrialState.PRUNED and trial.user_attrs["c1_output_tps"] > 0
    # No hope means none: nothing that was skipped is on the front of the truth.
    truth = {name: speed(SpecConfig.from_id(name)).rates for name in SPACE}
    for launch in gated:
        mine = truth[launch.asked.config_id]
        assert any(other[1] > mine[1] and other[100] > mine[100] for other in truth.values())


def test_known_configs_are_measured_in_full_although_there_is_no_hope(frontier):
    text = frontier.text.replace("known: [v2-k1-s2-d3]", f"known: [{', '.join(SPACE[1:])}]")
    heard = frontier.run(ScriptedEngine(usual), text=text)
    assert len(heard.launches) == len(SPACE)
    assert {launch.outcome for launch in heard.launches} == {Outcome.MEASURED}


def test_search_ends_by_itself_with_both_numbers_and_stays_ended(frontier):
    text = frontier.text.replace("stop_early: false, ", "")
    heard = frontier.run(ScriptedEngine(usual), text=text)
    assert heard.ending is Ending.SETTLED and len(heard.launches) < len(SPACE)
    (said,) = heard.notices
    assert said.startswith("the search ends by itself: the best next launch is expected to grow the front by ")
    assert "by scatter alone" in said
    again = ScriptedEngine(usual)
    assert frontier.run(again, text=text).ending is Ending.SETTLED and again.launched == []


def test_cost_of_a_launch_is_the_cost_models_until_boots_were_seen(frontier):
    spec = parse_study(frontier.text, name="x")
    heard = frontier.run(ScriptedEngine(lambda config, _: usual(config, boot_s=2000.0)), launches=3)
    before, after = launch_cost(spec), launch_cost(spec, heard.launches)
    # The generic cost model boots in 60 s and stops in 8 s.
    assert (before.boot_s, after.boot_s) == (68.0, 2008.0)
    # Two repeats of 16 requests and two warm-up rounds of 2; of 400 and 100 at the other end,
    # where a warm-up request has an eighth of the tokens.
    assert after.tokens == ((2 * 16 + 2 * 2) * 256, 2 * 400 * 256 + 2 * 100 * 32)


def test_several_slots_spread_and_gate_in_threads(frontier):
    heard = frontier.run(ScriptedEngine(usual), slots=3, clock=RealClock())
    assert heard.ending is Ending.EXHAUSTED and heard.error is None
    launched = [launch.asked.config_id for launch in heard.launches if launch.trial is not None]
    assert sorted(launched) == sorted(SPACE)
    assert {launch.outcome for launch in heard.launches} <= {Outcome.MEASURED, Outcome.GATED}
