"""A run that has ended holds no connection to its database, however it ended."""

import gc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import run_app


def open_files(database: Path) -> list[str]:
    """What this process still holds open of a SQLite database: the file, its log and the log's index."""
    held = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            held.append(str(handle.readlink()))
        except FileNotFoundError:  # the listing's own handle
            continue
    return [path for path in held if path.startswith(str(database))]


@pytest.fixture
def uncollected():
    """No garbage collection inside the test: it would close by chance what nobody released."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_database_is_released_when_a_run_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--study", "kimi-k25", "--simulate", "--sampler", "random", "-q", "--launches", "2")
    assert CliRunner().invoke(run_app, [*words, "--seed", "0"]).exit_code == 0
    assert open_files(tmp_path / "trials.db") == []
    refused = CliRunner().invoke(run_app, [*words, "--seed", "7"])
    assert refused.exit_code == 2 and "--accept-changes" in refused.output
    assert open_files(tmp_path / "trials.db") == []
