"""Every start repeats an objective as often as the study file says, whatever the values are."""

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


@pytest.mark.parametrize("swings", [{100: (1.0, 0.7, 1.0, 0.7)}, {1: (1.0, 0.7, 1.0), 100: (1.0, 0.9, 0.95)}])
def test_load_that_swings_is_repeated_as_often_as_planned_too(lab, swings):
    """Repeating until a value seems sure stops at lucky moments, and its intervals do not hold."""
    assert phases_of(lab, swings) == PLAN


def test_older_words_for_repeating_are_read_and_said_to_count_no_more(lab):
    engine = ScriptedEngine(lambda *_: Script(Speed({1: 100.0, 100: 1000.0}, swings={100: (1.0, 0.5)})))
    heard = lab.run(engine, text=lab.text + "measure: {doubt: 0.01, repeats_at_most: 9}\n", launches=1)
    assert heard.error is None and engine.phases == PLAN
    assert any("`measure.doubt`" in line and "no longer followed" in line for line in heard.notices)
    assert lab.run(ScriptedEngine(lambda *_: Script()), launches=1).error is None  # not part of what must not change


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
    assert [recording.repeats_of_launch(off, 100, before) for before in (1, 2)] == [3, 4]
    assert recording.starts() == {off: (1, 2)}
