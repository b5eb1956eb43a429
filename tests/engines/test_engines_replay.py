"""The replay engine, on small tables of its own, on the story, and on any worlds beside the checkout."""

import csv
import pickle
from pathlib import Path

import pytest

from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, Slot
from search.engines import ReplayEngine
from search.engines.recording import Recording, Row, read_recording
from search.errors import LaunchFailed, LoadFailed, NotRecorded
from search.outcomes import Note, Outcome, Reason

ROOT = Path(__file__).parents[2]
WORLDS = sorted((ROOT.parent / "shared" / "worlds").glob("*/meta.json"))
OFF, CHAIN, TREE = (SpecConfig.from_id(text) for text in ("off", "v2-k1-s2-d3", "v1-k4-s3-d16"))
SLOT, PATHS = Slot(0), LaunchPaths(Path("unused"))


def row(config, concurrency, repeat, rate, **values):
    return Row(
        config, 1, Outcome.MEASURED, concurrency=concurrency, repeat=repeat, output_tps=rate, boot_s=275.6, **values
    )


TABLE = Recording(
    {"name": "mine", "versions": {"sglang": "0.5.11"}},
    (
        row(OFF, 1, 1, 100.0, tpot_ms=10.0, ttft_ms=30.0, requests=16, duration_s=42.0),
        row(OFF, 1, 2, 101.0),
        row(OFF, 1, 3, 102.0, notes=(Note.UNSTABLE,)),
        row(OFF, 100, 1, 4000.0),
        row(CHAIN, 1, 1, 120.0, accept_length=1.8, accept_histogram=(21, 14, 69)),
        Row(CHAIN, 1, Outcome.FAILED, Reason.SERVER_CRASH_LOAD, concurrency=100, repeat=1, boot_s=300.0),
        Row(TREE, 2, Outcome.FAILED, Reason.OOM_GRAPH, boot_s=431.5),
    ),
)


def launch(engine, config):
    return engine.launch(config, slot=SLOT, paths=PATHS)


def test_repeats_come_in_order_and_cycle_across_launches():
    engine = ReplayEngine(TABLE)
    with launch(engine, OFF) as session:
        rates = [session.measure(Phase(1, 16, 256), repeat).output_tps for repeat in (1, 2)]
    with launch(engine, OFF) as session:
        rates += [session.measure(Phase(1, 16, 256), repeat).output_tps for repeat in (1, 2)]
    assert rates == [100.0, 101.0, 102.0, 100.0]


def test_measurement_after_a_switch_is_replayed_as_a_start_that_takes_what_its_own_took():
    first = Row(OFF, 3, Outcome.MEASURED, concurrency=1, repeat=1, output_tps=100.0, boot_s=80.0, start=3)
    later = Row(CHAIN, 4, Outcome.MEASURED, concurrency=1, repeat=1, output_tps=120.0, start=3, place=1, switch_s=8.0)
    engine = ReplayEngine(Recording({"name": "mine"}, (first, later)))
    session = engine.launch(CHAIN, slot=SLOT, paths=PATHS, holds=(OFF,))
    assert (session.boot_s, session.holds) == (80.0, ())
    assert session.measure(Phase(1, 16, 256), 1).output_tps == 120.0


def test_recorded_values_are_given_as_recorded():
    with launch(ReplayEngine(TABLE), OFF) as session:
        assert session.boot_s == 275.6
        assert session.effective.config == OFF
        assert session.effective.release == "0.5.11"
        result = session.measure(Phase(1, 16, 256), 5)
    assert (result.tpot_ms, result.ttft_ms, result.duration_s, result.repeat) == (10.0, 30.0, 42.0, 5)
    assert (result.output_tokens, result.whole_run_tps) == (None, None)  # a recording does not hold them
    assert result.notes == ()
    assert result.extrapolated is False


def test_acceptance_and_notes_travel():
    engine = ReplayEngine(TABLE)
    with launch(engine, CHAIN) as session:
        result = session.measure(Phase(1, 16, 256), 1)
    assert (result.accept_length, result.accept_histogram) == (1.8, (21, 14, 69))
    with launch(engine, OFF) as session:
        assert [session.measure(Phase(1, 16, 256), n).notes for n in (1, 2, 3)][2] == (Note.UNSTABLE,)


def test_failed_config_raises_its_recorded_reason_and_time():
    with pytest.raises(LaunchFailed) as caught:
        launch(ReplayEngine(TABLE), TREE)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.reason is Reason.OOM_GRAPH
    assert error.spent_s == 431.5
    assert "v1-k4-s3-d16 ended with OOM_GRAPH" in str(error)


def test_phase_recorded_as_broken_raises_on_measure():
    with launch(ReplayEngine(TABLE), CHAIN) as session, pytest.raises(LoadFailed) as caught:
        session.measure(Phase(100, 400, 256), 1)
    assert caught.value.reason is Reason.SERVER_CRASH_LOAD


def test_config_and_phase_that_were_not_recorded_are_never_invented():
    engine = ReplayEngine(TABLE)
    with pytest.raises(NotRecorded, match="v1-k2-s2-d7 is not in `mine`"):
        launch(engine, SpecConfig.from_id("v1-k2-s2-d7"))
    with launch(engine, OFF) as session, pytest.raises(NotRecorded, match="no phase at concurrency 30"):
        session.measure(Phase(30, 60, 256), 1)


def test_story_replays_its_twelve_numbers_marked_synthetic():
    recording = read_recording(ROOT / "recordings" / "kimi-k25-story")
    assert recording.meta["hand_made"] is True
    engine = ReplayEngine(recording)
    rates = {}
    for config in recording.space():
        with launch(engine, config) as session:
            for concurrency in (1, 30, 100, 250):
                result = session.measure(Phase(concurrency, 2 * concurrency, 256), 1)
                assert Note.SYNTHETIC in result.notes
                rates.setdefault(config.config_id, []).append(result.output_tps)
    assert rates == {
        "off": [92.7, 689.4, 773.1, 718.1],
        "v2-k1-s2-d3": [86.8, 759.3, 775.0, 754.4],
        "v1-k4-s3-d16": [80.9, 313.3, 353.1, 353.8],
    }


def test_what_story_rows_do_not_tell_stays_unknown_except_the_time_per_token_of_one_stream():
    with launch(ReplayEngine(read_recording(ROOT / "recordings" / "kimi-k25-story")), OFF) as session:
        assert session.measure(Phase(1, 8, 256), 1).tpot_ms == 10.787487
        loaded = session.measure(Phase(100, 400, 256), 1)
    assert (loaded.output_tps, loaded.tpot_ms, loaded.ttft_ms, loaded.duration_s) == (773.1, None, None, None)


@pytest.mark.skipif(not WORLDS, reason="no worlds beside the checkout")
@pytest.mark.parametrize("meta", WORLDS, ids=lambda path: path.parent.name)
def test_world_replays_every_row_it_holds(meta):
    recording = read_recording(meta.parent)
    engine = ReplayEngine(recording)
    with (meta.parent / "measurements.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == len(recording.rows) > 400
    failed = set()
    for line in cells:
        config = SpecConfig.from_id(line["config_id"])
        if line["outcome"] == "FAILED":
            failed.add(config)
            with pytest.raises(LaunchFailed) as caught:
                launch(engine, config)
            assert caught.value.reason.value == line["reason"]
            continue
        with launch(engine, config) as session:
            result = session.measure(Phase(int(line["concurrency"]), 1, 256), int(line["repeat"]))
        assert str(result.output_tps) in (line["output_tps"], line["output_tps"] + ".0")
        assert Note.SYNTHETIC in result.notes
    assert set(recording.failures()) == failed


def test_each_launch_draws_the_next_recorded_start_with_all_its_repeats(tmp_path):
    """Starts differ by more than repeats do, and a mixture of two would hide it."""
    (tmp_path / "meta.json").write_text('{"name": "starts"}')
    header = (
        "config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,launch,outcome,reason,notes,concurrency,"
        "repeat,requests,output_tps,tpot_ms,ttft_ms,accept_length,accept_histogram,boot_s,duration_s"
    )
    rows = [
        f"off,off,,,,off,{launch},MEASURED,,,100,{repeat},16,{rate},,,,,{60 + launch},10"
        for launch, rates in ((1, (100, 101)), (4, (200, 201)))
        for repeat, rate in enumerate(rates, 1)
    ]
    (tmp_path / "measurements.csv").write_text("\n".join((header, *rows)) + "\n")
    engine = ReplayEngine(read_recording(tmp_path))

    def launched(number):
        with engine.launch(
            SpecConfig.from_id("off"), slot=Slot(0), paths=LaunchPaths(tmp_path / "x" / number)
        ) as session:
            phase = Phase(100, requests=16, output_tokens=16)
            return session.boot_s, [session.measure(phase, repeat).output_tps for repeat in (1, 2)]

    assert [launched(f"000{number}-off") for number in (1, 2, 3)] == [
        (61.0, [100.0, 101.0]),
        (64.0, [200.0, 201.0]),
        (61.0, [100.0, 101.0]),
    ]
