"""What an earlier crash left: found by its tag alone, stopped, and nothing else touched."""

import os
import signal
import subprocess
import sys
import uuid

import pytest
from server_helpers import DEAF, DOUBLE_FORK, alive, until
from typer.testing import CliRunner

from search.cli.app import app
from search.host.nvml import GpuUser
from search.server import reaper
from search.server.command import ServerCommand
from search.server.reaper import find_leftovers, find_orphans, reap_orphans, stop_leftovers

SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Variables of this test alone, so that servers of other tests are neither seen nor reaped."""
    own = uuid.uuid4().hex
    monkeypatch.setattr(reaper, "LAUNCH_TAG", f"LAUNCH_{own}")
    monkeypatch.setattr(reaper, "GUARDIAN_TAG", f"GUARDIAN_{own}")


@pytest.fixture
def start():
    """Starts processes with some variables, waits for their first line, and ends them with the test."""
    started = []

    def start(code, *args, **env):
        words = {"launch": reaper.LAUNCH_TAG, "guards": reaper.GUARDIAN_TAG}
        process = subprocess.Popen(
            [sys.executable, "-c", code, *args],
            env={**os.environ, **{words.get(name, name): value for name, value in env.items()}},
            stdout=subprocess.PIPE,
        )
        process.stdout.readline()
        started.append(process)
        return process

    yield start
    for leftover in find_leftovers():
        os.kill(leftover.process.pid, signal.SIGKILL)
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_nothing_of_ours_is_nothing_found(start):
    start(SLEEP)
    assert (find_leftovers(), reap_orphans()) == ((), ((), ()))


def test_orphan_is_stopped_and_a_namesake_without_tag_is_not(start):
    orphan, namesake = start(SLEEP, "serve", launch="0001-off-aa"), start(SLEEP, "serve")
    found, survivors = reap_orphans()
    assert [(leftover.process.pid, leftover.tag) for leftover in found] == [(orphan.pid, "0001-off-aa")]
    assert (survivors, alive(orphan.pid), alive(namesake.pid)) == ((), False, True)


def test_launch_with_a_living_guardian_is_left_alone_unless_asked(start):
    server, other = start(SLEEP, launch="t1"), start(SLEEP, launch="t2")
    start(SLEEP, guards=f"t1 {os.getpid()}")
    assert [leftover.tag for leftover in find_orphans()] == ["t2"]
    reap_orphans()
    assert (alive(server.pid), alive(other.pid)) == (True, False)
    stop_leftovers(find_leftovers())
    assert not alive(server.pid)


def test_process_that_has_lost_its_environment_still_counts_while_it_lives(start, monkeypatch):
    """An ending process loses it before its files and its GPU's memory."""
    server = start(DEAF, launch="t1")
    (leftover,) = find_leftovers()
    told = iter(["t1"])
    with monkeypatch.context() as lost:
        lost.setattr(reaper, "variable_of", lambda pid, name: next(told, ""))
        assert stop_leftovers([leftover], grace_s=0.2, kill_s=0.2) == (leftover,)
    assert alive(server.pid)


def test_stopped_guardian_counts_while_its_supervisor_lives(start):
    start(SLEEP, launch="t1")
    guardian = start(SLEEP, guards=f"t1 {os.getpid()}")
    guardian.send_signal(signal.SIGSTOP)
    until(lambda: reaper.process_table({guardian.pid})[guardian.pid].state == "T")
    assert find_orphans() == ()


def test_stopped_guardian_without_supervisor_is_ended_with_its_launch(start):
    server, guardian = start(SLEEP, launch="t1"), start(SLEEP, guards="t1 1")
    guardian.send_signal(signal.SIGSTOP)
    until(lambda: reaper.process_table({guardian.pid})[guardian.pid].state == "T")
    found, survivors = reap_orphans()
    assert {(leftover.process.pid, leftover.guards) for leftover in found} == {
        (server.pid, False),
        (guardian.pid, True),
    }
    assert (survivors, alive(server.pid), alive(guardian.pid)) == ((), False, False)


def test_deaf_and_stopped_processes_are_killed_after_the_grace(start):
    deaf, still = start(DEAF, launch="t1"), start(SLEEP, launch="t1")
    still.send_signal(signal.SIGSTOP)
    assert reap_orphans(grace_s=0.1)[1] == ()
    assert not alive(deaf.pid) and not alive(still.pid)


def test_grandchild_that_forked_twice_into_a_session_of_its_own_is_found(start):
    start(DOUBLE_FORK, "setsid", launch="t1")
    assert len(find_leftovers()) == 2
    assert reap_orphans(grace_s=0.1)[1] == ()
    assert find_leftovers() == ()


def test_process_whose_pid_was_used_again_is_not_signalled(start):
    from dataclasses import replace

    process = start(SLEEP, launch="t1")
    (leftover,) = find_leftovers()
    earlier = replace(leftover, process=leftover.process._replace(started=leftover.process.started - 1))
    other_launch = replace(leftover, tag="t0")
    assert stop_leftovers((earlier, other_launch)) == ()
    assert alive(process.pid)


def test_survivor_of_sigkill_is_returned(start, monkeypatch):
    start(SLEEP, launch="t1")
    monkeypatch.setattr(reaper, "send", lambda leftover, number: True)
    found = find_leftovers()
    assert stop_leftovers(found, grace_s=0, kill_s=0) == found


def test_line_of_a_leftover_tells_pid_age_memory_launch_and_command_without_secrets(start, monkeypatch):
    process = start(SLEEP, "--api-key", "tr0ub4dor", "a\nb", launch="0007-off-aa")
    monkeypatch.setattr(reaper, "gpu_users", lambda: (GpuUser(process.pid, "GPU-1", 3 * 2**30),))
    monkeypatch.setattr(reaper, "_LONGEST_COMMAND", 400)
    line = str(find_leftovers()[0])
    assert line.startswith(f"pid {process.pid}, 0 min 0")
    assert "GPU 3072 MiB, launch 0007-off-aa: " in line
    assert "--api-key *** a b" in line and "tr0ub4dor" not in line


def test_memory_that_nvml_cannot_tell_is_unknown_not_zero(start, monkeypatch):
    start(SLEEP, launch="t1")
    monkeypatch.setattr(reaper, "gpu_users", lambda: None)
    assert find_leftovers()[0].gpu_bytes is None


def clean(*words):
    return CliRunner().invoke(app, ["clean", *words])


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("SPEC_SEARCH_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


def test_clean_with_nothing_to_do_says_so():
    done = clean()
    assert (done.exit_code, done.stdout) == (0, "nothing to clean\n")


def test_clean_stops_orphans_and_names_them(start):
    orphan, running = start(SLEEP, launch="t1"), start(SLEEP, launch="t2")
    start(SLEEP, guards=f"t2 {os.getpid()}")
    done = clean()
    first, *rest = done.stdout.splitlines()
    assert done.exit_code == 0
    assert first.startswith(f"stopping pid {orphan.pid}, ")
    assert rest == ["not touched: 1 running, t2 (`--all` stops them too)", "stopped 1 process"]
    assert (alive(orphan.pid), alive(running.pid)) == (False, True)


def test_clean_all_stops_what_runs_too(start):
    running = start(SLEEP, launch="t2")
    start(SLEEP, guards=f"t2 {os.getpid()}")
    assert clean("--all").stdout.endswith("stopped 1 process\n")
    assert not alive(running.pid)


def test_clean_dry_run_only_lists(start):
    orphan = start(SLEEP, launch="t1")
    done = clean("--dry-run")
    assert done.stdout.startswith(f"found pid {orphan.pid}, ")
    assert alive(orphan.pid)


def test_clean_removes_lock_files_that_nobody_holds(locks):
    locks.mkdir()
    (locks / "GPU-1.lock").write_text("{}")
    (locks / "notes.txt").write_text("not ours")
    assert clean().stdout == "removed 1 lock file of GPUs that nobody holds any more\n"
    assert [path.name for path in locks.iterdir()] == ["notes.txt"]


def test_clean_that_cannot_end_a_process_says_so_and_fails(start, monkeypatch):
    orphan = start(SLEEP, launch="t1")
    monkeypatch.setattr("search.server.reaper.stop_leftovers", lambda found: found)
    done = clean()
    assert done.exit_code == 3
    assert f"survived SIGKILL: pid {orphan.pid}, " in done.stderr


def test_script_of_a_launch_does_not_tag_what_a_person_starts():
    command = ServerCommand(("python",), {"SPEC_SEARCH_LAUNCH": "t1"})
    assert "SPEC_SEARCH_LAUNCH" not in command.script()
