"""Who lives: its process tells where it can be looked at, elsewhere its heartbeat; no clock of ours is compared with its own."""

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from postgres_server import PostgresServer, binaries

from search.storage.heartbeat import WATCH_S, heartbeat, owners_alive
from search.storage.owner import Mark, here, is_provably_alive, is_provably_dead, this_process
from search.storage.store import Store

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
POSTGRES = pytest.param(
    "postgres",
    marks=[pytest.mark.slow, pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed")],
)


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "trials.db") as store:
        yield store


@pytest.fixture(params=["sqlite", POSTGRES])
def shared(request):
    """A store on either kind of database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("store")
        return
    with Store(request.getfixturevalue("server").url) as store:
        yield store
        for owner in store.beats():
            store.end_beats(owner)


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def mark_of(process):
    """The mark of another process of this host, as that one would write it."""
    ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    return str(replace(here().me, pid=process.pid, ticks=ticks))


def elsewhere(**changes):
    """This host as a process in another namespace, or after another boot, sees it."""
    return replace(here(), me=replace(here().me, **changes))


def test_mark_says_nothing_of_the_time_of_day_and_is_read_back():
    mark = Mark.read(this_process())
    assert (mark.host, mark.pid) == (socket.gethostname(), os.getpid())
    assert mark.boot and mark.namespace and mark.ticks and str(mark) == this_process()
    assert len(this_process()) <= 255


def test_child_process_writes_its_own_mark():
    code = "from search.storage.owner import this_process; print(this_process()); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        told = child.stdout.readline().strip()
        assert told == mark_of(child) and is_provably_alive(told) and not is_provably_dead(told)
        child.communicate("\n")
    assert is_provably_dead(told) and not is_provably_alive(told)


def test_process_with_the_pid_of_a_dead_one_is_not_taken_for_it(child):
    later = str(replace(Mark.read(mark_of(child)), ticks="1"))
    assert is_provably_dead(later) and not is_provably_alive(later)


def test_killed_process_that_nobody_waited_for_is_dead(child):
    owner = mark_of(child)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_provably_dead(owner)


@pytest.mark.parametrize("owner", ["", "no owner", "a:b:c"])
def test_what_is_no_mark_owns_nothing(owner):
    assert is_provably_dead(owner)


def test_what_this_process_left_open_before_is_abandoned():
    assert is_provably_dead(this_process())


@pytest.mark.parametrize("change", [{"namespace": "1"}, {"boot": "another"}, {"namespace": ""}, {"boot": ""}])
def test_process_that_cannot_be_looked_at_is_neither_dead_nor_alive(child, change):
    owner = mark_of(child)
    for mark in (owner, str(replace(Mark.read(owner), ticks="1"))):
        assert not is_provably_dead(mark, elsewhere(**change)) and not is_provably_alive(mark, elsewhere(**change))


@pytest.mark.parametrize("skew_s", [-86400, -61, -1, 1, 59, 60, 3600, 86400 * 365])
def test_live_driver_of_this_kernel_lives_whatever_the_clocks_say(shared, child, skew_s):
    shared.beat(mark_of(child), NOW)
    assert owners_alive(shared, now=NOW + timedelta(seconds=skew_s))(mark_of(child))


@pytest.mark.parametrize("skew_s", [-86400, -61, 61, 3600])
def test_live_driver_in_another_namespace_lives_by_its_next_beat_whatever_the_clocks_say(shared, child, skew_s):
    owner, lines = mark_of(child), []
    shared.beat(owner, NOW)

    def next_beat(seconds):
        shared.beat(owner, NOW + timedelta(seconds=seconds))

    seen = elsewhere(namespace="1")
    is_live = owners_alive(shared, now=NOW + timedelta(seconds=skew_s), seen=seen, wait=next_beat, notice=lines.append)
    assert is_live(owner) and is_live(owner)
    assert len(lines) == 1 and str(child.pid) in lines[0]


def test_driver_in_another_namespace_that_beats_no_more_is_dead_after_a_watch(shared, child):
    owner, waited = mark_of(child), []
    shared.beat(owner, NOW)
    is_live = owners_alive(shared, now=NOW + timedelta(hours=1), seen=elsewhere(namespace="1"), wait=waited.append)
    assert not is_live(owner) and sum(waited) == WATCH_S


def test_driver_that_takes_leave_while_it_is_watched_is_dead(shared, child):
    owner = mark_of(child)
    shared.beat(owner, NOW)
    is_live = owners_alive(
        shared,
        now=NOW + timedelta(hours=1),
        seen=elsewhere(namespace="1"),
        wait=lambda _: shared.end_beats(owner),
    )
    assert not is_live(owner)


@pytest.mark.parametrize(("age_s", "alive"), [(0, True), (59, True), (60, False), (3600, False)])
@pytest.mark.parametrize("owner", ["elsewhere:7:1", "elsewhere:7:boot=b:ns=1:ticks=5"])
def test_driver_on_another_host_lives_while_its_beat_is_young(shared, owner, age_s, alive):
    shared.beat(owner, NOW - timedelta(seconds=age_s))
    assert owners_alive(shared, now=NOW)(owner) is alive
    assert not owners_alive(shared, now=NOW)(owner.replace(":7:", ":8:"))


def test_mark_of_before_without_a_heartbeat_is_dead_and_with_a_young_one_lives(store):
    """Marks of before hold no boot and no namespace, so only the beat tells."""
    old = f"{socket.gethostname()}:{os.getppid()}:1764547200"
    assert Mark.read(old) == Mark(socket.gethostname(), "", "", os.getppid(), "")
    assert not owners_alive(store, now=NOW)(old)
    store.beat(old, NOW)
    assert owners_alive(store, now=NOW)(old)


def test_beat_of_a_dead_process_of_this_host_does_not_revive_it(store, child):
    gone = str(replace(Mark.read(mark_of(child)), ticks="1"))
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


def can_unshare():
    return (
        shutil.which("unshare")
        and not subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        ).returncode
    )


@pytest.mark.skipif(not can_unshare(), reason="a PID namespace of one's own needs the right to make it")
def test_real_driver_in_a_namespace_of_its_own_is_left_to_its_heartbeat(shared):
    """As in a container of this host: its pid is 1 there, and here it is another process's."""
    code = "from search.storage.owner import this_process; print(this_process(), flush=True); input()"
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        owner = driver.stdout.readline().strip()
        mark = Mark.read(owner)
        assert mark.pid == 1 and mark.boot == here().me.boot and mark.namespace != here().me.namespace
        shared.beat(owner, NOW)
        assert owners_alive(shared, now=NOW + timedelta(seconds=10))(owner)
        late = owners_alive(shared, now=NOW + timedelta(hours=1), wait=lambda s: shared.beat(owner, NOW + timedelta(s)))
        assert late(owner)
        driver.communicate("\n")
