"""Client, plugin protocol and wire together, over the fake server's process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from search.deployment import Deployment, Hardware
from search.server.shape_support import new_token, shapes_environment
from search.server.shapes import ShapeClient
from search.shape import Shape, SwitchFailed, SwitchRefused
from search.testing import install_fake_sglang

HARDWARE = Hardware("NVIDIA H200", 90, 141.0, "nvlink")
TREE = Shape(4, 4, 16)
CHAIN = Shape(1, 2, 3)
SMALL_TREE = Shape(2, 2, 7)


@contextlib.contextmanager
def server(folder, *misbehaviours, release="0.5.16", **env):
    """A fake server started in TREE with the plugin; gives (client, process)."""
    site = install_fake_sglang(folder / "site", release=release)
    token = new_token()
    deployment = Deployment("/m", "/d", "STANDALONE", 1, HARDWARE, release, env={"PYTHONPATH": str(site), **env})
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, **deployment.env, **shapes_environment(token, os.environ, deployment)}
    environment |= {"FAKE_SGLANG": ",".join(misbehaviours), "FAKE_SGLANG_SPEED": "50"}
    words = f"--model-path /m --port {port} --speculative-algorithm STANDALONE --speculative-draft-model-path /d"
    words += " --speculative-eagle-topk 4 --speculative-num-steps 4 --speculative-num-draft-tokens 16"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", *words.split()],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + 20
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end
                time.sleep(0.05)
        yield ShapeClient(port, token), process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_switch_when_the_shape_is_new_builds_it_and_coming_back_does_not(tmp_path):
    with server(tmp_path) as (client, _):
        assert client.is_there()
        assert client.current() == TREE
        there = client.switch(CHAIN, 20)
        assert there.built
        assert there.memory_gb == pytest.approx(0.5)
        assert client.current() == CHAIN
        back = client.switch(TREE, 20)
        assert not back.built
        assert back.memory_gb == 0
        assert client.report().start == TREE


def test_switch_changes_what_is_drafted(tmp_path):
    with server(tmp_path) as (client, _):
        wide = client.probe()
        client.switch(CHAIN, 20)
        narrow = client.probe()
        assert wide.accept_length > narrow.accept_length > 1


def test_is_there_when_the_plugin_failed_to_load_is_false(tmp_path):
    with server(tmp_path, "shapes-not-there") as (client, _):
        assert not client.is_there()
        with pytest.raises(SwitchFailed, match="not in this server"):
            client.switch(CHAIN, 5)


def test_is_there_when_the_users_whitelist_names_another_plugin_is_true(tmp_path):
    with server(tmp_path, SGLANG_PLUGINS="theirs") as (client, _):
        assert client.is_there()


def test_is_there_when_the_release_has_no_row_is_false(tmp_path):
    with server(tmp_path, release="0.5.11") as (client, _):
        assert not client.is_there()


def test_is_there_when_no_server_listens_is_false():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert not ShapeClient(port, new_token()).is_there()


def test_switch_when_the_token_is_another_launchs_fails_and_changes_nothing(tmp_path):
    with server(tmp_path) as (client, _):
        stranger = ShapeClient(client.port, new_token())
        with pytest.raises(SwitchFailed, match="another launch"):
            stranger.switch(CHAIN, 5)
        assert client.current() == TREE
        assert client.report().last == {}


def test_switch_when_the_start_cannot_hold_the_shape_is_refused_with_each_bound(tmp_path):
    with server(tmp_path) as (client, _):
        with pytest.raises(SwitchRefused, match=r"k4-s6-d20 needs more: num_steps 6 > 4, num_draft_tokens 20 > 16"):
            client.switch(Shape(4, 6, 20), 5)
        with pytest.raises(SwitchRefused, match="With topk 1"):
            client.switch(Shape(1, 2, 7), 5)
        assert client.current() == TREE


def test_switch_when_the_server_is_never_idle_is_refused_as_busy(tmp_path):
    with server(tmp_path, "shapes-busy") as (client, _), pytest.raises(SwitchRefused, match="busy"):
        client.switch(CHAIN, 1)


def test_switch_when_a_request_runs_waits_for_its_end(tmp_path):
    with server(tmp_path, FAKE_SGLANG_SPEED="1") as (client, _), ThreadPoolExecutor() as pool:
        body = b'{"text": "a", "sampling_params": {"max_new_tokens": 2000}}'
        url = f"http://127.0.0.1:{client.port}/generate"
        running = pool.submit(lambda: urllib.request.urlopen(url, body, timeout=60).read())
        time.sleep(0.1)
        client.switch(CHAIN, 60)
        assert running.done()
        assert client.current() == CHAIN


def test_switch_when_this_kind_of_server_keeps_its_shape_says_which(tmp_path):
    with server(tmp_path, "shapes-refuse") as (client, _):
        assert "DP attention" in client.report().refuses
        with pytest.raises(SwitchRefused, match="DP attention"):
            client.switch(CHAIN, 5)


def test_switch_when_the_server_dies_in_the_middle_fails(tmp_path):
    with server(tmp_path, "shapes-die") as (client, process):
        with pytest.raises(SwitchFailed, match="went silent") as error:
            client.switch(CHAIN, 10)
        assert not error.value.usable
        process.wait(10)


def test_switch_when_it_hangs_fails_at_the_deadline(tmp_path):
    with server(tmp_path, "shapes-hang") as (client, _), pytest.raises(SwitchFailed, match="silent") as error:
        client.switch(CHAIN, 1)
    assert not error.value.usable


def test_switch_when_the_server_lies_about_the_shape_fails(tmp_path):
    with server(tmp_path, "shapes-lie") as (client, _), pytest.raises(SwitchFailed, match="k4-s4-d16 runs"):
        client.switch(CHAIN, 10)


def test_switch_when_a_build_is_slow_waits_for_it(tmp_path):
    with server(tmp_path, "shapes-slow-build") as (client, _):
        assert client.switch(CHAIN, 30).built


def test_switch_when_a_build_fails_and_all_is_put_back_blames_the_shape_alone(tmp_path):
    with server(tmp_path, "shapes-fail-build") as (client, _):
        with pytest.raises(SwitchFailed, match="out of memory") as error:
            client.switch(CHAIN, 10)
        assert error.value.usable
        assert client.current() == TREE


def test_switch_when_a_failed_build_leaves_topk_behind_ends_the_start(tmp_path):
    with server(tmp_path, "shapes-fail-undo") as (client, _):
        with pytest.raises(SwitchFailed, match="End this start") as error:
            client.switch(CHAIN, 10)
        assert not error.value.usable
        with pytest.raises(SwitchFailed):
            client.current()
        with pytest.raises(SwitchFailed):
            client.switch(SMALL_TREE, 10)


def test_switch_when_memory_runs_out_drops_the_shape_used_longest_ago(tmp_path):
    with server(tmp_path, "shapes-no-room") as (client, _):
        evicted = [client.switch(shape, 20).evicted for shape in (CHAIN, SMALL_TREE, Shape(2, 3, 6), Shape(1, 4, 5))]
        assert sum(evicted) > 0
        kept = client.report().built
        assert TREE in kept
        assert CHAIN not in kept
        assert client.switch(CHAIN, 20).built


def test_errors_survive_pickling():
    import pickle

    for error in (SwitchRefused("why"), SwitchFailed("why", True)):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert getattr(again, "usable", None) == getattr(error, "usable", None)
