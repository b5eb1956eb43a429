"""The real engine on the fake server: launch, read-back, phases, deaths, stops."""

import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from server_helpers import until

from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, PhaseResult, Slot
from search.deployment import Deployment, Hardware
from search.dialects import for_release
from search.engines._sglang import SglangEngine
from search.errors import Interrupted, LaunchFailed, LoadFailed, UsageError
from search.host.nvml import GpuUser
from search.load.target import Prompt
from search.outcomes import Blame, Evidence, Note, Reason
from search.server.command import LAUNCH_TAG
from search.server.guardian import process_table
from search.server.lease import LeaseTerms
from search.server.ports import fresh_ports
from search.server.reaper import find_leftovers
from search.server.supervisor import Deadlines
from search.server.system import RealOs
from search.testing import install_fake_sglang

OFF = SpecConfig.from_id("off")
V2 = SpecConfig.from_id("v2-k1-s2-d3")
PROMPTS = tuple(Prompt(f"chat-{n}", "chat", f"Count to {n}.") for n in range(64))
PHASE = Phase(concurrency=1, requests=2, output_tokens=8)
LOADED = Phase(concurrency=16, requests=16, output_tokens=64)


def environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture(autouse=True)
def reaped(monkeypatch):
    """Counts start-up reaps instead of reaping what other tests on this host may need."""
    calls = []

    def reap():
        calls.append(1)
        return (), ()

    monkeypatch.setattr("search.engines._sglang.reap_orphans", reap)
    return calls


@pytest.fixture
def launches(tmp_path):
    """Makes engines, and proves after the test that nothing they started lives."""

    def engine(misbehaviour: str = "", *, release: str = "0.5.11", **more) -> SglangEngine:
        settings = {"stall_s": 15.0, "boot_ceiling_s": 20.0}
        settings |= {
            name: more.pop(name)
            for name in ("stall_s", "boot_ceiling_s", "python", "prefix", "server_args")
            if name in more
        }
        deployment = Deployment(
            model="/models/target",
            draft="/models/draft",
            algorithm="STANDALONE",
            tp=1,
            hardware=Hardware("NVIDIA H200", 90, 140.0, "nvlink"),
            release=release,
            env={
                "PYTHONPATH": str(install_fake_sglang(tmp_path / release, release=release)),
                "FAKE_SGLANG": misbehaviour,
                "FAKE_SGLANG_SPEED": "3",
            },
            **settings,
        )
        deadlines = Deadlines(lease_s=5.0, grace_s=0.2, port_s=0.2)
        return SglangEngine(deployment, for_release(release), **({"prompts": PROMPTS, "deadlines": deadlines} | more))

    yield engine
    assert ours(tmp_path) == []


def ours(tmp_path: Path) -> list[int]:
    """Living processes that were started with this test's fake on their path."""
    mark = f"PYTHONPATH={tmp_path}/".encode()
    found = []
    for process in process_table().values():
        try:
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if process.alive and mark in environ and LAUNCH_TAG.encode() in environ:
            found.append(process.pid)
    return found


def paths(tmp_path: Path) -> LaunchPaths:
    return LaunchPaths(tmp_path / "launches" / "0001-x")


def launch(engine: SglangEngine, tmp_path: Path, config: SpecConfig = V2):
    return engine.launch(config, slot=Slot(0), paths=paths(tmp_path))


def failure(engine: SglangEngine, tmp_path: Path, config: SpecConfig = V2) -> LaunchFailed:
    with pytest.raises(LaunchFailed) as caught:
        launch(engine, tmp_path, config)
    return caught.value


@pytest.mark.parametrize(("length", "synthetic"), [("3.0", True), ("-1", False)])
def test_rows_of_a_server_that_simulates_acceptance_are_synthetic(launches, tmp_path, monkeypatch, length, synthetic):
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", length)  # inherited: no study file tells of it

    async def client(target, prompts, phase, repeat, *, requests_log):
        return PhaseResult(phase.concurrency, repeat, 1, 8, 1.0, 8.0, 8.0, 1.0, 1.0)

    with launch(launches(run_phase=client), tmp_path) as session:
        result = session.measure(PHASE, 0)
    assert (Note.SYNTHETIC in result.notes) == synthetic


def test_launch_measures_and_stops(launches, tmp_path):
    with launch(launches(), tmp_path) as session:
        assert session.effective.config == V2
        assert (session.effective.release, session.effective.max_running_requests) == ("0.5.11", 256)
        assert session.boot_s > 0
        result = session.measure(PHASE, 0)
    assert (result.requests, result.output_tokens, result.notes) == (2, 16, ())
    report = session.close()
    assert (report.clean, report.leftovers) == (True, ())


def test_launch_leaves_its_files(launches, tmp_path):
    with launch(launches(server_args={"api-key": "tr0ub4dor"}), tmp_path) as session:
        session.measure(PHASE, 0)
    files = paths(tmp_path)
    assert "fired up and ready to roll" in files.server_log.read_text()
    assert len(files.requests.read_text().splitlines()) == 2
    assert json.loads(files.server_info.read_text())["api_key"] == "***"
    assert os.access(files.command, os.X_OK)
    assert "tr0ub4dor" not in files.command.read_text()


def test_tree_on_v2_is_read_back_as_v1_by_the_release_that_swaps_it_silently(launches, tmp_path):
    raw = (
        *("SGLANG_ENABLE_SPEC_V2=1", "--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "/d"),
        *("--speculative-num-steps", "2", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "7"),
    )
    with launch(launches(raw=raw), tmp_path, SpecConfig.from_id("v2-k2-s2-d7")) as session:
        assert session.effective.config.config_id == "v1-k2-s2-d7"


def test_tree_on_v2_is_refused_by_the_release_that_refuses_it(launches, tmp_path):
    error = failure(launches(release="0.5.9"), tmp_path, SpecConfig.from_id("v2-k2-s2-d7"))
    assert error.reason is Reason.ARG_INVALID_COMBO
    assert error.evidence.root_line.startswith("ValueError: Spec v2 currently only supports topk = 1")
    assert (error.evidence.exit_code, error.evidence.phase) == (1, "arguments")


@pytest.mark.parametrize(
    ("misbehaviour", "reason"),
    [
        ("die-at-arguments", Reason.ARG_INVALID_COMBO),
        ("exit-early", Reason.UNKNOWN),
        ("die-loading", Reason.WEIGHT_LOAD),
        ("oom-weights", Reason.OOM_WEIGHTS),
        ("oom-kv", Reason.OOM_KV),
        ("oom-graph", Reason.OOM_GRAPH),
        ("die-graph-capture", Reason.MISSING_MODULE),
        ("die-at-first-request", Reason.CUDA_FAULT),
        ("never-ready", Reason.STARTUP_STALL),
        ("hang-in-rendezvous", Reason.COMM_INIT_HANG),
        ("ready-but-silent", Reason.SERVER_HANG_LOAD),
        ("health-lies", Reason.SERVER_HANG_LOAD),
        ("old-server", Reason.STALE_SERVER),
        pytest.param("log-flood,huge-line,partial-utf8,oom-graph", Reason.OOM_GRAPH, marks=pytest.mark.slow),
        ("partial-utf8,never-ready", Reason.STARTUP_STALL),
    ],
)
def test_server_that_does_not_become_ready_is_stopped_and_classified(launches, tmp_path, misbehaviour, reason):
    # On a busy machine too, what stalls must have come so far before it counts as stalled, and nothing else may.
    stalls = {Reason.STARTUP_STALL: 1.0, Reason.COMM_INIT_HANG: 4.0, Reason.SERVER_HANG_LOAD: 4.0}
    error = failure(launches(misbehaviour, stall_s=stalls.get(reason, 20.0)), tmp_path)
    assert error.reason is reason
    assert error.evidence.log_path == str(paths(tmp_path).server_log)


@pytest.mark.parametrize(
    ("misbehaviour", "code", "words"),
    [
        ("exit-0", 0, "ended with exit code 0 and no error in the log"),
        ("exit-1", 1, "ended with exit code 1 and no error in the log"),
        ("exit-2", 2, "ended with exit code 2 and no error in the log"),
        ("exit-kill", -9, "ended by SIGKILL with no error in the log"),
    ],
)
def test_server_that_ends_without_a_word_is_unknown_whatever_its_code(launches, tmp_path, misbehaviour, code, words):
    error = failure(launches(misbehaviour), tmp_path)
    assert (error.reason, error.evidence.exit_code) == (Reason.UNKNOWN, code)
    assert error.evidence.root_line.startswith(words)


@pytest.mark.slow
def test_noise_in_the_log_does_not_disturb_a_healthy_server(launches, tmp_path):
    with launch(launches("log-flood,huge-line,partial-utf8", stall_s=10.0), tmp_path) as session:
        assert session.measure(PHASE, 0).requests == 2
    assert paths(tmp_path).server_log.stat().st_size > 19 * 2**20


@pytest.mark.slow
def test_stalled_server_without_py_spy_says_so(launches, tmp_path, monkeypatch):
    monkeypatch.setattr("search.engines._sglang.find_py_spy", lambda python: None)
    error = failure(launches("never-ready", stall_s=8.0), tmp_path)
    assert "; no stack dump: py-spy is not installed; last line: " in error.evidence.root_line


@pytest.mark.slow
def test_stalled_server_that_stands_in_symmetric_memory_hangs_in_communication(launches, tmp_path, monkeypatch):
    py_spy = tmp_path / "py-spy"
    py_spy.write_text("#!/bin/sh\necho '    rendezvous (torch/distributed/_symmetric_memory/__init__.py:60)'\n")
    py_spy.chmod(0o700)
    monkeypatch.setattr("search.engines._sglang.find_py_spy", lambda python: str(py_spy))
    error = failure(launches("never-ready", stall_s=8.0), tmp_path)
    assert error.reason is Reason.COMM_INIT_HANG
    assert "; stacks of 3 of 3 processes in stacks.txt; " in error.evidence.root_line
    assert "_symmetric_memory" in paths(tmp_path).stacks.read_text()


def test_server_that_hangs_under_load_is_dumped_before_it_is_stopped(launches, tmp_path, monkeypatch):
    async def hangs(*args, **more):
        raise LoadFailed(Reason.SERVER_HANG_LOAD, Evidence("no token for 60 s", "c=16"))

    monkeypatch.setattr("search.engines._sglang.find_py_spy", lambda python: None)
    with launch(launches(run_phase=hangs), tmp_path) as session, pytest.raises(LoadFailed) as caught:
        session.measure(PHASE, 0)
    assert caught.value.evidence.root_line == "no token for 60 s; no stack dump: py-spy is not installed"


class GpuOs(RealOs):
    """This machine with one GPU on paper."""

    def __init__(self, used: Callable[[], int]) -> None:
        super().__init__()
        self.used = used

    def gpu_memory(self, uuids):
        return {uuid: self.used() for uuid in uuids}

    def gpu_users(self, uuids):
        return ()


def on_gpu(engine: SglangEngine, tmp_path: Path):
    return engine.launch(V2, slot=Slot(0, ("GPU-1",)), paths=paths(tmp_path))


def test_stop_that_left_something_is_told_with_the_failed_launch(launches, tmp_path):
    grows = itertools.count(0, 100 * 2**20)
    deadlines = Deadlines(lease_s=5.0, grace_s=0.2, port_s=0.2, gpu_s=0.2)
    terms = LeaseTerms(foreign_bytes=2**60)
    engine = launches(
        "exit-1", system=GpuOs(lambda: next(grows)), deadlines=deadlines, terms=terms, locks=tmp_path / "locks"
    )
    with pytest.raises(LaunchFailed) as caught:
        on_gpu(engine, tmp_path)
    (line,) = caught.value.leftovers
    assert line.startswith("GPU-1 holds ") and line.endswith(" MiB more than before the launch")
    assert pickle.loads(pickle.dumps(caught.value)).leftovers == caught.value.leftovers


def test_launch_that_was_stopped_cleanly_leaves_nothing(launches, tmp_path):
    assert failure(launches("exit-1"), tmp_path).leftovers == ()


def test_gpu_of_a_running_study_is_refused_to_another_until_it_is_closed(launches, tmp_path):
    more = {"system": GpuOs(lambda: 0), "terms": LeaseTerms(lock_s=0.0), "locks": tmp_path / "locks"}
    first, second = launches(**more), launches(**more)
    with on_gpu(first, tmp_path):
        told = json.loads((tmp_path / "locks" / "GPU-1.lock").read_text())
        assert (told["pid"], told["launch"]) == (os.getpid(), f"{tmp_path.name}/launches/0001-x")
    with pytest.raises(LaunchFailed) as caught:
        on_gpu(second, tmp_path)
    assert caught.value.reason is Reason.HOST_BUSY
    assert f"pid {os.getpid()}, " in caught.value.evidence.root_line
    first.close()
    with on_gpu(second, tmp_path):
        pass
    second.close()


def test_orphans_are_reaped_once_before_the_first_launch_on_gpus(launches, tmp_path, reaped):
    engine = launches(system=GpuOs(lambda: 0), locks=tmp_path / "locks")
    on_gpu(engine, tmp_path).close()
    on_gpu(engine, tmp_path).close()
    engine.close()
    assert reaped == [1]


def test_launch_waits_until_a_lost_server_has_let_go_of_the_gpu(launches, tmp_path):
    """A killed worker frees its lock at once, its server the memory when its guardian has stopped it."""
    asked = itertools.count()
    dying = GpuOs(lambda: 90 * 2**30 if next(asked) < 5 else 0)
    engine = launches(system=dying, locks=tmp_path / "locks")
    with on_gpu(engine, tmp_path) as session:
        assert session.effective.config == V2
    assert session.close().clean
    engine.close()


def test_running_launch_counts_as_guarded_and_a_lost_guardian_ends_that(launches, tmp_path):
    def ours_found():
        return [leftover for leftover in find_leftovers() if leftover.tag == session._server._tag]

    with launch(launches("runaway-grandchild"), tmp_path) as session:
        assert [leftover.guarded for leftover in ours_found()] == [True] * 4
        os.kill(session._server._link.pid, signal.SIGKILL)
        until(lambda: not any(leftover.guarded for leftover in ours_found()))


def test_spinning_server_is_stopped_at_the_ceiling(launches, tmp_path):
    error = failure(launches("busy-never-ready", boot_ceiling_s=0.8, stall_s=60.0), tmp_path)
    assert error.reason is Reason.STARTUP_STALL
    assert error.evidence.root_line.startswith("boot ceiling within 0.8 s")


def test_own_first_request_waits_for_that_of_the_server(launches, tmp_path, monkeypatch):
    """Side by side they killed the v1 STANDALONE worker of 0.5.11 on a real GPU."""
    monkeypatch.setenv("FAKE_SGLANG_WARMUP_S", "1.2")
    engine = launches("die-of-two-first-requests", stall_s=20.0)
    with engine.launch(V2, slot=Slot(0), paths=LaunchPaths(tmp_path / "0001")) as session:
        assert session.boot_s > 1.2


def test_death_between_the_first_token_and_the_read_back_is_told_by_the_log(launches, tmp_path, monkeypatch):
    """A connection is refused a moment before the process that refuses it is gone."""
    engine = launches()

    def refused(_url):
        for pid in ours(tmp_path):
            os.kill(pid, signal.SIGKILL)
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("search.engines._sglang.read_server_info", refused)
    with pytest.raises(LaunchFailed) as caught:
        engine.launch(V2, slot=Slot(0), paths=LaunchPaths(tmp_path / "0001-x"))
    assert caught.value.reason is not Reason.TOOL_ERROR
    assert caught.value.evidence.exit_code == -9


def test_unknown_flag_of_the_study_is_named(launches, tmp_path):
    error = failure(launches(server_args={"no-such-flag": 2}), tmp_path)
    assert (error.reason, error.evidence.exit_code) == (Reason.ARG_UNKNOWN, 2)
    assert error.evidence.root_line.endswith("error: unrecognized arguments: --no-such-flag 2")


def test_log_of_an_earlier_launch_in_the_same_folder_does_not_mislead(launches, tmp_path):
    paths(tmp_path).root.mkdir(parents=True)
    paths(tmp_path).server_log.write_text("launch_server.py: error: unrecognized arguments: --old\n")
    assert failure(launches("oom-kv"), tmp_path).reason is Reason.OOM_KV


def test_missing_interpreter_is_named(launches, tmp_path):
    error = failure(launches(python="/no/such/python"), tmp_path)
    assert error.reason is Reason.MISSING_MODULE
    assert "/no/such/python" in error.evidence.root_line


@pytest.mark.parametrize("prefix", [(), ("env",)], ids=["own process", "behind a prefix"])
def test_stale_server_on_the_port_is_not_measured(launches, tmp_path, monkeypatch, prefix):
    with launch(launches(), tmp_path) as old:
        ports = replace(fresh_ports(), http=old._server.ports.http)
        monkeypatch.setattr("search.engines._sglang.fresh_ports", lambda: ports)
        never_binds = launches("never-ready", stall_s=20.0, prefix=prefix)
        with pytest.raises(LaunchFailed) as caught:
            never_binds.launch(OFF, slot=Slot(0), paths=LaunchPaths(tmp_path / "second"))
        assert caught.value.reason is Reason.STALE_SERVER
        assert old.measure(PHASE, 0).requests == 2


@pytest.mark.parametrize(
    ("told", "noted"), [(("speculative_algorithm", "speculative_num_draft_tokens"), False), ((), True)]
)
def test_config_that_the_server_does_not_tell_is_not_verified(launches, tmp_path, monkeypatch, told, noted):
    asked = {"speculative_algorithm": "STANDALONE", "speculative_num_draft_tokens": 3}
    monkeypatch.setattr(
        "search.engines._sglang.read_server_info",
        lambda url: {"version": "0.5.11", **{name: asked[name] for name in told}},
    )
    with launch(launches(), tmp_path) as session:
        result = session.measure(replace(PHASE, output_tokens=64), 0)
    assert (Note.NOT_VERIFIED in result.notes) is noted
    assert ("not_verified" in dict(session.effective.details)) is noted


STRANGER = """
import http.server, json, sys
class Stranger(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = json.dumps({"text": "x", "meta_info": {"completion_tokens": 4}}).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = answer
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Stranger)
print(1, flush=True)
server.serve_forever()
"""


def test_stranger_that_took_the_port_is_a_busy_port_and_blames_the_host(launches, tmp_path, monkeypatch):
    ports = fresh_ports()
    monkeypatch.setattr("search.engines._sglang.fresh_ports", lambda: ports)
    with subprocess.Popen([sys.executable, "-c", STRANGER, str(ports.http)], stdout=subprocess.PIPE) as stranger:
        try:
            stranger.stdout.readline()
            error = failure(launches("never-ready", stall_s=20.0), tmp_path)
        finally:
            stranger.kill()
    assert (error.reason, error.blame) == (Reason.PORT_BUSY, Blame.HOST)
    assert f"it was taken by pid {stranger.pid} " in error.evidence.root_line
    assert error.leftovers == ()


class CrowdedOs(GpuOs):
    """A GPU on paper to which a stranger comes when a server has been started there."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.asked = 0

    def gpu_users(self, uuids):
        self.asked += 1
        return () if self.asked == 1 else (GpuUser(1, "GPU-1", 80 * 2**30),)

    def tag_of(self, pid):
        return "" if pid == 1 else super().tag_of(pid)


@pytest.mark.parametrize(("fault", "reason"), [("oom-kv", Reason.HOST_BUSY), ("die-loading", Reason.WEIGHT_LOAD)])
def test_memory_that_a_newcomer_took_excuses_a_server_that_ran_out_of_it(
    launches, tmp_path, monkeypatch, fault, reason
):
    monkeypatch.setattr("search.server.gpu_account.names_are_ours", lambda: True)
    engine = launches(fault, system=CrowdedOs(), locks=tmp_path / "locks")
    with pytest.raises(LaunchFailed) as caught:
        on_gpu(engine, tmp_path)
    engine.close()
    assert caught.value.reason is reason
    assert ("81920 MiB" in caught.value.evidence.root_line) is (reason is Reason.HOST_BUSY)


def test_death_under_load_is_told_by_the_log_not_by_the_broken_stream(launches, tmp_path):
    with launch(launches("die-under-load"), tmp_path) as session:
        with pytest.raises(LoadFailed) as caught:
            session.measure(LOADED, 0)
        with pytest.raises(LoadFailed) as again:
            session.measure(PHASE, 0)
    assert (caught.value.reason, caught.value.evidence.phase) == (Reason.CUDA_FAULT, "c=16")
    assert caught.value.evidence.root_line.startswith("RuntimeError: CUDA error: an illegal memory access")
    assert (again.value.reason, again.value.evidence.phase) == (Reason.CUDA_FAULT, "c=1")


def test_failure_of_a_living_server_keeps_the_clients_reason(launches, tmp_path):
    async def lies(*args, **more):
        raise LoadFailed(Reason.METRIC_INVALID, Evidence("51,200 counted, 18,340 found", "c=1"))

    with launch(launches(run_phase=lies), tmp_path) as session, pytest.raises(LoadFailed) as caught:
        session.measure(PHASE, 0)
    assert (caught.value.reason, caught.value.evidence.root_line) == (
        Reason.METRIC_INVALID,
        "51,200 counted, 18,340 found",
    )


def test_killed_guardian_is_a_lost_worker_and_its_orphans_are_swept(launches, tmp_path):
    with launch(launches("double-fork-grandchild"), tmp_path) as session:
        assert len(ours(tmp_path)) == 4  # launcher, scheduler, detokenizer, grandchild
        os.kill(session._server._link.pid, signal.SIGKILL)
        until(lambda: session._server.poll() is not None)
        with pytest.raises(LoadFailed) as caught:
            session.measure(PHASE, 0)
    assert caught.value.reason is Reason.WORKER_LOST
    assert session.close().clean


@pytest.mark.parametrize(
    "misbehaviour", ["ignore-sigterm", "slow-drain", "double-fork-grandchild", "runaway-grandchild"]
)
def test_server_that_will_not_go_is_gone_after_close(launches, tmp_path, misbehaviour):
    session = launch(launches(misbehaviour), tmp_path)
    assert session.close().clean
    assert ours(tmp_path) == []


def fixed(concurrency: int) -> PhaseResult:
    return PhaseResult(concurrency, 0, 1, 8, 1.0, 8.0, 8.0, 1.0, 1.0)


def test_limit_below_the_concurrency_is_noted(launches, tmp_path):
    async def client(target, prompts, phase, repeat, *, requests_log):
        return fixed(phase.concurrency)

    raw = ("--speculative-algorithm", "STANDALONE", "--max-running-requests", "48")
    with launch(launches(raw=raw, run_phase=client), tmp_path) as session:
        notes = [session.measure(Phase(concurrency, concurrency, 8), 0).notes for concurrency in (48, 100)]
    assert notes == [(), (Note.ADMISSION_LIMITED,)]


def test_client_gets_the_target_and_the_prompts_of_the_phase(launches, tmp_path):
    seen = []

    async def client(target, prompts, phase, repeat, *, requests_log):
        seen.append((target.num_steps, target.death(), prompts, repeat, requests_log))
        return fixed(1)

    held_out = (Prompt("maths-1", "maths", "1 + 1"),)
    with launch(launches(run_phase=client, held_out=held_out), tmp_path) as session:
        session.measure(PHASE, 3)
        session.measure(Phase(1, 1, 8, held_out=True), 0)
    log = paths(tmp_path).requests
    assert seen == [(2, None, PROMPTS, 3, log), (2, None, held_out, 0, log)]


def test_held_out_phase_without_held_out_prompts_is_a_usage_error(launches, tmp_path):
    with launch(launches(), tmp_path) as session, pytest.raises(UsageError, match="held-out prompts"):
        session.measure(Phase(1, 1, 8, held_out=True), 0)


def test_abort_from_another_thread_ends_a_launch(launches, tmp_path):
    engine = launches("never-ready", stall_s=60.0)
    threading.Timer(0.3, engine.abort).start()
    with pytest.raises(Interrupted):
        launch(engine, tmp_path)
    assert ours(tmp_path) == []


def test_abort_from_another_thread_ends_a_phase_and_its_server(launches, tmp_path):
    engine = launches("hang-under-load")
    session = launch(engine, tmp_path)
    threading.Timer(0.3, engine.abort).start()
    with pytest.raises(Interrupted):
        session.measure(LOADED, 0)
    assert ours(tmp_path) == []
    with pytest.raises(Interrupted):
        session.measure(PHASE, 0)


def test_watcher_may_close_while_another_thread_measures(launches, tmp_path):
    session = launch(launches("hang-under-load"), tmp_path)
    threading.Timer(0.3, session.close).start()
    with pytest.raises(LoadFailed):
        session.measure(LOADED, 0)
    assert session.close().clean


def interrupt_soon() -> None:
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_interrupt_inside_a_launch_stops_the_server_and_goes_on(launches, tmp_path):
    engine = launches("never-ready", stall_s=60.0)
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        launch(engine, tmp_path)
    assert ours(tmp_path) == []


def test_interrupt_inside_a_phase_stops_the_server_and_goes_on(launches, tmp_path):
    session = launch(launches("hang-under-load"), tmp_path)
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        session.measure(LOADED, 0)
    assert ours(tmp_path) == []
