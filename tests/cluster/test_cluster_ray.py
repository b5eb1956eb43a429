"""Slots held by Ray actors: sessions, errors, lost workers, leases. One local Ray per test module."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from search.cluster import InlineExecutor, RayExecutor
from search.cluster._holder import GpuHolder
from search.cluster._ray import ANSWER_S
from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, Slot, StopReport
from search.errors import Interrupted, LaunchFailed, LoadFailed
from search.outcomes import Blame, Evidence, Reason
from search.shape import Switched, SwitchFailed, SwitchRefused

OFF = SpecConfig("off")
CHAIN = SpecConfig("v2", 1, 2, 3)
TREE = SpecConfig("v1", 2, 2, 7)
STUCK = SpecConfig("v2", 1, 1, 2)
PHASE = Phase(1, requests=1, output_tokens=16)
GUARDIAN_DIES = 7
"""The repeat in which it does."""


def _facts(config):
    return EffectiveSettings(config, release=str(os.getpid()), details=tuple(sorted(os.environ.items())))


class ScriptedSession:
    def __init__(self, engine, config, holds=()):
        self.engine, self.effective, self.boot_s, self.holds = engine, _facts(config), 3.0, holds

    def measure(self, phase, repeat):
        if self.engine.blocks.wait(timeout=60 if phase.concurrency > 1 else 0):
            raise Interrupted("aborted")
        if repeat == GUARDIAN_DIES:
            raise LoadFailed(Reason.WORKER_LOST, Evidence("the guardian died before its server", phase="c=1"))
        raise LoadFailed(Reason.SERVER_CRASH_LOAD, Evidence("Scheduler hit an exception", phase="c=1", exit_code=-9))

    def switch(self, config, *, paths):
        if config == TREE:
            os._exit(9)
        if config == STUCK and self.engine.blocks.wait(60):
            raise Interrupted("aborted")
        if config not in self.holds:
            raise SwitchRefused("another start")
        paths.command.touch()
        self.effective = _facts(config)
        return Switched(8.0, built=True, memory_gb=0.5)

    def close(self):
        if self.effective.config == STUCK:
            threading.Event().wait()
        Path(os.environ["SEARCH_TEST_FOLDER"], "closed").touch()
        return StopReport(clean=True, duration_s=0.5)


class ScriptedEngine:
    """`off` starts, a chain is refused, a tree takes its worker process down, a short chain is never stopped."""

    def __init__(self):
        self.blocks = threading.Event()

    def launch(self, config, *, slot, paths, holds=()):
        if config == CHAIN:
            raise LaunchFailed(Reason.OOM_KV, Evidence("Not enough memory.", phase="loading"))
        if config == TREE:
            os._exit(9)
        return ScriptedSession(self, config, holds)

    def abort(self):
        self.blocks.set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def executor(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEARCH_TEST_FOLDER", str(folder))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # the engine below, for Ray's workers
        with RayExecutor(ScriptedEngine, lease_s=600) as executor:
            yield executor


@pytest.fixture
def engine(executor):
    return executor.engine(executor.slots[0])


def launch(engine, executor, config=OFF, holds=()):
    return engine.launch(config, slot=executor.slots[0], paths=LaunchPaths(Path("unused")), holds=holds)


def test_session_lives_in_another_process_and_its_facts_come_home(engine, executor):
    with launch(engine, executor) as session:
        assert session.boot_s == 3.0
        assert session.effective.config == OFF
        assert session.effective.release != str(os.getpid())
    assert session.close() == StopReport(clean=True, duration_s=0.5)


def test_failed_launch_arrives_as_it_was_raised(engine, executor):
    with pytest.raises(LaunchFailed) as caught:
        launch(engine, executor, CHAIN)
    assert type(caught.value) is LaunchFailed
    assert caught.value.reason is Reason.OOM_KV
    assert caught.value.evidence == Evidence("Not enough memory.", phase="loading")


def test_failed_phase_arrives_as_it_was_raised(engine, executor):
    with launch(engine, executor) as session, pytest.raises(LoadFailed) as caught:
        session.measure(PHASE, 1)
    assert caught.value.evidence.exit_code == -9


def test_switch_changes_what_runs_and_where_files_go_and_a_refused_one_changes_nothing(engine, executor, tmp_path):
    paths = LaunchPaths(tmp_path / "0002-x")
    with launch(engine, executor, holds=(CHAIN,)) as session:
        assert (session.holds, session.effective.config) == ((CHAIN,), OFF)
        with pytest.raises(SwitchRefused, match="another start"):
            session.switch(OFF, paths=LaunchPaths(tmp_path / "0003-x"))
        assert session.effective.config == OFF
        assert session.switch(CHAIN, paths=paths) == Switched(8.0, built=True, memory_gb=0.5)
        assert (session.effective.config, session.boot_s) == (CHAIN, 3.0)
        assert paths.command.exists()


@pytest.mark.slow(about_s=8)
def test_worker_lost_in_the_middle_of_a_switch_blames_the_host_and_leaves_a_fresh_one(engine, executor, tmp_path):
    session = launch(engine, executor, holds=(TREE,))
    with pytest.raises(SwitchFailed) as caught:
        session.switch(TREE, paths=LaunchPaths(tmp_path))
    assert (caught.value.usable, caught.value.cause) == (False, Reason.WORKER_LOST)
    assert caught.value.evidence.phase == "switch"
    with pytest.raises(LaunchFailed) as closing:
        session.close()
    assert closing.value.reason is Reason.WORKER_LOST
    with launch(engine, executor) as session:
        assert session.effective.config == OFF


def test_session_whose_guardian_died_is_closed_by_the_actor_that_lives(engine, executor, folder):
    (folder / "closed").unlink(missing_ok=True)
    with launch(engine, executor) as session, pytest.raises(LoadFailed) as caught:
        session.measure(PHASE, GUARDIAN_DIES)
    assert caught.value.reason is Reason.WORKER_LOST
    assert session.close().clean
    assert (folder / "closed").exists()


def test_lost_worker_blames_the_host_and_the_next_launch_gets_a_fresh_one(engine, executor, capfd):
    with pytest.raises(LaunchFailed) as caught:
        launch(engine, executor, TREE)
    assert (caught.value.reason, caught.value.blame) == (Reason.WORKER_LOST, Blame.HOST)
    with launch(engine, executor) as session:
        assert session.effective.config == OFF
    assert capfd.readouterr().out == ""


def test_actor_that_never_answers_is_killed_with_a_sentence_and_the_next_launch_gets_a_fresh_one(
    engine, executor, monkeypatch
):
    monkeypatch.setitem(ANSWER_S, "close", 0.5)
    session = launch(engine, executor, STUCK)
    with pytest.raises(LaunchFailed) as caught:
        session.close()
    assert caught.value.reason is Reason.WORKER_LOST
    assert "waited 0.5 s for its answer to `close`" in caught.value.evidence.root_line
    monkeypatch.undo()
    with launch(engine, executor) as session:
        assert session.effective.config == OFF


def test_nothing_listens_beyond_loopback(executor):
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = {c.laddr.ip for p in family for c in p.net_connections("inet") if c.status == "LISTEN"}
    assert listening
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def test_silent_driver_loses_its_lease_the_session_is_closed_and_the_worker_leaves(monkeypatch, tmp_path):
    monkeypatch.setenv("SEARCH_TEST_FOLDER", str(tmp_path))
    left = threading.Event()
    holder = GpuHolder(ScriptedEngine, index=0, gpu_count=0, lease_s=0.2, leave=left.set)
    holder.launch(OFF, LaunchPaths(tmp_path), socket.gethostname())
    assert left.wait(30), "the worker outlived its driver's lease"
    assert (tmp_path / "closed").exists()


def test_servers_do_not_inherit_what_ray_changed(engine, executor):
    assert "OMP_NUM_THREADS" not in os.environ
    with launch(engine, executor) as session:
        assert "OMP_NUM_THREADS" not in dict(session.effective.details)


def test_inline_executor_refuses_a_slot_it_does_not_hold():
    with pytest.raises(ValueError, match="must be one of"):
        InlineExecutor(ScriptedEngine()).engine(Slot(3))


@pytest.mark.slow
def test_more_gpus_than_the_host_has_are_refused_at_once():
    """In a process of its own: a driver has one Ray."""
    program = "from search.cluster import RayExecutor; RayExecutor(dict, gpus_per_slot=4)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "HostUnfit: GPUs in the Ray cluster: 4 are needed, 0 are there." in done.stderr
