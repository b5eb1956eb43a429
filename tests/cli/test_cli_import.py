"""`search import`, from argument list to exit code; and what its recordings are good for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import app, run_app
from search.engines.recording import read_recording

TABLE = """| bs | steps | topk | num_draft | throughput | acc len |
| --- | --- | --- | --- | --- | --- |
| 1 | 0 | 0 | 0 | 222.47 | - |
| 64 | 0 | 0 | 0 | 1073.69 | - |
| 1 | 3 | 1 | 4 | 159.78 | 1.86 |
| 64 | 3 | 1 | 4 | 1447.90 | 1.86 |
"""
PUBLIC = sorted(path.parent for path in (Path(__file__).parents[2] / "recordings" / "public").glob("*/meta.json"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def search(*words, text=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=text)


def brought(*words):
    done = search("import", "-", "--to", "lab", "--source", "a link", "--spec-version", "v1", *words, text=TABLE)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.slow
def test_pasted_table_answers_a_what_if_by_itself():
    done = brought("--gpus", "2x H100", "--release", "0.5.11", "--algorithm", "EAGLE3")
    assert "lab: 2 configs in 4 rows, hand-made" in done.stdout
    asked = search("whatif", "--recording", "lab", "--json", "topk=1 num_steps=2 spec_version=v1")
    assert asked.exit_code == 0, asked.output
    answer = json.loads(asked.stdout)
    assert answer["release"] == "0.5.11"
    assert "typed in by hand or computed, not measured by this tool" in answer["rests_on"][0]


def test_what_if_asks_for_the_release_that_nobody_told():
    brought()
    asked = search("whatif", "--recording", "lab", "v1-k1-s2-d3")
    assert asked.exit_code == 2
    assert "--release" in asked.stderr


@pytest.mark.slow
def test_imported_table_replays_and_recommends_nothing_as_measured():
    brought()
    done = CliRunner().invoke(run_app, ["--replay", "lab", "--json"])
    assert done.exit_code == 0, done.output
    assert "SYNTHETIC" in Path("reports/lab.replay/trials.csv").read_text()


def test_replay_without_a_baseline_says_what_the_table_is_good_for():
    table = "\n".join(line for line in TABLE.splitlines() if "| 0 |" not in line)
    assert search("import", "-", "--to", "lab", "--source", "x", "--spec-version", "v1", text=table).exit_code == 0
    done = CliRunner().invoke(run_app, ["--replay", "lab"])
    assert done.exit_code == 2
    assert "compares with a baseline at concurrency 1 and 64, but recording 'lab' has none" in done.stderr


def test_folder_that_is_taken_is_kept_and_added_to_on_request():
    brought()
    before = read_recording(Path("lab"))
    again = search("import", "-", "--to", "lab", "--source", "x", text=TABLE)
    assert again.exit_code == 2
    assert "--add" in again.stderr
    assert read_recording(Path("lab")) == before
    line = json.dumps({"max_concurrency": 1, "output_throughput": 250, "accept_length": 2.2})
    more = search("import", "-", "--to", "lab", "--source", "own", "--config", "v1-k1-s2-d3", "--add", text=line)
    assert more.exit_code == 0, more.output
    after = read_recording(Path("lab"))
    assert after.rows[:4] == before.rows
    assert (after.rows[4].config.config_id, after.rows[4].launch) == ("v1-k1-s2-d3", 3)
    assert [part["source"] for part in after.meta["imported"]] == ["a link", "own"]


def test_what_was_measured_is_not_added_to(here):
    folder = here / "measured"
    folder.mkdir()
    brought()
    meta = json.loads(Path("lab/meta.json").read_text())
    del meta["imported"]
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "measurements.csv").write_text(Path("lab/measurements.csv").read_text())
    done = search("import", "-", "--to", folder, "--source", "x", "--spec-version", "v1", "--add", text=TABLE)
    assert done.exit_code == 2
    assert "was not" in done.stderr


@pytest.mark.parametrize(
    ("table", "said"),
    [("nowhere.csv", "there is no"), (".", "regular file")],
)
def test_no_file_is_said_so(table, said):
    done = search("import", table, "--to", "lab", "--source", "x")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("lab").exists()


def test_folder_that_cannot_be_written_is_said_so(here):
    (here / "taken").write_text("a file")
    done = search("import", "-", "--to", "taken", "--source", "x", "--spec-version", "v1", text=TABLE)
    assert done.exit_code == 2
    assert "can be written" in done.stderr
    assert search("import", "-", "--to", "/", "--source", "x", "--spec-version", "v1", text=TABLE).exit_code == 2


def test_public_tables_are_there():
    assert len(PUBLIC) >= 6


@pytest.mark.parametrize("folder", PUBLIC, ids=lambda folder: folder.name)
def test_public_table_names_its_source_and_holds_its_numbers(folder):
    recording = read_recording(folder)
    assert recording.meta["hand_made"] is True
    assert "https://github.com/" in recording.meta["source"]
    assert recording.meta["not_known"]
    numbers = (folder / "table.md").read_text().replace("|", " ").split()
    for row in recording.rows:
        told = row.output_tps if row.measured else row.accept_length
        assert told in {float(cell) for cell in numbers if cell.replace(".", "", 1).isdigit()}
