"""Whole studies with known truth: that they are whole, and what one of each says."""

import json
import os

import pytest

from benchmarks.coverage.whole import files
from benchmarks.coverage.whole.__main__ import main
from benchmarks.coverage.whole.counting import Count, Counted
from benchmarks.coverage.whole.running import run
from benchmarks.coverage.whole.studies import judged, study_of
from benchmarks.coverage.whole.worlds import Row, World
from search.errors import UsageError
from search.storage.store import Store


def test_simulated_study_is_a_whole_default_one():
    told = study_of(Row("simulated", World(0.02, 0.01)), 0)
    assert told.baseline_starts >= 3 and told.freedom >= 7 and told.picks >= 2
    assert 15 <= told.launches <= 24 and told.hours < 7.5
    assert not told.any_gain and not told.verdict


def test_replayed_study_starts_its_baseline_and_picks_again_from_the_table():
    told = study_of(Row("replayed", World(0.02, 0.01)), 1)
    assert told.baseline_starts >= 3 and told.freedom >= 7 and told.picks >= 2
    assert not told.any_gain and not told.verdict


def test_great_gain_is_found_in_both():
    world = World(0.005, 0.005, 0.25)
    for told in (study_of(Row("simulated", world), 0), study_of(Row("replayed", world), 0)):
        assert told.found and not told.any_gain and abs(told.error) < 0.02


def test_study_in_memory_is_the_study_in_a_database(tmp_path):
    row = Row("replayed", World(0.02, 0.03, 0.1))
    _, kept, in_memory = judged(row, 3)
    with Store(tmp_path / "trials.db") as store:
        _, stored, in_database = judged(row, 3, store)
    assert in_memory == in_database and kept == stored


def test_studies_are_written_as_they_come_and_the_next_run_goes_on(tmp_path, capsys):
    path = tmp_path / "studies.jsonl"
    main(["--studies", "2", "--rows", "9", "10", "--to", str(path), "--seconds", "0"])
    main(["--studies", "1", "--rows", "9", "10", "--to", str(path)])
    first = path.read_text().splitlines()
    path.write_text(path.read_text() + first[0][:40])  # cut off while a line was written
    capsys.readouterr()
    main(["--studies", "1", "--rows", "9", "10", "--to", str(path)])
    printed = capsys.readouterr().out
    assert path.read_text().splitlines() == [*first, first[0][:40]]
    main(["--read", str(path)])
    assert capsys.readouterr().out == printed and printed.count("\n| replayed |") == 2


def test_studies_of_other_code_are_not_mixed_with_these(tmp_path):
    path = tmp_path / "studies.jsonl"
    main(["--studies", "1", "--rows", "9", "--to", str(path)])
    path.write_text(path.read_text().replace(files.version(), "0123456789ab"))
    with pytest.raises(UsageError, match=r"one version of the code.*Name another file"):
        main(["--studies", "1", "--rows", "9", "--to", str(path)])


@pytest.mark.slow
def test_studies_are_the_same_in_another_process_and_leave_the_environment_as_it_was():
    before = dict(os.environ)
    tasks = [(Row("replayed", World(0.0, 0.01)), number) for number in (0, 1)]
    assert dict(run(tasks, processes=2)) == {task: study_of(*task) for task in tasks}
    assert dict(os.environ) == before


def test_counts_stand_beside_their_shares_and_standard_errors(tmp_path):
    row = Row("replayed", World(0.02, 0.01, 0.1))
    told = [study_of(row, number) for number in (0, 1)]
    counted = Counted.of(row, told)
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps([{"group": "interval"}, {"group": "whole", "name": "old"}]))
    files.write_results(path, [counted.as_json()])
    kept, (mine) = json.loads(path.read_text())
    assert kept == {"group": "interval"} and mine["group"] == "whole" and mine["any_gain"]["of"] == 2
    assert Count(3, 400).share == pytest.approx(0.0075) and Count(20, 400).error == pytest.approx(0.0109, abs=1e-4)
    assert Count(0, 400).error == pytest.approx(0.0025, abs=1e-5)
