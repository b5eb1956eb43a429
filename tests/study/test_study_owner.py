"""Who lives: by its process on this host, by its last beat on another."""

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from search.storage.heartbeat import heartbeat, owners_alive
from search.storage.owner import lives, this_process
from search.storage.store import Store

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def store(lab):
    with Store(lab.folder / "trials.db") as store:
        yield store


def test_owner_lives_only_as_another_process_of_this_host_with_the_same_start():
    parent = os.getppid()
    start = f"{psutil.Process(parent).create_time():.0f}"
    assert lives(f"{socket.gethostname()}:{parent}:{start}")
    assert not lives(f"{socket.gethostname()}:{parent}:1")
    assert not lives(f"elsewhere:{parent}:{start}")
    assert not lives(this_process()) and not lives("") and not lives("no owner")


def test_killed_process_that_nobody_waited_for_is_dead():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = f"{socket.gethostname()}:{child.pid}:{psutil.Process(child.pid).create_time():.0f}"
        assert lives(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not lives(owner)


@pytest.mark.parametrize(("age_s", "alive"), [(0, True), (59, True), (60, False), (3600, False)])
def test_driver_on_another_host_lives_while_its_beat_is_young(store, age_s, alive):
    store.beat("elsewhere:7:1", NOW - timedelta(seconds=age_s))
    assert owners_alive(store, now=NOW)("elsewhere:7:1") is alive
    assert not owners_alive(store, now=NOW)("elsewhere:8:1")


def test_beat_of_a_dead_process_of_this_host_does_not_revive_it(store):
    gone = f"{socket.gethostname()}:{os.getppid()}:1"
    store.beat(gone, NOW)
    assert not owners_alive(store, now=NOW)(gone)


def test_heartbeat_is_renewed_until_the_block_ends(store):
    times = iter(NOW + timedelta(seconds=10 * n) for n in range(1_000_000))
    with heartbeat(store, now=lambda: next(times), every_s=0.01):
        first = store.beats()[this_process()]
        while store.beats()[this_process()] == first:
            pass
    assert first >= NOW and store.beats() == {}


def test_heartbeat_outlives_a_database_that_fails_for_a_while(store, caplog):
    caplog.set_level("DEBUG", logger="search.storage.heartbeat")
    with heartbeat(store, every_s=0.01):
        first = store.beats()[this_process()]
        with store._engine.begin() as connection:
            connection.exec_driver_sql("alter table search_drivers rename to away")
        while "no heartbeat" not in caplog.text:
            pass
        with store._engine.begin() as connection:
            connection.exec_driver_sql("alter table away rename to search_drivers")
        while store.beats()[this_process()] == first:
            pass
