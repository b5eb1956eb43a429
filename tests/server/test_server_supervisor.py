"""The supervisor's states and its proof of a stop, on a fake host; and once on the real one."""

import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from server_helpers import DOUBLE_FORK, PORTS, FakeOs, command, living, sweep, until

from search.host.nvml import GpuUser
from search.server.command import LAUNCH_TAG, ServerCommand
from search.server.guardian import Process
from search.server.ports import fresh_ports
from search.server.supervisor import Deadlines, State, Supervisor
from search.server.system import RealOs

GPU = ("GPU-1",)
COMMAND = ServerCommand(("python",))


def supervisor(fake: FakeOs, *, gpu_uuids: tuple[str, ...] = GPU) -> Supervisor:
    return Supervisor(fake, tag="t", ports=PORTS, log_path=Path("log"), gpu_uuids=gpu_uuids)


def started(fake: FakeOs) -> Supervisor:
    server = supervisor(fake)
    server.start(COMMAND)
    return server


def test_life_of_a_server_passes_all_states():
    server = supervisor(FakeOs())
    states = [server.state]
    for step in (lambda: server.start(COMMAND), server.ready, server.measuring, server.measured, server.stop):
        step()
        states.append(server.state)
    assert states == [State.PLANNED, State.STARTING, State.READY, State.MEASURING, State.READY, State.STOPPED]


def test_impossible_step_is_refused_by_name():
    with pytest.raises(RuntimeError, match="state PLANNED may become STARTING, STOPPING, but not READY"):
        supervisor(FakeOs()).ready()


def test_measured_after_a_stop_from_another_thread_changes_nothing():
    server = started(FakeOs())
    server.ready()
    server.measuring()
    server.stop()
    server.measured()
    assert server.state is State.STOPPED


def test_stop_of_a_server_never_started_touches_nothing():
    fake = FakeOs()
    assert supervisor(fake).stop().clean
    assert fake.link.sent == []


def test_stop_asks_with_grace_and_kill_without():
    fakes = FakeOs(), FakeOs()
    started(fakes[0]).stop(grace_s=12.5)
    started(fakes[1]).kill()
    assert [fake.link.sent for fake in fakes] == [["stop 12.5"], ["stop 0.0"]]


def test_second_stop_returns_the_first_report():
    fake = FakeOs()
    server = started(fake)
    first = server.stop()
    fake.held_ports = {21000}
    assert server.stop() is first


def test_exit_of_a_launcher_is_seen_by_poll():
    fake = FakeOs()
    server = started(fake)
    assert server.poll() is None
    fake.link.waiting = [{"event": "exited", "code": 3}]
    assert server.poll() == 3


def test_launcher_that_could_not_start_is_told_with_its_cause():
    fake = FakeOs()
    fake.link.waiting = [{"event": "failed", "error": "No such file or directory: 'python9'"}]
    server = started(fake)
    assert (server.poll(), server.start_error) == (127, "No such file or directory: 'python9'")
    assert not server.guardian_lost


def test_lost_guardian_counts_as_a_killed_server_and_leftovers_are_swept_by_tag():
    fake = FakeOs()
    server = started(fake)
    server.poll()
    fake.link.ended = True
    fake.survivors = [Process(900, 1, 900, "S", 0.0, "python")]
    assert (server.poll(), server.guardian_lost) == (-9, True)
    assert server.stop().clean
    assert 900 in fake.killed


def test_process_that_was_forked_while_the_table_was_read_is_found_by_the_second_look():
    fake, late = FakeOs(), Process(900, 1, 900, "S", 0.0, "python")
    looks = iter([[], [late]])
    fake.tagged = lambda tag: next(looks, [])
    assert started(fake).stop().clean
    assert 900 in fake.killed


def test_guardian_that_does_not_answer_is_killed_after_its_deadline():
    fake = FakeOs(obeys=False)
    report = started(fake).stop(grace_s=5.0)
    assert fake.killed == [500]
    assert report.clean
    assert report.duration_s == pytest.approx(20.0, abs=0.2)  # 5 s of grace, 15 s for SIGKILL to work


def test_survivor_of_sigkill_makes_the_stop_unclean():
    fake = FakeOs()
    server = started(fake)
    fake.survivors = [Process(900, 1, 900, "D", 0.0, "python")]
    report = server.stop()
    assert not report.clean
    assert report.leftovers == ("process 900 (python, state D) survived SIGKILL",)


def test_port_still_held_makes_the_stop_unclean():
    fake = FakeOs()
    server = started(fake)
    fake.held_ports = {21001}
    report = server.stop()
    assert (report.clean, report.leftovers) == (False, ("port 21001 is still held",))


@pytest.mark.parametrize(
    ("tag", "clean"),
    [("", True), ("another", True), ("t", False), (None, False)],
    ids=["untagged", "other launch", "ours", "gone"],
)
def test_port_that_a_stranger_took_is_no_leftover_of_ours(tag, clean):
    fake = FakeOs()
    server = started(fake)
    fake.held_ports, fake.port_holders = {21001}, {21001: [77]}
    fake.tags = {} if tag is None else {77: tag}
    report = server.stop()
    assert report.clean is clean
    assert report.leftovers[0].startswith("port 21001 was taken by pid 77" if clean else "port 21001 is still held")


def test_port_that_another_user_took_is_no_leftover_of_ours():
    fake = FakeOs()
    server = started(fake)
    fake.held_ports, fake.port_holders = {21000}, {21000: [None]}
    report = server.stop()
    assert (report.clean, report.leftovers) == (True, ("port 21000 was taken by a process of another user",))


def on_a_gpu_taken_meanwhile(tags: dict[int, str], *, memory: int | None = 1000 * 2**20, before: bool = False):
    """A server at whose stop 1,000 MiB more are in use, by process 77."""
    fake = FakeOs()
    fake.gpu, fake.tags = {"GPU-1": 500 * 2**20}, tags
    fake.users = (GpuUser(77, "GPU-1", memory),) if before else ()
    server = started(fake)
    fake.gpu, fake.users = {"GPU-1": 1500 * 2**20}, (GpuUser(77, "GPU-1", memory),)
    return server


def test_gpu_memory_that_a_stranger_took_is_no_leftover_of_ours():
    report = on_a_gpu_taken_meanwhile({77: ""}).stop()
    assert report.clean
    assert "which others hold: pid 77 (1000 MiB)" in report.leftovers[0]


@pytest.mark.parametrize("tags", [{77: "t"}, {}], ids=["ours", "unknown pid"])
def test_gpu_memory_that_may_be_ours_makes_the_stop_unclean(tags):
    assert not on_a_gpu_taken_meanwhile(tags).stop().clean


def test_gpu_memory_of_a_stranger_who_was_there_before_explains_nothing():
    assert not on_a_gpu_taken_meanwhile({77: ""}, before=True).stop().clean


@pytest.mark.parametrize(
    ("tags", "memory", "told"),
    [
        ({77: ""}, 2**30, True),
        ({77: ""}, None, True),
        ({77: ""}, 2**20, False),
        ({77: "t"}, 2**30, False),
        ({}, 2**30, False),
    ],
)
def test_newcomer_with_much_memory_is_named(monkeypatch, tags, memory, told):
    monkeypatch.setattr("search.server.gpu_account.names_are_ours", lambda: True)
    assert on_a_gpu_taken_meanwhile(tags, memory=memory).newcomers().startswith("pid 77") is told


def test_newcomer_is_not_believed_where_pids_may_be_the_hosts(monkeypatch):
    monkeypatch.setattr("search.server.gpu_account.names_are_ours", lambda: False)
    assert on_a_gpu_taken_meanwhile({77: ""}).newcomers() == ""


def test_gpu_memory_that_falls_in_time_is_a_clean_stop():
    fake = FakeOs()
    fake.gpu = {"GPU-1": 500 * 2**20}
    server = started(fake)
    fake.gpu = {"GPU-1": 90_000 * 2**20}

    def release(now: float) -> None:
        if now > 10:
            fake.gpu = {"GPU-1": 510 * 2**20}

    fake.script = release
    report = server.stop()
    assert report.clean
    assert report.duration_s == pytest.approx(10.0, abs=0.2)


def test_gpu_memory_that_stays_makes_the_stop_unclean():
    fake = FakeOs()
    fake.gpu = {"GPU-1": 500 * 2**20}
    server = started(fake)
    fake.gpu = {"GPU-1": 1500 * 2**20}
    report = server.stop()
    assert (report.clean, report.leftovers) == (False, ("GPU-1 holds 1000 MiB more than before the launch",))


def test_gpu_memory_that_cannot_be_read_is_said_not_claimed():
    fake = FakeOs()
    fake.gpu = None
    report = started(fake).stop()
    assert report.clean
    assert report.leftovers == ("GPU memory was not checked: NVML cannot be asked on this host",)


def test_slot_without_gpus_needs_no_gpu_check():
    fake = FakeOs()
    fake.gpu = None
    server = supervisor(fake, gpu_uuids=())
    server.start(COMMAND)
    assert server.stop().leftovers == ()


def test_stranger_on_a_real_port_is_named_and_a_process_of_a_launch_is_not(tmp_path):
    ports = fresh_ports()
    server = Supervisor(RealOs(), tag="nobody", ports=ports, log_path=tmp_path / "log")
    assert server.stranger_on_port() == ""
    code = f"import socket, time\ns = socket.create_server(('127.0.0.1', {ports.http}))\nprint(1, flush=True)\ntime.sleep(60)"
    for tag, told in (("", True), (f"test-{uuid.uuid4().hex}", False)):
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            env={**os.environ, **({LAUNCH_TAG: tag} if tag else {})},
        ) as other:
            other.stdout.readline()
            assert server.stranger_on_port().startswith(f"pid {other.pid} ") is told
            other.kill()


def test_real_stop_leaves_no_process_and_frees_the_port(tmp_path):
    tag, ports = f"test-{uuid.uuid4().hex}", fresh_ports()
    listening = f"import socket\ns = socket.create_server(('127.0.0.1', {ports.http}))\n{DOUBLE_FORK}"
    server = Supervisor(RealOs(), tag=tag, ports=ports, log_path=tmp_path / "log", deadlines=Deadlines(grace_s=0.2))
    try:
        server.start(command(listening, tag=tag))
        until(lambda: "deaf" in (tmp_path / "log").read_text())
        assert server.owns_port()
        assert server.progress().log_bytes == 5
        report = server.stop()
        assert (report.clean, report.leftovers, living(tag)) == (True, (), [])
        with socket.create_server(("127.0.0.1", ports.http)):
            pass
    finally:
        server.stop()
        sweep(tag)
