"""The guardian with real processes: whatever happens to those above it, nothing below it lives on."""

import os
import signal
import subprocess
import sys
import uuid

import pytest
from server_helpers import DEAF, DOUBLE_FORK, alive, living, order, sweep, until

from search.server.command import LAUNCH_TAG
from search.server.guardian import Process, family, process_table
from search.server.system import RealOs

SUPERVISING = """
import sys, time
from pathlib import Path
from search.server.command import ServerCommand
from search.server.ports import PortBlock
from search.server.supervisor import Deadlines, Supervisor
from search.server.system import RealOs
tag, folder, code = sys.argv[1:4]
secret = 's3cret-Value-of-a-launch'
server = Supervisor(RealOs(), tag=tag, ports=PortBlock(21990, 21991), log_path=Path(folder, "log"),
                    deadlines=Deadlines(lease_s=0.5))
server.start(ServerCommand((sys.executable, "-c", code, *sys.argv[4:]), {"SPEC_SEARCH_LAUNCH": tag}),
             secrets=(secret,))
time.sleep(60)
"""


@pytest.fixture
def tag():
    name = f"test-{uuid.uuid4().hex}"
    yield name
    sweep(name)


def start(tmp_path, code, *args, tag, lease_s=30.0):
    """A guardian whose server has said its first word."""
    link = RealOs().start_guardian(order(tmp_path, code, *args, tag=tag, lease_s=lease_s))
    until(lambda: "deaf" in (tmp_path / "log").read_text())
    return link


def finish(link):
    """All events up to the guardian's end."""
    events = []
    until(lambda: events.extend(link.events()) or link.ended)
    events += link.events()
    link.close()
    return events


def supervise(tmp_path, tag, code, *args):
    process = subprocess.Popen([sys.executable, "-c", SUPERVISING, tag, str(tmp_path), code, *args])
    until(lambda: (tmp_path / "log").exists() and "deaf" in (tmp_path / "log").read_text())
    return process


@pytest.mark.parametrize("args", [(), ("setsid",)], ids=["same group", "own session"])
def test_stop_kills_a_double_forked_grandchild_that_ignores_sigterm(tmp_path, tag, args):
    link = start(tmp_path, DOUBLE_FORK, *args, tag=tag)
    assert len(living(tag)) == 2
    link.send("stop 0.2")
    events = finish(link)
    assert living(tag) == []
    assert [event["event"] for event in events] == ["started", "stopping", "exited", "stopped"]
    assert events[2]["code"] == -signal.SIGTERM
    assert events[3]["leftovers"] == []


def test_stop_during_a_long_grace_can_be_hurried(tmp_path, tag):
    link = start(tmp_path, DEAF, tag=tag)
    link.send("stop 600")
    link.send("stop 0")
    assert finish(link)[-1]["event"] == "stopped"
    assert living(tag) == []


def test_orphans_of_a_stopped_launcher_do_not_get_the_whole_grace(tmp_path, tag):
    link = start(tmp_path, DOUBLE_FORK, tag=tag)
    link.send("stop 600")
    assert finish(link)[-1] == {"event": "stopped", "leftovers": []}
    assert living(tag) == []


def test_server_that_obeys_sigterm_is_not_killed(tmp_path, tag):
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('deaf', flush=True); time.sleep(60)"
    )
    link = start(tmp_path, code, tag=tag)
    link.send("stop 30")
    assert {"event": "exited", "code": 7} in finish(link)


def test_exit_of_the_launcher_is_told_while_its_children_live(tmp_path, tag):
    code = f"import os, sys\nif os.fork() == 0:\n    {DEAF}\nsys.exit(3)"
    link = start(tmp_path, code, tag=tag)
    seen = []
    until(lambda: seen.extend(link.events()) or {"event": "exited", "code": 3} in seen)
    assert len(living(tag)) == 1
    link.send("stop 0")
    finish(link)
    assert living(tag) == []


def test_launcher_that_cannot_start_is_told_with_its_cause(tmp_path, tag):
    wish = order(tmp_path, "", tag=tag)
    wish["argv"] = [str(tmp_path / "no-such-python")]
    events = finish(RealOs().start_guardian(wish))
    assert [event["event"] for event in events] == ["failed"]
    assert "No such file or directory" in events[0]["error"]


def test_server_inherits_no_deafness_and_no_terminal(tmp_path, tag):
    code = (
        "import os, signal, sys\n"
        "print(signal.getsignal(15) is signal.SIG_DFL, signal.getsignal(2) is not signal.SIG_IGN,"
        " os.getsid(0) == os.getpid(), sys.stdin.read() == '', not signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)"
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # as Ray's workers have it
    try:
        finish_link = RealOs().start_guardian(order(tmp_path, code, tag=tag))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    until(lambda: (tmp_path / "log").read_text())
    finish_link.send("stop 0")
    finish(finish_link)
    assert (tmp_path / "log").read_text() == "True True True True True\n"


def test_guardian_ignores_the_terminals_signals(tmp_path, tag):
    link = start(tmp_path, DEAF, tag=tag)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(link.pid, number)
    link.send("beat")
    assert not link.ended
    assert len(living(tag)) == 1
    link.send("stop 0")
    finish(link)


def test_closed_pipe_kills_the_server_at_once(tmp_path, tag):
    link = start(tmp_path, DOUBLE_FORK, tag=tag)
    link.close()
    until(lambda: not living(tag))
    until(lambda: link.ended)


def test_lapsed_lease_kills_the_server(tmp_path, tag):
    link = start(tmp_path, DEAF, tag=tag, lease_s=0.3)
    assert {"event": "stopping", "cause": "lease lapsed"} in finish(link)
    assert living(tag) == []


def test_killed_supervising_process_takes_the_server_with_it(tmp_path, tag):
    process = supervise(tmp_path, tag, DOUBLE_FORK)
    assert len(living(tag)) == 2
    process.kill()
    process.wait()
    until(lambda: not living(tag))


def test_stopped_supervising_process_loses_its_server_when_the_lease_lapses(tmp_path, tag):
    process = supervise(tmp_path, tag, DEAF)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        until(lambda: not living(tag))
    finally:
        process.kill()
        process.wait()


def test_launcher_dies_when_the_guardian_is_killed(tmp_path, tag):
    link = start(tmp_path, DEAF, tag=tag)
    (launcher,) = living(tag)
    os.kill(link.pid, signal.SIGKILL)
    until(lambda: not alive(launcher))
    until(lambda: link.ended)
    link.close()


def test_family_finds_descendants_and_group_members_but_no_zombies():
    table = {
        pid: Process(pid, parent, group, state, 0.0, "p")
        for pid, parent, group, state in [
            (10, 1, 10, "S"),  # root
            (11, 10, 11, "S"),  # launcher
            (12, 11, 11, "S"),  # its child
            (13, 11, 11, "Z"),  # a zombie
            (14, 10, 14, "S"),  # an orphan adopted by the root, in a group of its own
            (15, 1, 11, "S"),  # adopted by init, still in the group
            (16, 15, 16, "S"),  # and its child
            (17, 1, 17, "S"),  # a stranger
        ]
    }
    assert [process.pid for process in family(table, root=10, group=11)] == [11, 12, 14, 15, 16]


def test_process_table_reads_this_process():
    me = process_table()[os.getpid()]
    assert (me.parent, me.group, me.alive) == (os.getppid(), os.getpgid(0), True)


def test_tagged_finds_only_processes_of_that_launch(tmp_path, tag):
    link = start(tmp_path, DEAF, tag=tag)
    assert LAUNCH_TAG == "SPEC_SEARCH_LAUNCH"
    assert len(living(tag)) == 1
    assert living(tag[:-1]) == []
    link.send("stop 0")
    finish(link)


def test_log_of_a_killed_supervisor_is_scrubbed_by_its_guardian_and_keeps_the_rest(tmp_path, tag):
    process = supervise(tmp_path, tag, "print('TOKEN is s3cret-Value-of-a-launch', flush=True)\n" + DEAF)
    log = tmp_path / "log"
    assert "s3cret-Value-of-a-launch" in log.read_text()
    mode = log.stat().st_mode
    process.kill()
    process.wait()
    until(lambda: "s3cret-Value-of-a-launch" not in log.read_text())
    assert "TOKEN is " in log.read_text() and "deaf" in log.read_text() and log.stat().st_mode == mode
    assert living(tag) == []
    until(lambda: [file.name for file in tmp_path.iterdir()] == ["log"])
