"""A real engine whose server runs several configs, on the fake server: each end of a switch, and nothing left behind."""

import json
import pickle
import threading
from pathlib import Path

import pytest
from fake_servers import servers_of

from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, Slot
from search.deployment import Deployment, Hardware
from search.dialects import for_release
from search.engines._sglang import SglangEngine
from search.engines._shape_start import ShapeStart
from search.engines._shape_switch import start_details
from search.errors import Interrupted
from search.load.target import Prompt
from search.outcomes import Reason
from search.server.shapes import token_forms
from search.server.supervisor import Deadlines
from search.shape import Switched, SwitchFailed, SwitchRefused
from search.testing import install_fake_sglang

TREE = SpecConfig.from_id("v2-k4-s4-d16")
CHAIN = SpecConfig.from_id("v2-k1-s2-d3")
SMALL = SpecConfig.from_id("v2-k2-s2-d7")
DEEP = SpecConfig.from_id("v2-k1-s6-d7")
PROMPTS = tuple(Prompt(f"chat-{n}", "chat", f"Count to {n}.") for n in range(16))
ALONE = Phase(concurrency=1, requests=2, output_tokens=64)


@pytest.fixture(autouse=True)
def unreaped(monkeypatch):
    """What other tests on this host need stays."""
    monkeypatch.setattr("search.engines._sglang.reap_orphans", lambda: ((), ()))
    monkeypatch.setattr("search.engines._sglang.find_py_spy", lambda python: None)


@pytest.fixture
def engine(tmp_path):
    """Makes engines, and proves after the test that nothing they started lives."""

    def make(*misbehaviours, release="0.5.16", prefix=(), switch_s=20.0):
        deployment = Deployment(
            model="/models/target",
            draft="/models/draft",
            algorithm="STANDALONE",
            tp=1,
            hardware=Hardware("NVIDIA H200", 90, 140.0, "nvlink"),
            release=release,
            prefix=prefix,
            server_args={"attention-backend": "triton", "mem-fraction-static": 0.6},
            env={
                "PYTHONPATH": str(install_fake_sglang(tmp_path / "site", release=release)),
                "FAKE_SGLANG": ",".join(misbehaviours),
                "FAKE_SGLANG_SPEED": "5",
            },
            stall_s=30.0,
        )
        return SglangEngine(
            deployment,
            for_release(release),
            prompts=PROMPTS,
            deadlines=Deadlines(lease_s=5.0, grace_s=0.2, port_s=0.2),
            switch_s=switch_s,
        )

    yield make
    assert servers_of(tmp_path / "site") == []


@pytest.fixture
def launch(tmp_path):
    """Launches with the files of `0001-x`."""

    def start(engine, config=TREE, holds=(CHAIN, SMALL)):
        return engine.launch(config, slot=Slot(0), paths=folder(tmp_path), holds=holds)

    return start


def folder(tmp_path, number=1):
    return LaunchPaths(tmp_path / "launches" / f"000{number}-x")


def test_switch_when_the_start_holds_the_config_measures_it_and_comes_back(engine, launch, tmp_path):
    with launch(engine()) as session:
        assert (session.effective.config, session.holds) == (TREE, (CHAIN, SMALL))
        wide = session.measure(ALONE, 1)
        there = session.switch(CHAIN, paths=folder(tmp_path, 2))
        assert (session.effective.config, session.effective.release) == (CHAIN, "0.5.16")
        narrow = session.measure(ALONE, 1)
        back = session.switch(TREE, paths=folder(tmp_path, 3))
        again = session.measure(ALONE, 1)
    assert there.built and not back.built and there.seconds > 0
    assert 1 < narrow.accept_length <= 3 < wide.accept_length == again.accept_length <= 5
    assert len(narrow.accept_histogram) <= 3
    assert [len(folder(tmp_path, n).requests.read_text().splitlines()) for n in (1, 2, 3)] == [2, 2, 2]
    assert [folder(tmp_path, n).server_log.exists() for n in (1, 2, 3)] == [True, False, False]
    assert session.close().clean


def test_switch_when_done_leaves_the_command_of_the_configs_own_start(engine, launch, tmp_path):
    with launch(engine()) as session:
        session.switch(CHAIN, paths=folder(tmp_path, 2))
        details = dict(session.effective.details)
    script = folder(tmp_path, 2).command.read_text()
    assert script.startswith("#!/bin/sh\n# Measured in the start of 0001-x, by a switch.\n")
    assert "--speculative-eagle-topk 1" in script
    assert "# " not in folder(tmp_path).command.read_text()
    for number in (1, 2):
        assert "search_shapes" not in folder(tmp_path, number).command.read_text()
        assert "SHAPES" not in folder(tmp_path, number).command.read_text()
    told = json.loads(folder(tmp_path, 2).server_info.read_text())
    assert (told["speculative_eagle_topk"], told["internal_states"][0]["search_shapes"]["now"]) == (4, [1, 2, 3])
    assert (details["started_as"], float(details["switch_s"]) > 0) == (TREE.config_id, True)
    assert int(details["reserve_tokens"]) == 6


def test_launch_when_another_shape_holds_all_starts_with_that_and_runs_the_config(engine, launch, tmp_path):
    with launch(engine(), CHAIN, (TREE,)) as session:
        assert (session.effective.config, session.holds) == (CHAIN, (TREE,))
        assert session.measure(ALONE, 1).accept_length <= 3
        assert dict(session.effective.details)["started_as"] == TREE.config_id
        session.switch(TREE, paths=folder(tmp_path, 2))
        assert session.effective.config == TREE
    assert f"# Measured in a start made for {TREE}, by a switch." in folder(tmp_path).command.read_text()


def test_launch_when_no_member_holds_all_starts_with_a_shape_of_none(engine, launch, tmp_path):
    with launch(engine(), TREE, (DEEP,)) as session:
        assert dict(session.effective.details)["started_as"] == "v2-k4-s6-d16"
        assert session.effective.config == TREE
        session.switch(DEEP, paths=folder(tmp_path, 2))
        assert session.effective.config == DEEP


def test_switch_when_the_config_was_not_asked_at_the_launch_is_refused(engine, launch, tmp_path):
    with launch(engine()) as session:
        for other in (DEEP, SpecConfig.from_id("off")):
            with pytest.raises(SwitchRefused, match="needs one of its own"):
                session.switch(other, paths=folder(tmp_path, 2))
        assert session.measure(ALONE, 1).requests == 2
    with launch(engine(), holds=()) as alone, pytest.raises(SwitchRefused, match="no other config"):
        alone.switch(CHAIN, paths=folder(tmp_path, 2))


@pytest.mark.parametrize("fault", ["shapes-not-there", "shapes-refuse"])
def test_launch_when_its_own_shape_runs_and_cannot_switch_goes_on_and_says_so(engine, launch, fault):
    with launch(engine(fault)) as session:
        assert (session.holds, session.effective.config) == ((), TREE)
        why = dict(session.effective.details)["keeps_its_shape"]
        assert ("DP attention" if fault == "shapes-refuse" else "not in this server") in why
        assert session.measure(ALONE, 1).requests == 2


@pytest.mark.parametrize("fault", ["shapes-not-there", "shapes-refuse", "shapes-fail-build", "shapes-die"])
def test_launch_when_another_shape_runs_and_cannot_switch_has_a_start_of_its_own(engine, launch, tmp_path, fault):
    with launch(engine(fault), CHAIN, (TREE,)) as session:
        assert (session.holds, session.effective.config) == ((), CHAIN)
        assert "keeps_its_shape" in dict(session.effective.details)
        assert session.measure(ALONE, 1).accept_length <= 3
    assert "speculative_eagle_topk=4" in folder(tmp_path).shared_log.read_text()
    assert "speculative_eagle_topk=1" in folder(tmp_path).server_log.read_text()
    assert "# " not in folder(tmp_path).command.read_text()


def test_launch_when_an_earlier_one_showed_that_the_deployment_keeps_its_shape_does_not_try_again(
    engine, launch, tmp_path
):
    made = engine("shapes-not-there")
    with launch(made) as session:
        assert session.holds == ()
    with launch(made, CHAIN, (TREE,)) as session:
        assert session.effective.config == CHAIN
        assert "keeps_its_shape" in dict(session.effective.details)
    assert not folder(tmp_path).shared_log.exists()


def test_launch_when_two_starts_for_another_shape_were_of_no_use_does_not_try_a_third_time(engine, launch, tmp_path):
    made = engine("shapes-fail-build")
    for _ in range(2):
        with launch(made, CHAIN, (TREE,)) as session:
            assert session.holds == ()
    folder(tmp_path).shared_log.unlink()
    with launch(made, CHAIN, (TREE,)) as session:
        assert "out of memory" in dict(session.effective.details)["keeps_its_shape"]
    assert not folder(tmp_path).shared_log.exists()


def test_launch_when_only_the_shared_start_fails_has_a_start_of_its_own(engine, launch):
    unless_shared = ("sh", "-c", '[ -z "$SPEC_SEARCH_SHAPES_TOKEN" ] && exec "$@"; exit 3', "sh")
    with launch(engine(prefix=unless_shared), CHAIN, (TREE,)) as session:
        assert (session.holds, session.effective.config) == ((), CHAIN)
        assert "exit code 3" in dict(session.effective.details)["keeps_its_shape"]


def test_launch_when_the_release_has_no_row_or_the_others_differ_in_more_starts_once(engine, launch, tmp_path):
    with launch(engine(release="0.5.11"), CHAIN, (DEEP,)) as session:
        assert session.holds == ()
        assert "no row" in dict(session.effective.details)["keeps_its_shape"]
    with launch(engine(), CHAIN, (SpecConfig.from_id("v2-k2-s2-d7+page=64"),)) as session:
        assert session.holds == ()
    assert not folder(tmp_path).shared_log.exists()


def test_switch_when_the_server_is_never_idle_is_refused_and_the_old_config_goes_on(engine, launch, tmp_path):
    with launch(engine("shapes-busy", switch_s=1.0)) as session:
        with pytest.raises(SwitchRefused, match="busy"):
            session.switch(CHAIN, paths=folder(tmp_path, 2))
        assert session.effective.config == TREE
        assert session.measure(ALONE, 1).accept_length > 3


def test_switch_when_a_build_fails_and_all_is_put_back_fails_usable(engine, launch, tmp_path):
    with launch(engine("shapes-fail-build")) as session:
        with pytest.raises(SwitchFailed, match="out of memory") as caught:
            session.switch(CHAIN, paths=folder(tmp_path, 2))
        assert (caught.value.usable, caught.value.cause) == (True, Reason.OOM_GRAPH)
        assert caught.value.evidence.phase == "switch to k1-s2-d3"
        assert caught.value.evidence.log_path == str(folder(tmp_path).server_log)
        assert session.effective.config == TREE
        assert session.measure(ALONE, 1).accept_length > 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.cause, again.evidence) == (str(caught.value), caught.value.cause, caught.value.evidence)


@pytest.mark.parametrize(
    ("fault", "cause", "words"),
    [
        ("shapes-fail-undo", Reason.OOM_GRAPH, "not at k4-s4-d16"),
        ("shapes-lie", Reason.TOOL_ERROR, "k4-s4-d16 runs"),
        ("shapes-die", Reason.UNKNOWN, "Received sigquit"),
        ("shapes-hang", Reason.SERVER_HANG_LOAD, "no stack dump"),
    ],
)
def test_switch_when_the_server_is_lost_fails_with_the_cause_and_stops_clean(
    engine, launch, tmp_path, fault, cause, words
):
    with launch(engine(fault, switch_s=3.0 if fault == "shapes-hang" else 20.0)) as session:
        with pytest.raises(SwitchFailed, match=words) as caught:
            session.switch(CHAIN, paths=folder(tmp_path, 2))
        assert (caught.value.usable, caught.value.cause) == (False, cause)
        assert caught.value.evidence.log_path == str(folder(tmp_path).server_log)
    assert session.close().clean


@pytest.mark.parametrize("during", ["launch", "switch"])
def test_abort_when_a_switch_hangs_interrupts_it_and_stops_the_server(engine, launch, tmp_path, during):
    made = engine("shapes-hang", switch_s=60.0)
    timer = threading.Timer(3.0, made.abort)
    if during == "launch":
        timer.start()
        with pytest.raises(Interrupted):
            launch(made, CHAIN, (TREE,))
    else:
        with launch(made) as session:
            timer.start()
            with pytest.raises(Interrupted):
                session.switch(CHAIN, paths=folder(tmp_path, 2))
            assert servers_of(tmp_path / "site") == []
    timer.join()


def test_details_when_the_start_reserves_more_than_the_configs_own_say_so():
    start = ShapeStart(TREE, 1, "token", {})
    equal, more = (Switched(1.0, True, 0.5, reserve_tokens=tokens) for tokens in (6, 32))
    assert "reserves_more_than_its_own_start" not in start_details(start, CHAIN, equal)
    words = start_details(start, CHAIN, more)["reserves_more_than_its_own_start"]
    assert words.startswith("32 cache slots a request and decode step, 6 in a start of its own")


def test_token_when_the_server_prints_its_environment_is_in_no_file(engine, launch, tmp_path, monkeypatch):
    token = "0123456789abcdef" * 2
    monkeypatch.setattr("search.engines._shape_start.new_token", lambda: token)
    (tmp_path / "numbers").write_text("\n".join(token_forms(token)[1:]))
    tells = ("sh", "-c", f'env; cat {tmp_path}/numbers; exec "$@"', "sh")
    with launch(engine(prefix=tells), CHAIN, (TREE,)) as session:
        session.switch(TREE, paths=folder(tmp_path, 2))
    written = {path: path.read_text() for path in Path(tmp_path, "launches").rglob("*") if path.is_file()}
    assert "SPEC_SEARCH_SHAPES_TOKEN=***\n" in written[folder(tmp_path).server_log]
    assert len(written) == 5
    assert [(path, form) for path, text in written.items() for form in token_forms(token) if form in text] == []
