"""The shipped recordings replay, and say what was measured."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import app

ROOT = Path(__file__).parents[2] / "recordings"


@pytest.fixture
def replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def replay(name):
        done = CliRunner().invoke(app, ["run", "--replay", str(ROOT / name), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return replay


def test_h200_codelm_replays_to_the_front_that_was_measured(replayed):
    result = replayed("h200-codelm-0.5.11")
    front = [
        (row["config_id"], row["c1_tpot_ms"], row["c100_output_tps"], row["accept_c100"]) for row in result["front"]
    ]
    assert sorted(front) == [
        ("off", 3.094, 12123.241, None),  # the geometric mean of two repeats that lie 21% apart
        ("v1-k4-s3-d16", 2.3127, 2660.521, 1.535),
        ("v2-k1-s4-d5", 2.4636, 4839.339, 2.58),
    ]


def test_h200_codelm_holds_the_collapse_of_acceptance_on_the_v1_worker(replayed):
    replayed("h200-codelm-0.5.11")
    rows = Path("reports/h200-codelm-0.5.11.replay/trials.csv").read_text().splitlines()
    drifting = {line.split(",")[2] for line in rows if "ACCEPT_DRIFT" in line}
    assert drifting == {"v1-k1-s2-d3", "v1-k2-s2-d7", "v1-k4-s3-d16"}
    assert any("flashmla" in line and "ARG_INVALID_COMBO" in line for line in rows)


def test_story_replays_to_its_own_gains(replayed):
    headlines = replayed("kimi-k25-story")["headlines"]
    # One number each says nothing of how far starts differ: the gains are told, and none is claimed.
    assert headlines[0].startswith("From C=1 on: no speculation (off), 92.7 [")
    assert not any(line.startswith("Speculation pays") for line in headlines)
    assert any("v2-k1-s2-d3 at C=30, +10.1%" in line for line in headlines)
