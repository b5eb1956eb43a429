"""Two drivers on one PostgreSQL study over two Ray nodes, with faults, and one of them killed half-way."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import optuna
import psutil
import pytest

from search.outcomes import Outcome
from search.server.command import LAUNCH_TAG
from search.server.ports import port_is_free
from search.storage.optuna_side import optuna_storage, quiet_optuna
from search.storage.store import Store

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "storage"))

from postgres_server import PostgresServer, binaries  # noqa: E402
from shared_driver import FAULTS, LAUNCHES, NAME, SLOTS, fault_of  # noqa: E402

MARK = "SEARCH_TWO_DRIVERS"
CLEAN_S = 60
BUSY_S = 600
"""Some sixty starts of two drivers take one to two minutes on a quiet machine, and six times that on a busy one."""
HARMLESS = FAULTS[-4:]

pytestmark = [
    pytest.mark.slow(about_s=60),
    pytest.mark.timeout(1800),
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed (apt-get install postgresql)"),
]


@pytest.fixture
def server():
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def mark():
    """Inherited by every process of the test; whatever has it is gone afterwards."""
    mark = uuid.uuid4().hex
    yield mark
    for process in marked(mark):
        with contextlib.suppress(psutil.Error):
            process.kill()


def marked(mark, *, servers=False):
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            env = process.environ()
            if (
                env.get(MARK) == mark
                and process.status() != psutil.STATUS_ZOMBIE
                and (not servers or LAUNCH_TAG in env)
            ):
                found.append(process)
    return found


def described(processes):
    """What a process is, whose launch, and how old: for who has to find out why it was left."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            age = time.time() - process.create_time()
            yield process.pid, process.ppid(), process.cmdline(), process.environ().get(LAUNCH_TAG), f"{age:.0f} s"


def start(mark, program, *words, stdin=subprocess.DEVNULL, log=subprocess.PIPE):
    return subprocess.Popen(
        [sys.executable, str(HERE / program), *map(str, words)],
        stdin=stdin,
        stdout=log,
        stderr=subprocess.DEVNULL if log is subprocess.PIPE else subprocess.STDOUT,
        env={**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent.parent)))},
        start_new_session=True,
    )


@pytest.fixture
def cluster(mark):
    """The address of two nodes with four GPUs each."""
    process = start(mark, "two_node_cluster.py", stdin=subprocess.PIPE)
    yield process.stdout.readline().decode().strip()
    with process:
        process.stdin.close()
        process.wait(60)


def until(due, limit_s, why):
    end = time.monotonic() + limit_s
    while not due():
        assert time.monotonic() < end, why()
        threading.Event().wait(0.1)


def ports_in(folder):
    for script in folder.glob("*/launches/*/command.sh"):
        yield from map(int, re.findall(r"--(?:nccl-)?port\s+(\d+)", script.read_text()))


def held(ports):
    return [port for port in ports if not port_is_free(port, ignore_old_connections=True)]


@pytest.fixture
def drivers():
    """Processes that a test starts; those that it leaves running when it fails are ended."""
    processes = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_every_launch_is_accounted_for_once_though_a_driver_is_killed_half_way(
    server, cluster, mark, drivers, tmp_path
):
    logs = [tmp_path / f"driver{number}.log" for number in (1, 2, 3)]

    def drive(number):
        with logs[number - 1].open("wb") as log:
            drivers.append(start(mark, "shared_driver.py", tmp_path / f"r{number}", server.url, cluster, log=log))
        return drivers[-1]

    def told():
        return "\n".join(log.read_text()[-3000:] for log in logs if log.exists())

    first, second = drive(1), drive(2)
    with Store(server.url) as store:

        def half_way():
            assert first.poll() is None and second.poll() is None, told()
            return len(store.launches(NAME)) >= LAUNCHES // 2 and second_owns_a_launch()

        def second_owns_a_launch():
            return any(f":{second.pid}:" in owner for owner in store.owners(NAME).values())

        until(half_way, BUSY_S, told)
        second.send_signal(signal.SIGKILL)
        second.wait()
        in_flight = sum(f":{second.pid}:" in owner for owner in store.owners(NAME).values())
        first.wait(BUSY_S)
        assert first.returncode == 0, told()
        again = drive(3)
        again.wait(BUSY_S)
        assert again.returncode == 0, told()
        launches, owners = store.launches(NAME), store.owners(NAME)

    assert [launch.number for launch in launches] == list(range(1, LAUNCHES + 1)) and owners == {}
    assert all(launch.outcome is not None for launch in launches)
    cut = [launch for launch in launches if launch.outcome is Outcome.INTERRUPTED]
    assert 1 <= len(cut) == in_flight <= SLOTS
    both = [len(re.findall(r"^launched ", log.read_text(), re.MULTILINE)) for log in logs[:2]]
    assert sum(both) + in_flight == LAUNCHES and min(both) > 0

    measured = Counter(launch.config for launch in launches if launch.outcome is Outcome.MEASURED)
    # Each driver measures the baseline on its second slot too: planned, and outside of any trial.
    twice = {config.config_id for config, times in measured.items() if times > 1}
    assert twice <= {"off"} and measured.total() > LAUNCHES // 3
    # What was only lost (a crash that may be the host's) is free for the other driver; a verdict is given once.
    lost = (Outcome.LOST, Outcome.INTERRUPTED)
    verdicts = Counter(launch.asked for launch in launches if launch.trial is not None and launch.outcome not in lost)
    assert set(verdicts.values()) == {1}
    attempts = Counter(launch.trial for launch in launches if launch.trial is not None and launch not in cut)
    assert max(attempts.values()) <= 2, "one second attempt at most"
    healthy = [one for one in launches if fault_of(one.asked.config_id) in ("", *HARMLESS) and one not in cut]
    spoiled = [launch for launch in healthy if launch.outcome is not Outcome.MEASURED]
    # Limits are a fifth of the real ones, so a starved machine may lose a server that is well; it blames no config.
    assert len(spoiled) <= 2 and all(launch.outcome is Outcome.LOST for launch in spoiled), spoiled

    storage = optuna_storage(server.url)
    with quiet_optuna():
        trials = optuna.load_study(study_name=NAME, storage=storage).trials
    storage.remove_session()
    storage.engine.dispose()
    assert all(trial.state.is_finished() for trial in trials)
    complete = Counter(tuple(sorted(t.params.items())) for t in trials if t.state.name in ("COMPLETE", "PRUNED"))
    assert set(complete.values()) == {1}

    until(
        lambda: not marked(mark, servers=True), CLEAN_S, lambda: f"left: {list(described(marked(mark, servers=True)))}"
    )
    ports = set(ports_in(tmp_path))
    assert len(ports) >= LAUNCHES
    until(lambda: not held(ports), CLEAN_S, lambda: f"held: {held(ports)}")
