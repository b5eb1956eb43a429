"""The plugin's table against what the releases' wheels say: recorded for everybody, from the wheels where they are."""

import json
import os
import sys
import types
from pathlib import Path

import pytest
import sources
from search_shapes import internals, refusals, wire

from search.server import shape_support

RECORDED = json.loads(sources.RECORDED.read_text())
FOLDER = os.environ.get("SGLANG_WHEELS", "")
"""A folder with wheels, as `pip download --no-deps sglang==0.5.16` leaves them."""

WHEELS = sources.wheels(FOLDER) if FOLDER else {}


def problem(entry, fact):
    if fact is None or fact is False:
        return "not there"
    if entry["kind"] == "function":
        return internals.misfit(entry, fact)
    return "" if entry["kind"] == "attribute" else ", ".join(set(entry.get("fields", ())) - set(fact))


@pytest.mark.parametrize("release", internals.releases())
def test_every_internal_of_a_release_is_in_its_wheel(release):
    recorded = RECORDED[release]
    found = {entry["name"]: recorded.get(f"{entry['kind']} {entry['name']}") for entry in internals.wanted(release)}
    wrong = {entry["name"]: problem(entry, found[entry["name"]]) for entry in internals.wanted(release)}
    assert {name: text for name, text in wrong.items() if text} == {}


@pytest.mark.parametrize("release", internals.releases())
def test_what_is_recorded_is_what_the_wheel_says(release):
    if release not in WHEELS:
        pytest.skip(f"no wheel of {release}; set SGLANG_WHEELS to a folder that has it")
    assert sources.facts(WHEELS[release], internals.wanted(release)) == RECORDED[release]


def test_a_table_that_asks_for_more_than_the_wheel_has_is_noticed():
    override = {"name": "override", "kind": "function", "params": ["self", "where"]}
    assert internals.misfit(override, {"self": False, "source": False, "fields": True})
    assert not internals.misfit(
        {"name": "override", "kind": "function", "params": ["self"]}, {"self": False, "other": True}
    )


def test_profile_is_that_of_the_release_a_patched_tree_was_made_from():
    assert internals.releases()[0] == "0.5.16"
    assert internals.profile("0.5.16+sm120") == internals.profile("v0.5.16") == internals.profile("0.5.16")
    assert internals.profile("0.5.17") is None
    assert internals.profile("0.5.16.post1") is None
    assert internals.profile("0.0.0") is None


def test_host_and_plugin_agree_on_names():
    assert shape_support.TOKEN_VARIABLE == wire.TOKEN_VARIABLE
    assert shape_support.ALGORITHMS == refusals.ALGORITHMS
    assert shape_support.known_releases() == internals.releases()
    points = Path(shape_support.plugin_folder()).glob("*.dist-info/entry_points.txt")
    assert [f"{shape_support.PLUGIN_NAME} = search_shapes:register" in point.read_text() for point in points] == [True]


def test_register_without_a_token_touches_nothing(monkeypatch):
    import search_shapes

    monkeypatch.delenv(wire.TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(internals, "installed_release", lambda: pytest.fail("looked at SGLang"))
    search_shapes.register()


@pytest.mark.parametrize(
    ("token", "release", "told"),
    [("short", "0.5.16", "32 hex digits"), ("0" * 32, "0.5.17", "no row"), ("0" * 32, "0.5.16", "lacks")],
)
def test_register_that_cannot_act_says_why_and_hooks_nothing(monkeypatch, caplog, token, release, told):
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins", "sglang.srt.plugins.hook_registry"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    import search_shapes

    monkeypatch.setenv(wire.TOKEN_VARIABLE, token)
    monkeypatch.setattr(internals, "installed_release", lambda: release)
    monkeypatch.setattr(search_shapes.hooks, "install", lambda **_: pytest.fail("hooked"))
    search_shapes.register()
    assert "SEARCH_SHAPES inactive" in caplog.text
    assert told in caplog.text


def test_missing_looks_into_loaded_modules_only_when_told_so(monkeypatch):
    """SGLang is not installed beside these tests."""
    everything = internals.missing("0.5.16")
    assert any("EAGLEWorkerV2.apply_runtime_state" in text for text in everything)
    assert internals.missing("0.5.16", loaded_only=True) == []
    for name in ("sglang", "sglang.srt", "sglang.srt.managers", "sglang.srt.managers.scheduler"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    scheduler = type("Scheduler", (), {"set_internal_state": lambda self: None, "flush_cache": lambda self: None})
    monkeypatch.setattr(sys.modules["sglang.srt.managers.scheduler"], "Scheduler", scheduler, raising=False)
    told = " ".join(internals.missing("0.5.16", loaded_only=True))
    assert "set_internal_state(self, recv_req)`, found (self)" in told
    assert "is_fully_idle" in told
    assert "flush_cache" not in told
