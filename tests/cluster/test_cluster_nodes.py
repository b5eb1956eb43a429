"""Slots over two Ray nodes, a node that dies, and a Ray that dies itself; each in a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from search.cluster._files import TAIL_BYTES, Workplace, unpack
from search.cluster._holder import GpuHolder
from search.cluster._ray_session import RayEngine
from search.cluster._replaceable import Replaceable
from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, Slot, StopReport
from search.errors import LaunchFailed, LoadFailed
from search.outcomes import Evidence, Reason
from search.shape import Switched, SwitchFailed

HERE = Path(__file__).parent
OFF, CHAIN, TREE = (SpecConfig.from_id(name) for name in ("off", "v2-k1-s2-d3", "v2-k4-s4-d16"))


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
    told = place.as_at_home(Evidence(f"see {place.paths.server_log}", log_path=str(place.paths.server_log)))
    assert (told.log_path, told.root_line) == (str(home.server_log), f"see {home.server_log}")
    unpack(place.pack(), home)
    assert home.server_log.read_bytes().startswith(b"[6 bytes before this were left on the server's host]\nxxx")
    assert os.access(home.command, os.X_OK)
    assert not place.paths.root.exists() and place.pack() == {}


class FarSession:
    """Writes a file per measurement; breaks as its scripts say, with evidence that names files where it runs."""

    boot_s = 1.0
    holds = (CHAIN, TREE)

    def __init__(self, paths):
        self.effective, self.log, self.paths = EffectiveSettings(OFF), paths.server_log, paths
        self.log.write_text("started\n")

    def measure(self, phase, repeat):
        self.paths.requests.write_text(f"{self.effective.config}\n")
        if repeat:
            raise LoadFailed(Reason.OOM_RUNTIME, Evidence("see", log_path=str(self.log)), 1.0, ("pid 7",))

    def switch(self, config, *, paths):
        paths.command.write_text("#!/bin/sh\n")
        if config == TREE:
            evidence = Evidence(f"see {self.log}", "switch", None, str(self.log))
            raise SwitchFailed("no room", True, Reason.OOM_GRAPH, evidence)
        self.effective, self.paths = EffectiveSettings(config), paths
        return Switched(1.0, built=True, memory_gb=0.5)

    def close(self):
        self.log.write_text("started\nended\n")
        return StopReport(clean=True, duration_s=0.1)


class FarEngine:
    def launch(self, config, *, slot, paths, holds=()):
        return FarSession(paths)


class NearActors:
    """Calls a holder as Ray does, without Ray."""

    def __init__(self, holder):
        self.holder = holder

    def call(self, index, method, *args):
        if method == "launch":
            args = (*args[:2], "another host", *args[3:])
        return getattr(self.holder, method)(*args)

    def tell(self, index, method):
        getattr(self.holder, method)()

    def holds(self, index):
        return True


def test_files_of_each_measurement_of_a_start_on_another_host_come_home_to_its_own_folder(tmp_path):
    holder = GpuHolder(FarEngine, index=0, gpu_count=0, lease_s=600)
    homes = [LaunchPaths(tmp_path / f"000{number}-x") for number in range(1, 4)]
    phase = Phase(1, requests=1, output_tokens=16)
    session = RayEngine(NearActors(holder), 0).launch(OFF, slot=Slot(0), paths=homes[0], holds=(CHAIN, TREE))
    session.measure(phase, 0)
    assert (session.holds, session.effective.config) == ((CHAIN, TREE), OFF)
    assert session.switch(CHAIN, paths=homes[1]).seconds == 1.0
    assert session.effective.config == CHAIN
    session.measure(phase, 0)
    with pytest.raises(SwitchFailed) as caught:
        session.switch(TREE, paths=homes[2])
    assert (caught.value.usable, caught.value.cause) == (True, Reason.OOM_GRAPH)
    assert caught.value.evidence == Evidence(f"see {homes[0].server_log}", "switch", None, str(homes[0].server_log))
    with pytest.raises(LoadFailed) as failed:
        session.measure(phase, 1)
    assert (failed.value.leftovers, failed.value.evidence.log_path) == (("pid 7",), str(homes[0].server_log))
    assert session.close().clean
    assert homes[0].server_log.read_text() == "started\nended\n"
    assert [home.requests.read_text() for home in homes[:2]] == ["off\n", f"{CHAIN}\n"]
    assert os.access(homes[1].command, os.X_OK) and not homes[1].server_log.exists()


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
