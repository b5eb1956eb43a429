"""`search dialect --from`: which environment is recorded, and what is refused."""

import sys

import pytest
from typer.testing import CliRunner

from search.app import dialect as recording
from search.cli.app import app


def dialect(*words):
    return CliRunner().invoke(app, ["dialect", *map(str, words)])


def test_wrong_usage_exits_with_2(tmp_path):
    assert "names the environment" in dialect().stderr
    done = dialect("--from", tmp_path)
    assert done.exit_code == 2 and "there is no" in done.stderr
    done = dialect("--from", sys.executable)
    assert done.exit_code == 2 and "No package metadata was found for sglang" in done.stderr


@pytest.mark.parametrize(
    ("release", "said"), [("0.5.17", "has a dialect"), ("0.5.24", "is newer than any that was read")]
)
def test_both_sets_of_cases_of_the_installed_release_are_recorded(tmp_path, monkeypatch, release, said):
    ran = []

    def run(words):
        ran.append(words)
        return f'["{release}", "/site"]' if "-c" in words else "noise of an import\nrecorded"

    monkeypatch.setattr(recording, "_run", run)
    done = dialect("--from", sys.executable, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[:2] == ["recorded", "recorded"] and said in done.stdout
    asked, chosen, many = ran
    assert asked[0] == sys.executable
    assert chosen[2:] == ["--release", release, "--tree", "/site", "--out", str(tmp_path / f"{release}.jsonl.gz")]
    assert many[-1] == "--architectures" and str(tmp_path / "architectures" / f"{release}.jsonl.gz") in many
