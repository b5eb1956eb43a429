"""Objectives are measured again while their doubt is above what the study wants, and no more often than it allows."""

import pytest

from search.engines.recording import read_recording
from search.testing.engines import Script, ScriptedEngine, Speed

PLAN = [(1, 1), (100, 1), (1, 2), (100, 2)]


def phases_of(lab, swings, *, measure="", rates=None):
    """What is measured of one baseline, watch loads left out."""
    speed = Speed(rates or {1: 100.0, 100: 1000.0}, swings=swings)
    engine = ScriptedEngine(lambda *_: Script(speed))
    heard = lab.run(engine, text=lab.text + (f"measure: {measure}\n" if measure else ""), launches=1)
    assert heard.error is None
    return engine.phases


def test_steady_host_is_measured_as_often_as_planned(lab):
    assert phases_of(lab, {}) == PLAN


def test_load_that_swings_is_repeated_as_often_as_allowed_and_the_steady_one_is_not(lab):
    assert phases_of(lab, {100: (1.0, 0.7, 1.0, 0.7, 1.0)}) == [*PLAN, (100, 3), (100, 4)]


def test_both_objectives_are_repeated_in_turn(lab):
    swings = {1: (1.0, 0.7, 1.0, 0.7), 100: (1.0, 0.7, 1.0, 0.7)}
    assert phases_of(lab, swings) == [*PLAN, (1, 3), (100, 3), (1, 4), (100, 4)]


@pytest.mark.parametrize(("doubt", "repeats"), [(0.12, 2), (0.08, 3), (0.05, 4)])
def test_repeating_ends_once_the_mean_is_sure_enough(lab, doubt, repeats):
    """900 and 1000 leave 10%, 950 besides 6%, and another 950 4% (Student's t with the assumed 1%)."""
    measured = phases_of(lab, {100: (1.0, 0.9, 0.95)}, measure=f"{{doubt: {doubt}, repeats_at_most: 9}}")
    assert max(repeat for load, repeat in measured if load == 100) == repeats


@pytest.mark.parametrize("at_most", [1, 2])
def test_as_many_repeats_as_planned_may_be_all_there_are(lab, at_most):
    assert phases_of(lab, {100: (1.0, 0.5)}, measure=f"{{repeats_at_most: {at_most}}}") == PLAN


def test_wanted_doubt_may_change_between_two_runs(lab):
    phases_of(lab, {})
    engine = ScriptedEngine(lambda *_: Script(Speed({1: 100.0, 100: 1000.0})))
    heard = lab.run(engine, text=lab.text + "measure: {doubt: 0.01}\n", launches=2)
    assert heard.error is None and len(engine.launched) == 1


def test_repeats_of_a_launch_are_those_of_its_own_rows(tmp_path):
    (tmp_path / "meta.json").write_text('{"name": "x"}')
    columns = (
        "config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,launch,outcome,reason,notes,concurrency,"
        "repeat,requests,output_tps,tpot_ms,ttft_ms,accept_length,accept_histogram,boot_s,duration_s"
    )
    rows = [
        f"off,off,,,,off,{launch},MEASURED,,,{load},{repeat},16,100,,,,,60,10"
        for launch, load, repeats in ((1, 1, 2), (1, 100, 4), (2, 100, 3))
        for repeat in range(1, repeats + 1)
    ]
    (tmp_path / "measurements.csv").write_text("\n".join((columns, *rows)) + "\n")
    recording = read_recording(tmp_path)
    (off,) = recording.space()
    assert [recording.repeats_of_launch(off, load) for load in (1, 30, 100)] == [2, 0, 4]
