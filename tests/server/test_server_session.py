"""The real engine on the fake server: launch, read-back, phases, deaths, stops."""

import json
import os
import signal
import threading
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
from search.load.target import Prompt
from search.outcomes import Evidence, Note, Reason
from search.server import LAUNCH_TAG, Patience, fresh_ports
from search.server.guardian import process_table
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


@pytest.fixture
def launches(tmp_path):
    """Makes engines, and proves after the test that nothing they started lives."""

    def engine(misbehaviour: str = "", *, release: str = "0.5.11", **more) -> SglangEngine:
        settings = {"stall_s": 0.6, "boot_ceiling_s": 20.0}
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
                "FAKE_SGLANG_SPEED": "10",
            },
            **settings,
        )
        patience = Patience(lease_s=5.0, grace_s=0.2, port_s=0.2)
        return SglangEngine(deployment, for_release(release), **({"prompts": PROMPTS, "patience": patience} | more))

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
    ],
)
def test_server_that_does_not_become_ready_is_stopped_and_classified(launches, tmp_path, misbehaviour, reason):
    # A silent server must have opened its port before it counts as stalled, on a busy machine too.
    error = failure(launches(misbehaviour, stall_s=4.0 if misbehaviour == "ready-but-silent" else 1.0), tmp_path)
    assert error.reason is reason
    assert error.evidence.log_path == str(paths(tmp_path).server_log)


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
        kill_scheduler = [p for p in process_table().values() if tag in environment_of(p.pid)]
        for process in kill_scheduler:
            os.kill(process.pid, signal.SIGKILL)
        raise ConnectionRefusedError("Connection refused")

    tag = f"{LAUNCH_TAG}=0001-".encode()
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
