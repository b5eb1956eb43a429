"""Places that cannot be written, addresses that are taken, inputs that never end: a sentence each, before anything is launched."""

import os
import socket
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.cli.app import app
from search.errors import BreakerOpen, UsageError
from search.load.prompts import load_prompts
from search.study import outputs
from search.study.outputs import check_room, prepare

SIMULATED = ("run", "--study", "kimi-k25", "--simulate", "--launches", "2")


def ask(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("of", ["reports", "study", "launches"])
def test_reports_where_a_file_stands_are_refused_before_a_launch(here, of):
    place = {
        "reports": "reports",
        "study": "reports/kimi-k25.simulated",
        "launches": "reports/kimi-k25.simulated/launches",
    }
    (here / place[of]).parent.mkdir(parents=True, exist_ok=True)
    (here / place[of]).write_text("mine")
    done = ask(*SIMULATED)
    assert done.exit_code == 2 and "cannot be written: is a file" in done.stderr and "`--reports`" in done.stderr
    assert (here / place[of]).read_text() == "mine" and not (here / "trials.db").exists()


@pytest.mark.parametrize("place", ["/proc/reports", "/sys/reports", "/dev/null/reports"])
def test_reports_that_no_file_system_keeps_are_refused_before_a_launch(here, place):
    done = ask(*SIMULATED, "--reports", place)
    assert done.exit_code == 2 and "Nothing was launched" in done.stderr
    assert not (here / "trials.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_reports_in_a_folder_that_is_read_only_are_refused(here):
    (here / "shut").mkdir(mode=0o500)
    done = ask(*SIMULATED, "--reports", here / "shut")
    assert done.exit_code == 2 and "Permission denied" in done.stderr


def test_nothing_of_the_trial_write_stays(here):
    prepare(here / "reports" / "lab")
    assert [path for path in here.rglob("*") if path.is_file()] == []


def test_full_disk_is_told_before_the_first_launch_and_before_a_later_one(here, monkeypatch):
    monkeypatch.setattr(outputs.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2**20}))
    with pytest.raises(UsageError, match=r"needs 64 MiB of room .* has 1 MiB left"):
        prepare(here / "reports" / "lab")
    with pytest.raises(BreakerOpen, match="Make room, then run the same command again"):
        check_room(here)


def test_prompts_of_a_device_are_refused_at_once(here):
    with pytest.raises(UsageError, match="must be a regular file"):
        load_prompts(Path("/dev/zero"))
    os.mkfifo(here / "pipe")
    with pytest.raises(UsageError, match="must be a regular file"):
        load_prompts(here / "pipe")


def test_recording_of_devices_is_refused_at_once(here):
    folder = here / "rec"
    folder.mkdir()
    (folder / "meta.json").symlink_to("/dev/zero")
    done = ask("run", "--replay", folder)
    assert done.exit_code == 2 and "regular file" in done.stderr


def test_dashboard_on_a_busy_port_says_so(here):
    ask(*SIMULATED, "-q")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = ask("dashboard", "--port", port)
    assert done.exit_code == 2 and f"127.0.0.1:{port} is not: Address already in use" in done.stderr
    done = ask("dashboard", "--host", "no such host")
    assert done.exit_code == 2 and "Choose another `--port`" in done.stderr


@pytest.mark.parametrize("seed", [-1, 2**32, 10**30])
def test_seed_out_of_range_is_refused(seed):
    done = ask(*SIMULATED, "--seed", seed)
    assert done.exit_code == 2 and "Invalid value for '--seed'" in done.stderr


def test_report_record_and_whatif_only_look_into_the_database(here):
    ask(*SIMULATED, "-q")
    database = here / "trials.db"
    # Connections of the run, which lives on in this process, fold its journal into the file whenever they are collected.
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.chmod(stat.S_IRUSR)
    before = database.read_bytes()
    for words in (
        ("report", "--study", "kimi-k25"),
        ("record", "--study", "kimi-k25", "--to", "rec"),
        ("whatif", "off", "--study", "kimi-k25"),
    ):
        assert ask(*words).exit_code == 0
    assert database.read_bytes() == before


def test_folder_that_is_gone_is_told_instead_of_a_traceback(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(app, ["run", "--study", "kimi-k25", "--simulate"])
    monkeypatch.chdir(tmp_path)

    assert done.exit_code == 2 and "the current one is gone" in done.output and isinstance(done.exception, SystemExit)
