"""Stack dumps of servers that stand still, with a stand-in for py-spy."""

import stat
import sys

import pytest

from search.outcomes import Reason
from search.server.classify import classify_stall
from search.server.guardian import Process
from search.server.stacks import dump_stacks, find_py_spy

HANG = """Process {pid}: sglang::scheduler_TP0
Python v3.12.3 (/usr/bin/python3.12)

Thread {pid} (active): "MainThread"
    enable_symm_mem_for_group (torch/distributed/_symmetric_memory/__init__.py:60)
    run_scheduler_process (sglang/srt/managers/scheduler.py:3130)
"""


def process(pid: int, name: str) -> Process:
    return Process(pid, 1, 1, "S", 0.0, name)


@pytest.fixture
def py_spy(tmp_path):
    """Makes a program that dumps a fixed text for every pid."""

    def make(code: str) -> str:
        path = tmp_path / "py-spy"
        path.write_text(f"#!{sys.executable}\nimport sys, time\nassert sys.argv[1:3] == ['dump', '--pid']\n{code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


DUMPS = f"print({HANG!r}.format(pid=sys.argv[3]))"


def test_schedulers_are_dumped_and_named(tmp_path, py_spy):
    server = [process(1, "python"), process(2, "sglang::schedul"), process(3, "sglang::schedul")]
    said = dump_stacks(server, tmp_path / "stacks.txt", py_spy=py_spy(DUMPS))
    assert said == "stacks of 2 of 3 processes in stacks.txt"
    text = (tmp_path / "stacks.txt").read_text()
    assert "Process 2: " in text and "Process 3: " in text and "Process 1: " not in text


def test_server_without_named_schedulers_is_dumped_whole(tmp_path, py_spy):
    said = dump_stacks([process(7, "python"), process(8, "python")], tmp_path / "s", py_spy=py_spy(DUMPS))
    assert said == "stacks of 2 of 2 processes in s"


def test_secrets_of_the_command_line_are_masked(tmp_path, py_spy):
    dump_stacks([process(7, "python")], tmp_path / "s", py_spy=py_spy("print('Process 7: serve --api-key tr0ub4dor')"))
    assert (tmp_path / "s").read_text() == "Process 7: serve --api-key ***\n\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('Error: Permission Denied: try with sudo')", "py-spy refused pid 7: Error: Permission Denied: try with sudo"),
        ("sys.exit(4)", "py-spy refused pid 7: exit code 4"),
        ("time.sleep(60)", "py-spy did not answer within 0.3 s for pid 7"),
    ],
)  # fmt: skip
def test_dump_that_fails_is_told_with_its_cause(tmp_path, py_spy, code, said):
    got = dump_stacks([process(7, "python")], tmp_path / "s", py_spy=py_spy(code), timeout_s=0.3)
    assert got == f"no stack dump: {said}"
    assert not (tmp_path / "s").exists()


def test_missing_py_spy_is_said():
    assert dump_stacks([process(7, "x")], None, py_spy=None) == "no stack dump: py-spy is not installed"


def test_server_that_is_gone_has_nothing_to_dump(tmp_path):
    said = dump_stacks([], tmp_path / "s", py_spy="py-spy")
    assert said == "no stack dump: no process of the server was left"


def test_py_spy_beside_the_servers_interpreter_is_found(tmp_path, monkeypatch, py_spy):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert find_py_spy(str(tmp_path / "python")) is None
    made = py_spy("")
    assert find_py_spy(str(tmp_path / "python")) == made


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("    enable_symm_mem_for_group (torch/distributed/_symmetric_memory/__init__.py:60)", Reason.COMM_INIT_HANG),
        ("    _store_based_rendezvous (torch/distributed/rendezvous.py:120)", Reason.COMM_INIT_HANG),
        ("    TCPStore._rendezvous (torch/distributed/rendezvous.py:88)", Reason.COMM_INIT_HANG),
        ("    <module> (torch/distributed/_symmetric_memory/__init__.py:12)", Reason.STARTUP_STALL),
        ("    init_process_group (torch/distributed/distributed_c10d.py:1710)", Reason.COMM_INIT_HANG),
        ("    read (safetensors/torch.py:311)", Reason.STARTUP_STALL),
    ],
)
def test_stall_is_classified_by_where_it_stands(tmp_path, frame, reason):
    log, stacks = tmp_path / "server.log", tmp_path / "stacks.txt"
    log.write_text("[2026-03-01 02:11:02 TP0] Load weight begin. avail mem=90 GB\n")
    stacks.write_text(f'Thread 9 (active): "MainThread"\n{frame}\n')
    assert classify_stall(log, detail="stalled", stacks=stacks)[0] is reason
