"""Several slots at once: who launches what and when, what rests, how it ends, on a scripted engine."""

import random
import threading
from collections import Counter

import pytest
from optuna.trial import TrialState

from search.contracts import RealClock, StopReport
from search.errors import BreakerOpen, Interrupted, LaunchFailed
from search.outcomes import Blame, Evidence, Outcome, Reason
from search.study.events import Ending
from search.testing.engines import Script, ScriptedEngine, Speed

OFF = Speed({1: 100.0, 30: 600.0, 100: 1000.0})
CHAIN = Speed({1: 90.0, 30: 700.0, 100: 1100.0}, accept=2.0)
MANY = ("off", *(f"v{version}-k1-s{steps}-d{steps + 1}" for version in (1, 2) for steps in range(1, 7)))


def failing(reason, line="boom", **more):
    return Script(launch_error=LaunchFailed(reason, Evidence(line), **more))


def usual(config, _before=0, _slot=0, **more):
    return Script(CHAIN if config.speculates else OFF, **more)


def by_slot(heard):
    """Asked config ids of each slot, in launch order."""
    found = {}
    for launch in sorted(heard.launches, key=lambda launch: launch.number):
        found.setdefault(launch.slot, []).append(launch.asked.config_id)
    return found


def test_every_slot_measures_its_baseline_first_and_then_shares_the_rest(lab):
    engine = ScriptedEngine(usual)
    heard = lab.run(engine, slots=3)
    assert heard.ending is Ending.EXHAUSTED and engine.open == 0
    assert engine.launched[:3] == ["off"] * 3 and engine.slots[:3] == [0, 1, 2]
    assert sorted(engine.launched[3:]) == sorted(set(lab.configs) - {"off"})
    assert {slot: len(mine) for slot, mine in by_slot(heard).items()} == {0: 3, 1: 3, 2: 3}
    assert sum(trial.user_attrs["config_id"] == "off" for trial in lab.trials()) == 1


def test_slots_side_by_side_need_a_third_of_the_hours(lab):
    engine = ScriptedEngine(lambda config, _: usual(config, boot_s=3600.0))
    alone = 7 * lab.run(engine, configs=["off"], launches=1, text=lab.text.replace("known: [v2-k1-s2-d3]", "")).hours
    (lab.folder / "trials.db").unlink()
    heard = lab.run(ScriptedEngine(lambda config, _: usual(config, boot_s=3600.0)), slots=3)
    # 9 launches, two of them baselines of the further slots.
    assert heard.hours == pytest.approx(alone * 9 / 3 / 7, rel=0.05)


def test_same_seed_gives_the_same_launches_on_four_slots(lab):
    def run():
        (lab.folder / "trials.db").unlink(missing_ok=True)
        engine = ScriptedEngine(lambda config, _: usual(config, boot_s=60.0 + len(config.config_id) * hash_of(config)))
        return by_slot(lab.run(engine, slots=4, configs=MANY))

    def hash_of(config):
        return sum(map(ord, config.config_id)) % 7

    assert run() == run()


def test_launches_are_told_in_the_order_of_their_ends(lab):
    slow = ScriptedEngine.on_slots(lambda config, _, slot: usual(config, boot_s=1000.0 if slot == 0 else 10.0))
    heard = lab.run(slow, slots=2)
    assert heard.launches[0].slot == 1 and heard.launches[0].number == 2
    assert sorted(launch.number for launch in heard.launches) == list(range(1, 9))


def test_resumed_study_measures_no_slots_baseline_again(lab):
    lab.run(ScriptedEngine(usual), slots=3, launches=4)
    again = ScriptedEngine(usual)
    lab.run(again, slots=3)
    assert "off" not in again.launched


def test_launch_budget_holds_over_all_slots(lab):
    engine = ScriptedEngine(usual)
    assert lab.run(engine, slots=4, launches=6, configs=MANY).ending is Ending.LAUNCHES
    assert len(engine.launched) == 6 and not [t for t in lab.trials() if not t.state.is_finished()]


def test_slot_unlike_the_first_is_not_told_from_one_start_of_each(lab):
    """Two starts of one config may differ by as much: that slots differ is told in `test_study_remarks`, from several."""
    slower = Speed({1: 80.0, 30: 500.0, 100: 900.0})
    engine = ScriptedEngine.on_slots(
        lambda config, _, slot: Script(slower) if slot == 1 and not config.speculates else usual(config)
    )
    heard = lab.run(engine, slots=3)
    assert not [line for line in heard.judgement.headlines if line.startswith("Slot")]


@pytest.mark.parametrize("how", ["stop", "failed launch"])
def test_slot_with_leftovers_rests_and_the_others_go_on(lab, how):
    dirty = usual_dirty() if how == "stop" else failing(Reason.OOM_KV, "no room", leftovers=("pid 7 lives",))
    engine = ScriptedEngine.on_slots(
        lambda config, _, slot: dirty if slot == 1 and config.speculates else usual(config)
    )
    heard = lab.run(engine, slots=2)
    assert heard.ending is Ending.EXHAUSTED
    # It rests, and whatever virtual time makes of that, a baseline comes before anything else there.
    assert by_slot(heard)[1][0] == "off" and by_slot(heard)[1][2:3] in ([], ["off"])
    assert "slot 1 is not used for 10 minutes" in heard.notices[0] and "pid 7 lives" in heard.notices[0]


def usual_dirty():
    return Script(CHAIN, stop=StopReport(clean=False, duration_s=1.0, leftovers=("pid 7 lives",)))


def test_lost_worker_rests_its_slot_and_the_config_is_repeated_on_another(lab):
    lost = []

    def script(config, _before, slot):
        if slot == 1 and config.speculates and not lost:
            lost.append(config.config_id)
            return failing(Reason.WORKER_LOST, "actor died")
        return usual(config)

    heard = lab.run(ScriptedEngine.on_slots(script), slots=2)
    attempts = [launch for launch in heard.launches if launch.asked.config_id == lost[0]]
    assert [(launch.slot, launch.outcome) for launch in attempts] == [(1, Outcome.LOST), (0, Outcome.MEASURED)]
    assert attempts[1].why == "once more after WORKER_LOST"


def test_same_host_fault_twice_in_a_row_rests_the_slot_and_a_different_one_does_not(lab):
    def run(reasons):
        (lab.folder / "trials.db").unlink(missing_ok=True)
        mine = iter(reasons)
        engine = ScriptedEngine.on_slots(
            lambda config, _, slot: (
                failing(reason, f"{reason} {config}")
                if slot == 1 and config.speculates and (reason := next(mine, None))
                else usual(config)
            )
        )
        return lab.run(engine, slots=2, configs=MANY).notices

    assert len(run([Reason.PORT_BUSY, Reason.PORT_BUSY])) == 1
    assert run([Reason.PORT_BUSY, Reason.HOST_BUSY]) == []


def test_rested_slot_must_measure_its_baseline_before_it_is_used_again(lab):
    seen = []

    def script(config, _before, slot):
        if slot == 1 and config.speculates:
            seen.append(config.config_id)
            if len(seen) == 1:
                return failing(Reason.WORKER_LOST, "actor died")
        return usual(config, boot_s=300.0)

    heard = lab.run(ScriptedEngine.on_slots(script), slots=2, configs=MANY)
    mine = by_slot(heard)[1]
    assert mine[:3] == ["off", seen[0], "off"] and len(mine) > 4
    rested = [launch for launch in heard.launches if launch.slot == 1]
    assert (rested[2].started_at - rested[1].started_at).total_seconds() >= 600


def test_slot_whose_baseline_cannot_start_rests_and_does_not_stop_the_study(lab):
    engine = ScriptedEngine.on_slots(
        lambda config, _, slot: failing(Reason.MISSING_MODULE, "no deep_gemm here") if slot == 1 else usual(config)
    )
    heard = lab.run(engine, slots=2)
    assert heard.ending is Ending.EXHAUSTED and "deep_gemm" in heard.notices[0]
    assert {launch.asked.config_id for launch in heard.launches if launch.slot == 1} == {"off"}


def test_study_stops_when_no_slot_is_left(lab):
    engine = ScriptedEngine(lambda config, _: usual_dirty() if config.speculates else usual(config))
    heard = lab.run(engine, slots=3, configs=MANY)
    assert isinstance(heard.error, BreakerOpen) and heard.error.exit_code == 4
    text = str(heard.error)
    assert "No slot can be used" in text and "slot 2: launch" in text and "GPU memory is free" in text
    assert len(engine.launched) == 6 and all(trial.state.is_finished() for trial in lab.trials())


def test_one_death_that_takes_all_slots_is_one_witness(lab):
    """Ray dies once under three launches: they are repeated, and the study goes on."""
    died = Counter()

    def script(config, before, slot):
        if config.speculates and died[slot] == 0:
            died[slot] += 1
            return failing(Reason.RAY_INFRA, "Ray itself died")
        return usual(config)

    heard = lab.run(ScriptedEngine.on_slots(script), slots=3, configs=MANY)
    assert heard.ending is Ending.EXHAUSTED and heard.error is None
    assert sum(launch.reason is Reason.RAY_INFRA for launch in heard.launches) == 3


def test_retries_are_bounded_over_the_study(lab):
    text = lab.text.replace("failures_in_a_row: 3", "failures_in_a_row: 100, retries: 2")
    lines = iter(range(100))
    engine = ScriptedEngine(
        lambda config, _: (
            failing(Reason.CUDA_FAULT, f"fault of kind {'i' * next(lines)}") if config.speculates else usual(config)
        )
    )
    heard = lab.run(engine, text=text, configs=MANY, launches=60)
    # 1 baseline, 12 configs, 2 second attempts.
    assert len(engine.launched) == 15 and heard.ending is Ending.EXHAUSTED


class TestThreads:
    """A real clock: one worker thread per slot."""

    def test_loads_of_one_host_take_turns_while_several_servers_are_up(self, lab):
        at_once, most, lock = [0], [0], threading.Lock()

        def phase():
            with lock:
                at_once[0] += 1
                most[0] = max(most[0], at_once[0])
            threading.Event().wait(0.002)
            with lock:
                at_once[0] -= 1

        engine = ScriptedEngine(lambda config, _: usual(config, on_phase=phase))
        heard = lab.run(engine, slots=3, clock=RealClock())
        assert heard.ending is Ending.EXHAUSTED and len(heard.launches) == 9
        assert most[0] == 1 and engine.most_open > 1

    def test_parallel_loads_are_measured_side_by_side_where_the_study_says_so(self, lab):
        text = lab.text + "measure: {parallel_loads: true}\n"
        together = threading.Barrier(2)
        engine = ScriptedEngine(
            lambda config, _: usual(config, on_phase=None if config.speculates else lambda: together.wait(30))
        )
        assert lab.run(engine, text=text, slots=2, clock=RealClock()).ending is Ending.EXHAUSTED

    def test_ctrl_c_pressed_twice_stops_all_servers_and_everything_can_be_resumed(self, lab):
        hanging = []

        def press():
            hanging.append(1)
            if len(hanging) == 1:
                lab.interrupts.press()

        def script(config, _):
            if not config.speculates:
                return usual(config)
            return usual(config, hangs=True, on_phase=press, on_close=lambda: lab.interrupts.press())

        engine = ScriptedEngine(script)
        heard = lab.run(engine, slots=3, clock=RealClock())
        assert isinstance(heard.error, Interrupted) and "all servers are stopped" in str(heard.error)
        assert engine.open == 0
        assert all(launch.outcome is not None for launch in lab.launches())
        assert all(trial.state.is_finished() for trial in lab.trials())
        assert lab.run(ScriptedEngine(usual), slots=3, clock=RealClock()).ending is Ending.EXHAUSTED
        complete = [trial for trial in lab.trials() if trial.state is TrialState.COMPLETE]
        assert sorted(trial.user_attrs["config_id"] for trial in complete) == sorted(lab.configs)

    def test_study_that_stops_itself_stops_the_other_slots_too(self, lab):
        def script(config, before, slot):
            if config.speculates and slot == 1:
                return failing(Reason.SERVER_CRASH_LOAD, "died under load")
            return usual(config, hangs=config.speculates)

        engine = ScriptedEngine.on_slots(script)
        heard = lab.run(engine, slots=2, clock=RealClock(), configs=MANY)
        assert isinstance(heard.error, BreakerOpen) and engine.open == 0
        assert [launch.outcome for launch in lab.launches()].count(Outcome.INTERRUPTED) == 1


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("threads", [False, True])
def test_random_faults_on_four_slots_lose_and_repeat_nothing(lab, seed, threads):
    """Every launch is accounted for once; no config is launched twice but for its second attempt."""
    draw, lock = random.Random(seed), threading.Lock()
    faults = [
        Reason.OOM_KV, Reason.SERVER_CRASH_LOAD, Reason.CUDA_FAULT, Reason.HOST_BUSY, Reason.PORT_BUSY,
        Reason.WORKER_LOST, Reason.UNKNOWN, Reason.RAY_INFRA,
    ]  # fmt: skip

    def script(config, before, slot):
        with lock:
            boot_s = draw.uniform(30, 400)
            if draw.random() < 0.35 and (config.speculates or slot > 0):
                spent = draw.uniform(1, 100)
                line = f"line {draw.random()}"
                leftovers = ("pid 9",) if draw.random() < 0.1 else ()
                error = LaunchFailed(draw.choice(faults), Evidence(line), spent, leftovers)
                where = draw.choice(["launch", 1, 100])
                if where == "launch":
                    return Script(launch_error=error)
                return usual(config, boot_s=boot_s, phase_error={where: error})
        return usual(config, boot_s=boot_s)

    engine = ScriptedEngine.on_slots(script)
    text = lab.text.replace("failures_in_a_row: 3", "failures_in_a_row: 12")
    heard = lab.run(engine, text=text, slots=4, configs=MANY, launches=60, clock=RealClock() if threads else None)
    assert heard.error is None or isinstance(heard.error, BreakerOpen)
    assert engine.open == 0
    stored = lab.launches()
    assert [launch.number for launch in stored] == list(range(1, len(engine.launched) + 1))
    assert Counter(launch.asked.config_id for launch in stored) == Counter(engine.launched)
    assert sorted(launch.number for launch in heard.launches) == [
        launch.number for launch in stored if launch.outcome is not Outcome.INTERRUPTED
    ]
    assert all(launch.outcome is not None for launch in stored)
    by_trial = Counter(launch.trial for launch in stored if launch.trial is not None)
    assert max(by_trial.values()) <= 2
    trials = lab.trials()
    assert all(trial.state.is_finished() for trial in trials)
    assert len(trials) == len({trial.user_attrs["config_id"] for trial in trials}) == len(by_trial)
    second = [launch for launch in stored if launch.why.startswith("once more") and launch.trial is not None]
    assert len(second) <= 10
    for launch in second:
        first = next(one for one in stored if one.trial == launch.trial)
        assert first.blame in (Blame.HOST, Blame.FLAKE) or first.reason is Reason.UNKNOWN
