"""Studies whose configs share starts: one server, measured config after config."""

import threading

import pytest

from search.contracts import RealClock, StopReport
from search.errors import LaunchFailed, LoadFailed
from search.outcomes import Evidence, Outcome, Reason
from search.shape import SwitchFailed, SwitchRefused
from search.testing.engines import Script, ScriptedEngine, Speed

GROUP = ("v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4")
APART = ("off", "v1-k1-s1-d2", "v1-k1-s2-d3", "v1-k2-s2-d7")
FAST = Speed({1: 200.0, 30: 900.0, 100: 2000.0})
SLOW = Speed({1: 100.0, 30: 800.0, 100: 1000.0})


def engine(**scripts):
    """Everything starts and is measured, but for the scripts of some configs, one after the other."""
    scripted = {name.replace("_", "-"): script for name, script in scripts.items()}
    return ScriptedEngine.sequences(scripted, otherwise=Script(SLOW))


def by_config(lab):
    found = {}
    for launch in lab.launches():
        found.setdefault(launch.asked.config_id, []).append(launch)
    return found


def test_configs_of_a_group_are_measured_in_one_start_and_others_in_starts_of_their_own(lab):
    served = ScriptedEngine(lambda config, before: Script(SLOW, boot_s=3600))
    heard = lab.run(served, groups=(GROUP,), text=lab.text.replace("sampler: random", "sampler: frontier"))
    assert heard.error is None
    assert sorted(served.launched) == sorted([*APART, "v2-k1-s2-d3"])  # the known one comes first
    assert sorted(served.switched) == ["v2-k1-s1-d2", "v2-k1-s3-d4"]
    shared = [launch for launch in lab.launches() if launch.start is not None]
    assert {launch.start for launch in shared} == {2}
    assert [launch.place for launch in shared] == [0, 1, 2]
    assert [launch.switch_s for launch in shared] == [None, 40.0, 40.0]
    assert [launch.boot_s for launch in shared] == [3600.0, None, None]
    assert all(launch.outcome is Outcome.MEASURED for launch in lab.launches())
    assert (served.open, served.most_open) == (0, 1)


def test_start_is_asked_to_hold_the_rest_of_the_group_and_own_starts_nothing(lab):
    served = engine()
    lab.run(served, groups=(GROUP,))
    held = {
        name: {config.config_id for config in holds} for name, holds in zip(served.launched, served.held, strict=True)
    }
    assert held["v2-k1-s2-d3"] == {"v2-k1-s1-d2", "v2-k1-s3-d4"}
    assert not any(held[name] for name in APART)


def test_nothing_is_shared_when_the_study_has_no_groups(lab):
    served = engine()
    lab.run(served)
    assert served.switched == []
    assert all((launch.start, launch.place) == (None, 0) for launch in lab.launches())


def test_hours_of_a_shared_start_are_those_of_its_parts(lab):
    served = engine()
    heard = lab.run(served, groups=(GROUP,))
    spent = sum(launch.duration_s for launch in lab.launches())
    # The stop of the last open start comes after the last measurement.
    assert heard.hours * 3600 == pytest.approx(spent + 5.0, abs=5.01)


def test_server_without_the_plugin_gives_each_config_a_start_of_its_own(lab):
    served = ScriptedEngine(lambda config, before: Script(SLOW, keeps_its_shape=True))
    lab.run(served, groups=(GROUP,))
    assert served.switched == []
    assert all(launch.outcome is Outcome.MEASURED for launch in lab.launches())
    assert len(served.launched) == len(APART) + len(GROUP)


def test_refused_switch_gives_the_config_a_start_of_its_own_in_the_same_launch(lab):
    served = engine(**{"v2-k1-s3-d4": [Script(SLOW, switch_error=SwitchRefused("busy")), Script(SLOW)]})
    heard = lab.run(served, groups=(GROUP,))
    assert heard.error is None
    (launch,) = by_config(lab)["v2-k1-s3-d4"]
    assert (launch.outcome, launch.start, launch.place, launch.boot_s) == (Outcome.MEASURED, None, 0, 60.0)
    assert served.open == 0


@pytest.mark.parametrize("usable", [True, False])
def test_failed_switch_blames_nobody_before_the_config_has_failed_alone(lab, usable):
    failed = SwitchFailed("graphs", usable, Reason.OOM_GRAPH, Evidence("out of memory"))
    served = engine(**{"v2-k1-s3-d4": [Script(SLOW, switch_error=failed), Script(SLOW)]})
    heard = lab.run(served, groups=(GROUP,))
    assert heard.error is None
    first, second = by_config(lab)["v2-k1-s3-d4"]
    assert (first.reason, first.start is not None) == (Reason.OOM_GRAPH, True)
    assert (second.outcome, second.start, second.why) == (
        Outcome.MEASURED,
        None,
        "once more in a start of its own, after OOM_GRAPH in one for several configs",
    )
    assert lab.trial("v2-k1-s3-d4").state.name == "COMPLETE"
    assert all(launch.outcome is Outcome.MEASURED for launch in by_config(lab)["v2-k1-s1-d2"])
    assert served.open == 0


def test_config_that_fails_alone_too_is_infeasible(lab):
    failed = SwitchFailed("graphs", True, Reason.OOM_GRAPH, Evidence("out of memory"))
    alone = LaunchFailed(Reason.OOM_GRAPH, Evidence("out of memory"))
    scripts = [Script(SLOW, switch_error=failed), Script(SLOW, launch_error=alone)]
    heard = lab.run(engine(**{"v2-k1-s3-d4": scripts}), groups=(GROUP,))
    assert heard.error is None
    assert [launch.reason for launch in by_config(lab)["v2-k1-s3-d4"]] == [Reason.OOM_GRAPH, Reason.OOM_GRAPH]
    assert by_config(lab)["v2-k1-s3-d4"][-1].outcome is Outcome.FAILED


def test_crash_under_load_ends_the_start_and_the_rest_of_the_group_goes_on_in_a_new_one(lab):
    crash = LoadFailed(Reason.SERVER_CRASH_LOAD, Evidence("segfault"))
    served = engine(**{"v2-k1-s2-d3": [Script(SLOW, phase_error={100: crash}), Script(SLOW)]})
    heard = lab.run(served, groups=(GROUP,), configs=("off", *GROUP))
    assert heard.error is None
    first, second = by_config(lab)["v2-k1-s2-d3"]
    assert (first.reason, second.outcome, second.start) == (Reason.SERVER_CRASH_LOAD, Outcome.MEASURED, None)
    others = [by_config(lab)[name][0] for name in ("v2-k1-s1-d2", "v2-k1-s3-d4")]
    assert len({launch.start for launch in others}) == 1
    assert others[0].start not in (None, first.start)
    assert served.open == 0


def test_starts_for_several_that_never_become_ready_twice_end_the_sharing(lab):
    def script(config, before):
        broken = LaunchFailed(Reason.OOM_KV, Evidence("no room for the pool"))
        return Script(SLOW, launch_error=broken if config.config_id in GROUP and before == 0 else None)

    served = ScriptedEngine(script)
    heard = lab.run(served, groups=(GROUP,))
    assert heard.error is None
    assert [line for line in heard.notices if "start of its own" in line] == [
        "from now on every config has a start of its own: 2 starts that were to hold several configs never became ready"
    ]
    assert served.switched == []
    # The third of the group had a start of its own at once, so its failure is its own.
    ended = {name: by_config(lab)[name][-1].outcome for name in GROUP}
    assert sorted(ended.values()) == [Outcome.FAILED, Outcome.MEASURED, Outcome.MEASURED]


def test_later_stages_have_starts_of_their_own(lab):
    text = lab.text.replace("closing: false, confirm: 0, ladder: 0", "closing: true, ladder: 0")
    fast = {"v2-k1-s1-d2": [Script(FAST)] * 5}
    lab.run(engine(**fast), text=text, groups=(GROUP,))
    later = [launch for launch in lab.launches() if launch.stage in ("baseline", "confirm", "closing")]
    assert {launch.stage for launch in later} == {"baseline", "confirm", "closing"}
    assert all(launch.start is None for launch in later)
    assert any(launch.asked.config_id == "v2-k1-s1-d2" and launch.stage == "confirm" for launch in later)


def test_interrupt_in_the_middle_of_a_group_keeps_what_is_measured_and_stops_the_server(lab):
    served = engine(**{"v2-k1-s1-d2": [Script(SLOW, on_phase=lambda: lab.interrupts.press())]})
    heard = lab.run(served, groups=(GROUP,))
    assert "Interrupted" in str(heard.error)
    assert served.open == 0
    measured = [launch.asked.config_id for launch in lab.launches() if launch.outcome is Outcome.MEASURED]
    again = lab.run(engine(), groups=(GROUP,))
    assert again.error is None
    assert {launch.asked.config_id for launch in again.launches}.isdisjoint(measured)
    assert set(by_config(lab)) == {*GROUP, *APART}


def test_server_that_leaves_something_behind_when_its_group_is_over_is_said(lab):
    dirty = StopReport(clean=False, duration_s=1.0, leftovers=("pid 7 is alive",))
    served = engine(**{"v2-k1-s2-d3": [Script(SLOW, stop=dirty)]})
    heard = lab.run(served, groups=(GROUP,))
    said = [*heard.notices, str(heard.error)]
    assert any("pid 7 is alive" in line for line in said)


def test_two_slots_have_an_open_start_each(lab):
    served = ScriptedEngine.on_slots(lambda config, before, slot: Script(SLOW))
    group = (*GROUP, "v2-k2-s2-d7", "v2-k2-s3-d8", "v2-k2-s1-d3")
    heard = lab.run(served, slots=2, groups=(group,), configs=("off", *group))
    assert heard.error is None
    assert served.open == 0
    starts = {(launch.start, launch.slot) for launch in lab.launches() if launch.start is not None}
    assert len({slot for _, slot in starts}) == len(starts) == 2


def test_two_slots_in_real_time_stop_all_their_servers(lab):
    begun = threading.Event()
    served = ScriptedEngine.on_slots(lambda config, before, slot: Script(SLOW, on_phase=begun.set))
    heard = lab.run(served, slots=2, groups=(GROUP,), clock=RealClock())
    assert heard.error is None
    assert begun.is_set()
    assert served.open == 0
    assert served.most_open <= 2
