"""Slots over two Ray nodes, a node that dies, and a Ray that dies itself; each in a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from search.cluster._files import TAIL_BYTES, Workplace, unpack
from search.cluster._replaceable import Replaceable
from search.contracts import LaunchPaths
from search.errors import LaunchFailed, LoadFailed
from search.outcomes import Evidence, Reason

HERE = Path(__file__).parent


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, str(HERE / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent.parent)))},
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line), done


@pytest.mark.slow(about_s=20)
def test_slots_spread_over_two_nodes_send_their_files_home_and_survive_the_death_of_one(tmp_path):
    told, done = run("two_nodes.py", tmp_path)
    assert told["unfit"] == "GPUs in the Ray cluster: 6 on one node are needed, but the largest node has 4."
    assert told["notices"].startswith("4 of the study's 6 slots are used")
    assert told["slots"] == "4 8" and told["nodes"] == "2"
    assert told["home"] == "3 a server of slot 3 True"
    assert told["failed"] == "OOM_KV True True"
    assert told["after"] == "2 True" and told["causes"] == "WORKER_LOST fine"
    assert told["again"].startswith("WORKER_LOST: GPUs in the Ray cluster: no 2 of one node came free within 2 s.")
    assert told["clean"] == "False"
    assert "raylet" not in done.stdout + done.stderr


@pytest.mark.slow(about_s=15)
@pytest.mark.parametrize("process", ["gcs_server", "raylet"])
def test_local_ray_that_dies_is_started_once_and_then_the_study_is_told_to_stop(process):
    told, done = run("dying_ray.py", process)
    assert told["first"].startswith("RAY_INFRA: Ray itself failed and was started again")
    assert told["between"] == "3.0"
    assert told["second"].startswith("Ray failed: ") and "run the same command again" in told["second"]
    assert "raylet" not in done.stdout


def test_files_are_written_in_the_drivers_folder_where_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    place = Workplace(LaunchPaths(tmp_path), "here")
    place.paths.server_log.write_text("x")
    assert (tmp_path / "server.log").read_text() == "x" and place.pack() == {}


def test_files_of_another_host_come_home_with_the_end_of_a_flood(tmp_path):
    home = LaunchPaths(tmp_path / "0007-off")
    place = Workplace(home, "another host")
    assert place.paths.root.name == "0007-off" and place.paths.root != home.root
    place.paths.server_log.write_bytes(b"first\n" + b"x" * TAIL_BYTES)
    place.paths.command.write_text("#!/bin/sh\n")
    error = LoadFailed(Reason.OOM_RUNTIME, Evidence("see", log_path=str(place.paths.server_log)), 1.0, ("pid 7",))
    told = place.as_at_home(error)
    assert type(told) is LoadFailed and told.leftovers == ("pid 7",)
    assert told.evidence.log_path == str(home.server_log)
    unpack(place.pack(), home)
    assert home.server_log.read_bytes().startswith(b"[6 bytes before this were left on the server's host]\nxxx")
    assert os.access(home.command, os.X_OK)
    assert not place.paths.root.exists() and place.pack() == {}


def test_names_from_a_node_never_leave_the_folder(tmp_path):
    unpack({"../../evil": b"1"}, LaunchPaths(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b" / "evil").exists() and not (tmp_path / "evil").exists()


def test_replaceable_is_replaced_once_when_everyone_has_left():
    actors, replaced, inside = Replaceable(), [], threading.Event()
    leave = threading.Event()

    def stay():
        with actors.entered():
            inside.set()
            leave.wait(30)
            assert not replaced

    def replace():
        actors.once(0, lambda: replaced.append(1))

    threads = [threading.Thread(target=stay)]
    threads[0].start()
    inside.wait(30)
    threads += [threading.Thread(target=replace) for _ in range(3)]
    for thread in threads[1:]:
        thread.start()
    leave.set()
    for thread in threads:
        thread.join(30)
    assert replaced == [1] and actors.lives == 1


def test_replaceable_lets_the_next_one_try_when_a_replacement_fails():
    actors = Replaceable()

    def fail():
        raise LaunchFailed(Reason.RAY_INFRA, Evidence("no"))

    with pytest.raises(LaunchFailed):
        actors.once(0, fail)
    actors.once(0, lambda: None)
    assert actors.lives == 1
