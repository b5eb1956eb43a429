"""The loop from first baseline to last proposal, on a scripted engine."""

from itertools import count

import pytest
from optuna.trial import TrialState

from search.config import SpecConfig
from search.contracts import StopReport
from search.errors import BreakerOpen, Interrupted, LaunchFailed, LoadFailed, UsageError
from search.outcomes import Evidence, Note, Outcome, Reason
from search.study.events import Ending
from search.testing.engines import Script, ScriptedEngine, Speed

OFF = Speed({1: 100.0, 30: 600.0, 100: 1000.0})
CHAIN = Speed({1: 90.0, 30: 700.0, 100: 1100.0}, accept=2.0)


def failing(reason, line="boom", log=""):
    return Script(launch_error=LaunchFailed(reason, Evidence(line, log_path=log)))


def usual(config, _=0):
    return Script(CHAIN if config.speculates else OFF)


def engine_with(**scripts):
    """The usual engine, but for some config ids (written with `_` for `-`) a list of scripts comes first."""
    by_id = {name.replace("_", "-"): mine for name, mine in scripts.items()}

    def script(config, before):
        mine = by_id.get(config.config_id, ())
        return mine[before] if before < len(mine) else usual(config)

    return ScriptedEngine(script)


def test_run_launches_baseline_then_known_then_everything_else_once(lab):
    engine = ScriptedEngine(usual)
    heard = lab.run(engine)
    assert heard.ending is Ending.EXHAUSTED and heard.endings == [Ending.EXHAUSTED]
    assert engine.launched[:2] == ["off", "v2-k1-s2-d3"]
    assert sorted(engine.launched) == sorted(lab.configs)
    assert [launch.stage for launch in heard.launches] == ["baseline", "known"] + ["search"] * 5
    assert engine.open == 0


def test_run_interleaves_objective_phases_and_then_takes_a_cheap_watch_phase(lab):
    engine = ScriptedEngine(usual)
    lab.run(engine, launches=1)
    # 120 requests of 256 tokens at C=30 take 51 s at 600 tok/s, less than a boot of 60 s, but the
    # only rate known is 1000 tok/s at C=100, scaled to 300 tok/s at 30: 102 s.
    assert engine.phases == [(1, 1), (100, 1), (1, 2), (100, 2)]
    # On later starts it may take a fifth of the boot.
    engine = ScriptedEngine(lambda config, _: Script(OFF, boot_s=515.0))
    lab.run(engine, launches=2)
    assert engine.phases == [(1, 1), (100, 1), (1, 2), (100, 2), (30, 1)]


def test_measured_trial_is_complete_with_both_values_constraint_and_attributes(lab):
    lab.run(ScriptedEngine(usual), launches=2)
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.COMPLETE
    assert trial.values == pytest.approx([1000 / 90, 1100.0])
    assert trial.constraints == {"launch": 0.0}
    assert trial.params == {
        "spec_version": "v2", "topk": 1, "num_steps": 2, "num_draft_tokens": 3, "allreduce_fusion": "off",
    }  # fmt: skip
    wanted = {"outcome": "MEASURED", "reason": None, "feasible": True, "kind": "measured", "notes": []}
    assert wanted.items() <= trial.user_attrs.items()
    assert trial.user_attrs["c1_output_tps"] == pytest.approx(90.0)
    assert trial.user_attrs["accept_c100"] == 2.0
    assert lab.trial("off").params == {"spec_version": "off", "allreduce_fusion": "off"}


def test_failed_config_is_complete_infeasible_and_no_better_than_the_worsened_baseline(lab):
    heard = lab.run(engine_with(v2_k1_s2_d3=[failing(Reason.OOM_GRAPH)]), launches=2)
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.COMPLETE and trial.constraints == {"launch": 1.0}
    assert trial.values == pytest.approx([11.0, 900.0])
    assert trial.user_attrs["feasible"] is False and trial.user_attrs["reason"] == "OOM_GRAPH"
    assert heard.judgement.failures[0].root_line == "boom"


def test_gone_host_is_tried_once_more_at_the_end_of_the_stage(lab):
    text = lab.text.replace("known: [v2-k1-s2-d3]", "known: [v2-k1-s2-d3, v1-k1-s2-d3]")
    engine = engine_with(v2_k1_s2_d3=[failing(Reason.HOST_BUSY)])
    # Three starts of a server: what found its host busy started none, and costs nothing.
    heard = lab.run(engine, text=text, launches=3)
    assert engine.launched == ["off", "v2-k1-s2-d3", "v1-k1-s2-d3", "v2-k1-s2-d3"]
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.COMPLETE
    assert [launch.trial for launch in heard.launches if launch.asked.config_id == "v2-k1-s2-d3"] == [trial.number] * 2
    assert heard.launches[3].why == "once more after HOST_BUSY"


def test_host_lost_twice_ends_as_fail_without_values_and_is_not_asked_again_in_this_run(lab):
    engine = engine_with(v2_k1_s2_d3=[failing(Reason.HOST_BUSY)] * 2)
    heard = lab.run(engine)
    assert engine.launched.count("v2-k1-s2-d3") == 2 and heard.ending is Ending.EXHAUSTED
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.FAIL and trial.values is None and trial.user_attrs["outcome"] == "LOST"
    # The next run may find the host mended.
    again = ScriptedEngine(usual)
    assert lab.run(again).ending is Ending.EXHAUSTED
    assert again.launched == ["v2-k1-s2-d3"]


def test_host_fault_in_the_search_is_repeated_after_the_next_launch(lab):
    seen = []

    def script(config, before):
        seen.append(config.config_id)
        return failing(Reason.PORT_BUSY) if len(seen) == 3 else usual(config)

    assert lab.run(ScriptedEngine(script)).ending is Ending.EXHAUSTED
    assert seen[2] == seen[4] and len(seen) == 8


def test_flake_is_retried_at_once_and_the_second_attempt_says_unstable(lab):
    engine = engine_with(v2_k1_s2_d3=[failing(Reason.CUDA_FAULT)])
    heard = lab.run(engine, launches=3)
    assert engine.launched == ["off", "v2-k1-s2-d3", "v2-k1-s2-d3"]
    assert heard.launches[2].notes == (Note.UNSTABLE,)
    assert lab.trial("v2-k1-s2-d3").state is TrialState.COMPLETE


def test_config_failure_is_not_retried(lab):
    script = Script(OFF, phase_error={100: LoadFailed(Reason.SERVER_CRASH_LOAD, Evidence("died"))})
    engine = engine_with(v2_k1_s2_d3=[script])
    heard = lab.run(engine)
    assert engine.launched.count("v2-k1-s2-d3") == 1
    failed = heard.launches[1]
    assert failed.outcome is Outcome.FAILED and [phase.concurrency for phase in lab.launches()[1].phases] == [1]
    assert engine.open == 0


def test_server_that_ran_another_config_files_the_measurement_under_what_ran(lab):
    other = Script(CHAIN, runs=SpecConfig.from_id("v1-k1-s2-d3"))
    engine = engine_with(v2_k1_s2_d3=[other])
    heard = lab.run(engine)
    assert heard.launches[1].config.config_id == "v1-k1-s2-d3" and heard.launches[1].asked.config_id == "v2-k1-s2-d3"
    assert Note.EFFECTIVE_DIFFERS in heard.launches[1].notes
    asked = lab.trial("v2-k1-s2-d3")
    assert asked.state is TrialState.FAIL and asked.user_attrs["feasible"] is False
    ran = lab.trial("v1-k1-s2-d3")
    assert ran.state is TrialState.COMPLETE and ran.constraints == {"launch": 0.0}
    assert ran.values == pytest.approx([1000 / 90, 1100.0])
    # Both count as asked: neither is launched again.
    assert engine.launched.count("v1-k1-s2-d3") == 0 and engine.launched.count("v2-k1-s2-d3") == 1


def test_accept_length_that_falls_under_load_is_noted(lab):
    speed = Speed({1: 90.0, 30: 700.0, 100: 1100.0}, accept={1: 2.37, 30: 1.2, 100: 1.15})
    heard = lab.run(engine_with(v2_k1_s2_d3=[Script(speed)]), launches=2)
    assert heard.launches[1].notes == (Note.ACCEPT_DRIFT,)


def test_drafts_that_never_help_are_noted_and_never_picked(lab):
    heard = lab.run(engine_with(v2_k1_s2_d3=[Script(Speed({1: 200.0, 100: 2000.0}, accept=1.0),
                                                    notes=(Note.NO_DRAFT_GAIN,))]), launches=2)  # fmt: skip
    assert heard.launches[1].notes == (Note.NO_DRAFT_GAIN,)
    assert [pick.result.config.config_id for pick in heard.judgement.picks] == ["off"]


def test_phase_that_a_recording_lacks_gates_the_trial(lab):
    heard = lab.run(engine_with(v2_k1_s2_d3=[Script(Speed({1: 90.0}))]), launches=2)
    assert heard.launches[1].outcome is Outcome.GATED
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.PRUNED and trial.values is None
    assert trial.user_attrs["c1_output_tps"] == pytest.approx(90.0)


def test_launch_budget_counts_every_start_of_the_studys_life(lab):
    assert lab.run(ScriptedEngine(usual), launches=3).ending is Ending.LAUNCHES
    second = ScriptedEngine(usual)
    heard = lab.run(second, launches=5)
    assert heard.ending is Ending.LAUNCHES and len(second.launched) == 2
    assert heard.starts[0].already == 3 and heard.starts[0].expected_hours is not None
    assert [launch.number for launch in lab.launches()] == [1, 2, 3, 4, 5]
    assert lab.run(ScriptedEngine(usual), launches=5).ending is Ending.LAUNCHES


def test_hour_budget_ends_before_the_next_launch(lab):
    engine = ScriptedEngine(lambda config, _: Script(OFF, boot_s=3000.0))
    heard = lab.run(engine, hours=2.0)
    assert heard.ending is Ending.HOURS and heard.hours >= 2.0
    assert len(engine.launched) == 3


def test_phase_rows_survive_although_the_launch_was_interrupted(lab):
    engine = engine_with(v2_k1_s2_d3=[Script(CHAIN, phase_error={100: KeyboardInterrupt()})])
    heard = lab.run(engine)
    assert isinstance(heard.error, Interrupted) and heard.error.exit_code == 130
    assert "python -m search.run --study lab" in str(heard.error) and "1 of 2 launches" in str(heard.error)
    assert heard.endings == [Ending.INTERRUPTED] and engine.open == 0
    cut = lab.launches()[1]
    assert cut.outcome is Outcome.INTERRUPTED and [phase.concurrency for phase in cut.phases] == [1]
    assert lab.trial("v2-k1-s2-d3").state is TrialState.FAIL


def test_resume_after_an_interrupt_asks_the_cut_config_again_and_nothing_else_twice(lab):
    lab.run(engine_with(v2_k1_s2_d3=[Script(CHAIN, phase_error={1: KeyboardInterrupt()})]))
    engine = ScriptedEngine(usual)
    assert lab.run(engine).ending is Ending.EXHAUSTED
    assert engine.launched[0] == "v2-k1-s2-d3" and len(engine.launched) == 6
    assert sum(trial.state is TrialState.COMPLETE for trial in lab.trials()) == 7


def test_ctrl_c_while_the_server_stops_ends_the_run_after_the_stop_and_keeps_the_measurement(lab):
    stopping = Script(CHAIN, on_close=lambda: lab.interrupts.press())
    engine = engine_with(v2_k1_s2_d3=[stopping])
    heard = lab.run(engine)
    assert isinstance(heard.error, Interrupted) and engine.open == 0
    assert heard.launches[1].outcome is Outcome.MEASURED
    assert lab.trial("v2-k1-s2-d3").state is TrialState.COMPLETE


def test_second_ctrl_c_while_the_server_stops_leaves_no_server(lab):
    interrupted = Script(CHAIN, phase_error={100: KeyboardInterrupt()}, on_close=lambda: lab.interrupts.press())
    engine = engine_with(v2_k1_s2_d3=[interrupted])
    heard = lab.run(engine)
    assert isinstance(heard.error, Interrupted) and engine.open == 0
    assert heard.launches[1].outcome is Outcome.INTERRUPTED


def test_same_first_line_three_times_stops_the_study(lab):
    broken = [failing(Reason.OOM_GRAPH, "no room for graphs", "/logs/server.log")]
    engine = ScriptedEngine(lambda config, _: broken[0] if config.speculates else Script(OFF))
    heard = lab.run(engine)
    assert isinstance(heard.error, BreakerOpen) and heard.error.exit_code == 4
    assert "Launches 2, 3, 4" in str(heard.error) and "/logs/server.log" in str(heard.error)
    assert heard.endings == [Ending.BREAKER] and len(engine.launched) == 4
    assert all(trial.state.is_finished() for trial in lab.trials())


def test_second_attempt_at_one_config_is_no_second_witness_against_the_host(lab):
    """Two configs fail twice each, four launches in a row: that is not three lost configs."""
    lines = iter("aabbcdefgh")
    odd = {"v1-k1-s1-d2", "v1-k1-s2-d3"}
    engine = ScriptedEngine(
        lambda config, _: failing(Reason.UNKNOWN, next(lines)) if config.config_id in odd else Script(OFF)
    )
    heard = lab.run(engine, sampler="grid")
    assert heard.error is None


def test_config_that_fails_twice_alike_is_not_asked_again_by_a_later_run(lab):
    odd = "v1-k1-s1-d2"

    def engine():
        return ScriptedEngine(
            lambda config, _: failing(Reason.UNKNOWN, "the same") if config.config_id == odd else Script(OFF)
        )

    lab.run(engine(), sampler="grid")
    again = engine()
    lab.run(again, sampler="grid")
    assert odd not in again.launched


def test_lost_launches_in_a_row_stop_the_study(lab):
    lines = iter("abcdefgh")
    engine = ScriptedEngine(
        lambda config, _: failing(Reason.HOST_BUSY, next(lines)) if config.speculates else Script(OFF)
    )
    heard = lab.run(engine)
    assert isinstance(heard.error, BreakerOpen) and "Fix the host" in str(heard.error)
    assert (
        len(set(engine.launched)) == 4 and len(engine.launched) == 5
    )  # `off`, and three lost, one of them tried again


@pytest.mark.parametrize("reason", [Reason.ARG_UNKNOWN, Reason.MISSING_MODULE, Reason.WEIGHT_LOAD])
def test_baseline_with_a_static_fault_stops_the_study_and_may_be_asked_again(lab, reason):
    engine = engine_with(off=[failing(reason, "No module named 'deep_gemm'")])
    heard = lab.run(engine)
    assert isinstance(heard.error, BreakerOpen) and "deep_gemm" in str(heard.error)
    assert engine.launched == ["off"] and lab.trial("off").state is TrialState.FAIL
    again = ScriptedEngine(usual)
    lab.run(again)
    assert again.launched[0] == "off"


def test_study_without_any_measured_baseline_stops(lab):
    heard = lab.run(engine_with(off=[failing(Reason.OOM_KV, "pool too small")]))
    assert isinstance(heard.error, BreakerOpen) and "No baseline could be measured" in str(heard.error)


def test_server_that_left_something_behind_stops_the_study_and_keeps_the_measurement(lab):
    dirty = Script(OFF, stop=StopReport(clean=False, duration_s=1.0, leftovers=("pid 7 lives",)))
    heard = lab.run(engine_with(off=[dirty]))
    assert (
        isinstance(heard.error, BreakerOpen)
        and "pid 7 lives" in str(heard.error)
        and "GPU memory is free" in str(heard.error)
    )
    assert lab.trial("off").state is TrialState.COMPLETE


def test_fault_of_our_own_loses_one_launch_and_is_quoted(lab):
    heard = lab.run(engine_with(v2_k1_s2_d3=[Script(OFF, phase_error={1: ZeroDivisionError("oops")})]), launches=3)
    lost = heard.launches[1]
    assert (lost.outcome, lost.reason) == (Outcome.LOST, Reason.TOOL_ERROR)
    assert lost.evidence.root_line == "ZeroDivisionError: oops"
    assert heard.ending is Ending.LAUNCHES


def test_always_failing_launcher_stops_within_its_budget(lab):
    lines = iter(range(100))
    engine = ScriptedEngine(lambda config, _: failing(Reason.UNKNOWN, f"line {next(lines)}"))
    heard = lab.run(engine, launches=10)
    assert isinstance(heard.error, BreakerOpen) and len(engine.launched) <= 10


def test_known_config_outside_the_space_is_refused_before_any_launch(lab):
    engine = ScriptedEngine(usual)
    heard = lab.run(engine, text=lab.text.replace("known: [v2-k1-s2-d3]", "known: [v2-k2-s2-d7]"))
    assert isinstance(heard.error, UsageError) and "v2-k2-s2-d7" in str(heard.error)
    assert engine.launched == [] and not heard.starts


def test_refusal_of_the_whole_host_that_differs_in_numbers_alone_costs_three_launches(lab):
    """One config twice and a sibling once: alike but for numbers, addresses and folders, it is no config's fault."""
    seen = count(1)

    def refuses(config, _):
        if not config.speculates:
            return Script()
        number = next(seen)
        line = f"RuntimeError: worker {4000 + number} at 0x{number:08x} was refused by /srv/run-{number}/broker.sock"
        return Script(launch_error=LaunchFailed(Reason.UNKNOWN, Evidence(line, "loading")))

    engine = ScriptedEngine(refuses)
    heard = lab.run(engine, launches=9)
    assert isinstance(heard.error, BreakerOpen) and "in the same way" in str(heard.error)
    assert len(engine.launched) == 4 and len(set(engine.launched)) == 3  # the baseline, one config twice, another once


def test_config_that_alone_fails_twice_alike_is_not_asked_again_and_the_study_goes_on(lab):
    seen = count(1)

    def refuses(config, _):
        if config.config_id != "v2-k1-s2-d3":
            return Script()
        line = f"RuntimeError: worker {next(seen)} was refused"
        return Script(launch_error=LaunchFailed(Reason.UNKNOWN, Evidence(line, "loading")))

    engine = ScriptedEngine(refuses)
    assert lab.run(engine, launches=20).ending is Ending.EXHAUSTED
    assert engine.launched.count("v2-k1-s2-d3") == 2
    assert lab.run(again := ScriptedEngine(refuses), launches=20).ending is Ending.EXHAUSTED
    assert again.launched == []


def test_three_big_configs_that_lack_unlike_amounts_of_memory_do_not_stop_the_study(lab):
    def lacks(config, _):
        if not config.speculates:
            return Script()
        line = f"OutOfMemoryError: CUDA out of memory. Tried to allocate {len(str(config)) + next(seen)} MiB"
        return Script(launch_error=LaunchFailed(Reason.OOM_KV, Evidence(line, "memory pools")))

    seen = count(1)
    assert lab.run(ScriptedEngine(lacks), launches=20).ending is Ending.EXHAUSTED
