"""`search compare`, from argument list to exit code."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import app, run_app

RECORDINGS = Path(__file__).parents[2] / "recordings"
FIRST, MIXED, SLOTS = (str(RECORDINGS / f"h200-codelm-{name}") for name in ("0.5.11", "mixed", "two-slots"))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(*words):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_two_recordings_of_one_release_say_what_differs_and_that_hosts_are_unlike():
    done = compare(FIRST, MIXED)
    assert done.exit_code == 0, done.output
    assert "h200-codelm-0.5.11 and h200-codelm-mixed: measure.prompts.sha256: f8312b32… -> b978bd4a…;" in done.stdout
    assert "Hosts are taken for different ones" in done.stdout
    assert "only in h200-codelm-0.5.11: v1-k1-s2-d3" in done.stdout
    assert "decision at C=100: stays off" in done.stdout


def test_several_as_json_hold_every_step_and_the_whole():
    done = compare(FIRST, SLOTS, MIXED, "--json")
    told = json.loads(done.stdout)
    assert [(step["before"], step["after"]) for step in told["steps"]] == [
        ("h200-codelm-0.5.11", "h200-codelm-two-slots"),
        ("h200-codelm-two-slots", "h200-codelm-mixed"),
    ]
    assert told["whole"]["before"] == "h200-codelm-0.5.11"
    changes = {(one["config"], one["concurrency"]): one for one in told["steps"][0]["changes"]}
    assert changes["v2-k1-s2-d3", 100]["of"] == "gain"
    assert changes["off", 1]["verdict"] == "assumed scatter"


@pytest.mark.slow
def test_stored_study_compares_with_its_own_recording_as_equal():
    assert CliRunner().invoke(run_app, ["--study", "kimi-k25", "--simulate", "--launches", "12", "-q"]).exit_code == 0
    search = CliRunner().invoke(app, ["record", "--study", "kimi-k25", "--to", "mine"])
    assert search.exit_code == 0, search.output
    done = compare("kimi-k25", "mine", "--json")
    assert done.exit_code == 0, done.output
    whole = json.loads(done.stdout)["whole"]
    assert not {one["verdict"] for one in whole["changes"]} & {"better", "worse"}
    assert whole["only_after"] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "takes 2 to 20"),
        ((FIRST,), "takes 2 to 20"),
        ((FIRST, FIRST), "twice"),
        ((FIRST, "nothing"), "'nothing' is no folder of a recording"),
        ((FIRST, RECORDINGS / "public" / "inferencex-minimax-m3-thinking-on"), "measured at one load"),
    ],
)
def test_what_cannot_be_compared_is_said_so(words, said):
    done = compare(*words)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.slow
def test_report_answers_for_another_traffic_than_the_study_has():
    replay = ["--replay", str(RECORDINGS / "kimi-k25-story"), "-q"]
    assert CliRunner().invoke(run_app, replay).exit_code == 0
    words = ["report", "--study", "kimi-k25-story", "--traffic", "1:20%,30:50%,100:30%"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "v2-k1-s2-d3 would need 96.7% of the time, which saves 6.4 GPU hours a day" in said
    assert "from 46% on (as measured)" in said
    assert "96.7%" in Path("reports/kimi-k25-story.replay/summary.md").read_text()
    assert CliRunner().invoke(app, [*words[:-1], "1:20%"]).exit_code == 2
