"""Expected beside measured: the first look has no part in what is expected of it."""

from dataclasses import replace

from benchmarks import first_look
from benchmarks.first_look import ANCHOR, FIRST_LOOK, ROOT, expectations, main
from search.engines.recording import Recording, read_recording

RECORDING = read_recording(ROOT / "h200-codelm-0.5.11")


def test_every_number_of_the_first_look_has_a_band_and_says_whether_it_was_recorded():
    rows = list(expectations(RECORDING))
    assert [(row.config, row.load) for row in rows] == [
        (name, load) for name in FIRST_LOOK for load in FIRST_LOOK[name]
    ]
    assert all(0 < row.low < row.expected < row.high for row in rows)
    assert {row.config for row in rows if row.known} == {"off", "v2-k1-s2-d3", "v2-k1-s4-d5"}
    assert all(row.times_anchor == row.expected_times_anchor == 1.0 for row in rows if row.config == ANCHOR)


def test_what_was_measured_later_does_not_move_what_is_expected(monkeypatch):
    before = [row.expected for row in expectations(RECORDING)]
    spoilt = {name: {load: 7 * number for load, number in numbers.items()} for name, numbers in FIRST_LOOK.items()}
    monkeypatch.setattr(first_look, "FIRST_LOOK", spoilt)
    assert [row.expected for row in expectations(RECORDING)] == before


def test_numbers_of_v1_have_no_say_where_they_are_left_out():
    spoilt = tuple(
        replace(row, output_tps=row.output_tps / 3, tpot_ms=None)
        if row.config.spec_version == "v1" and row.output_tps
        else row
        for row in RECORDING.rows
    )
    one, other = (
        [row.expected for row in expectations(recording, without_v1=True)]
        for recording in (RECORDING, Recording(RECORDING.meta, spoilt))
    )
    assert one == other


def test_command_counts_what_was_never_measured_apart(capsys):
    assert main([]) == 0
    assert "of 6 numbers of configs that were never measured lie in their bands" in capsys.readouterr().out
