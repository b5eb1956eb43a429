"""The fake speaks SGLang's interface closely enough to be worth testing against."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

from search.testing import install_fake_sglang

TREE = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/d", "--speculative-num-steps", "2"),
    *("--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "7"),
)
CHAIN = (*TREE[:-4], "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "9")


@contextlib.contextmanager
def running(folder, *args, release="0.5.11", **env):
    """A fake server that answers, and its log."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = start(folder, "--port", str(port), *args, release=release, **env)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 10
        while True:
            try:
                get(url, "/model_info")
                break
            except urllib.error.URLError:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.05)
        yield url, folder / "log"
    finally:
        process.kill()
        process.wait()


def start(folder, *args, release="0.5.11", **env):
    site = install_fake_sglang(folder / "site", release=release)
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", "--model-path", "/m", *args],
            env={**os.environ, "PYTHONPATH": str(site), "FAKE_SGLANG_SPEED": "20", **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def get(url, route):
    with urllib.request.urlopen(url + route, timeout=5) as response:
        return json.load(response)


def generate(url, **body):
    request = urllib.request.Request(f"{url}/generate", json.dumps({"text": "a b c", **body}).encode())
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read()


def test_stream_grows_and_ends_with_counters(tmp_path):
    with running(tmp_path, *CHAIN) as (url, _):
        raw = generate(url, stream=True, sampling_params={"max_new_tokens": 12})
    *records, done = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line]
    metas = [json.loads(record) for record in records]
    counts = [meta["meta_info"]["completion_tokens"] for meta in metas]
    last = metas[-1]["meta_info"]
    assert done == b"[DONE]"
    assert counts[0] == 1 and counts == sorted(set(counts)) and counts[-1] == 12
    assert [meta["text"] for meta in metas] == [" word" * count for count in counts]
    assert last["finish_reason"] == {"type": "length", "length": 12}
    assert sum(last["spec_accept_histogram"]) == last["spec_verify_ct"] == len(counts) - 1


def test_answer_without_speculation_has_no_verify_counters(tmp_path):
    with running(tmp_path) as (url, _):
        answer = json.loads(generate(url, sampling_params={"max_new_tokens": 5}))
        assert get(url, "/server_info")["speculative_algorithm"] is None
    assert answer["meta_info"]["completion_tokens"] == 5
    assert "spec_verify_ct" not in answer["meta_info"]


def test_chain_on_the_new_release_runs_v2_with_its_tokens_adjusted(tmp_path):
    with running(tmp_path, *CHAIN) as (url, log):
        info = get(url, "/server_info")
    assert (info["disable_overlap_schedule"], info["speculative_num_draft_tokens"]) == (False, 3)
    assert info["internal_states"][0]["effective_max_running_requests_per_dp"] == 48
    assert "is adjusted to speculative_num_steps + 1" in log.read_text()


def test_tree_on_the_new_release_falls_back_to_v1(tmp_path):
    with running(tmp_path, *TREE, SGLANG_ENABLE_SPEC_V2="1") as (url, log):
        info = get(url, "/server_info")
    assert (info["disable_overlap_schedule"], info["version"]) == (True, "0.5.11")
    assert "Spec v1 is used for eagle/eagle3/standalone" in log.read_text()


def test_old_release_runs_v1_unless_asked(tmp_path):
    with running(tmp_path, *CHAIN, release="0.5.9") as (url, _):
        assert get(url, "/server_info")["disable_overlap_schedule"] is True


@pytest.mark.parametrize(
    ("release", "args", "env", "code", "last"),
    [
        ("0.5.9", TREE, {"SGLANG_ENABLE_SPEC_V2": "1"}, 1, "ValueError: Spec v2 currently only supports topk = 1 for speculative decoding."),
        ("0.5.9", ("--tpx", "2"), {}, 2, "launch_server.py: error: unrecognized arguments: --tpx 2"),
        ("0.5.11", ("--tpx", "2"), {}, 2, "sglang serve: error: unrecognized arguments: --tpx 2"),
        ("0.5.11", TREE[:6], {}, 1, "TypeError: '>' not supported between instances of 'NoneType' and 'int'"),
        ("0.5.11", (), {"FAKE_SGLANG": "die-graph-capture"}, -9, "Received sigquit from a child process. It usually means the child failed."),
    ],
)  # fmt: skip
def test_refusal_has_the_real_exit_code_and_words(tmp_path, release, args, env, code, last):
    process = start(tmp_path, *args, release=release, **env)
    assert process.wait(timeout=10) == code
    assert (tmp_path / "log").read_text().rstrip().endswith(last)


def test_misspelt_misbehaviour_is_refused(tmp_path):
    process = start(tmp_path, FAKE_SGLANG="dye-loading")
    assert process.wait(timeout=10) == 1
    assert "dye-loading" in (tmp_path / "log").read_text()


def test_cost_of_a_step_makes_width_pay_at_one_request_and_cost_at_a_hundred():
    from search.testing._batcher import Costs

    def rate(batch, costs):
        return batch * (1 + costs.accepted) / costs.step_s(batch)

    off = Costs(verify_tokens=1, steps=0, topk=0, overlapped=True)
    chain = Costs(verify_tokens=3, steps=2, topk=1, overlapped=True)
    tree = Costs(verify_tokens=16, steps=3, topk=4, overlapped=False)
    assert rate(1, tree) > rate(1, off) and rate(1, chain) > rate(1, off)
    assert rate(100, tree) < rate(100, off) < rate(100, chain)


@pytest.mark.parametrize(("misbehaviour", "code"), [("exit-0", 0), ("exit-1", 1), ("exit-2", 2), ("exit-kill", -9)])
def test_server_ends_with_the_code_that_was_asked_for(tmp_path, misbehaviour, code):
    assert start(tmp_path, FAKE_SGLANG=misbehaviour).wait(timeout=10) == code
    assert "Error" not in (tmp_path / "log").read_text()


def test_lying_health_is_200_before_anything_was_generated(tmp_path):
    with running(tmp_path, FAKE_SGLANG="health-lies", FAKE_SGLANG_WARMUP_S="60") as (url, log):
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            assert response.status == 200
        assert "fired up" not in log.read_text()
        with pytest.raises(TimeoutError), urllib.request.urlopen(f"{url}/generate", b"{}", timeout=0.3):
            pass


def test_health_stays_200_while_the_scheduler_hangs(tmp_path):
    with running(tmp_path, FAKE_SGLANG="ready-but-silent", FAKE_SGLANG_WARMUP_S="0") as (url, _):
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            assert response.status == 200
        with pytest.raises(TimeoutError), urllib.request.urlopen(f"{url}/generate", b"{}", timeout=0.3):
            pass


def test_old_server_tells_ports_of_another_launch(tmp_path):
    with running(tmp_path, "--nccl-port", "31001", FAKE_SGLANG="old-server") as (url, _):
        assert get(url, "/server_info")["nccl_port"] == 31002


def test_noise_is_in_the_log_and_the_server_serves(tmp_path):
    with running(tmp_path, FAKE_SGLANG="huge-line,partial-utf8") as (url, log):
        assert json.loads(generate(url, sampling_params={"max_new_tokens": 2}))["meta_info"]["completion_tokens"] == 2
    raw = log.read_bytes()
    assert max(map(len, raw.split(b"\n"))) > 4_000_000
    with pytest.raises(UnicodeDecodeError):
        raw.decode()


def scheduler_of(url):
    """The launcher's first child: it makes the tokens."""
    port = int(url.rpartition(":")[2])
    (launcher,) = [
        process
        for process in psutil.Process().children()
        if any(s.status == psutil.CONN_LISTEN and s.laddr.port == port for s in process.net_connections("tcp"))
    ]
    return launcher, min(launcher.children(), key=lambda child: child.pid)


def test_stopped_scheduler_gives_silence_behind_a_server_that_answers(tmp_path):
    with running(tmp_path) as (url, _):
        generate(url, sampling_params={"max_new_tokens": 2})
        launcher, scheduler = scheduler_of(url)
        scheduler.suspend()
        with pytest.raises(TimeoutError), urllib.request.urlopen(f"{url}/generate", b"{}", timeout=0.5):
            pass
        assert get(url, "/model_info")["is_generation"] is True
        scheduler.resume()
        assert json.loads(generate(url, sampling_params={"max_new_tokens": 2}))["meta_info"]["completion_tokens"] == 2
        assert launcher.is_running()


def test_killed_scheduler_ends_the_server_in_the_real_words(tmp_path):
    with running(tmp_path) as (url, log):
        launcher, scheduler = scheduler_of(url)
        scheduler.kill()
        assert launcher.wait(timeout=10) in (-signal.SIGKILL, None)
    died, echo = log.read_text().rstrip().splitlines()[-2:]
    assert f"Subprocess scheduler_0 (pid={scheduler.pid}) crashed with exit code -9. Triggering SIGQUIT" in died
    assert echo.endswith("Received sigquit from a child process. It usually means the child failed.")


@pytest.mark.parametrize(
    ("release", "last"),
    [("0.5.9", "EOFError"), ("0.5.11", "Run `dmesg -T | grep -i oom` to check.")],
)
def test_scheduler_killed_while_loading_ends_the_launcher(tmp_path, release, last):
    process = start(tmp_path, release=release, FAKE_SGLANG="never-ready")
    end = time.monotonic() + 10
    while "Load weight begin" not in (tmp_path / "log").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    min(psutil.Process(process.pid).children(), key=lambda child: child.pid).kill()
    assert process.wait(timeout=10) == 1
    assert (tmp_path / "log").read_text().rstrip().endswith(last)
