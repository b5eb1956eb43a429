"""The live part over the releases' own code for building, applying and undoing, cut out of their wheels."""

import ast
import contextlib
import os
import zipfile
from types import SimpleNamespace
from typing import Any

import pytest
import sources
import stub_sglang
from search_shapes import internals, live
from search_shapes.ranks import Alone
from search_shapes.shape import Shape
from search_shapes.switch import FAILED, SWITCHED, Switcher

FOLDER = os.environ.get("SGLANG_WHEELS", "")
WHEELS = sources.wheels(FOLDER) if FOLDER else {}
METHODS = ("build_adaptive_runtime_state", "apply_runtime_state", "_override_worker_state")


def methods_of(wheel, world):
    """The methods of `EAGLEWorkerV2` in a wheel, in a namespace of stubs."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("sglang/srt/speculative/eagle_worker_v2.py"))
    worker = next(node for node in tree.body if getattr(node, "name", "") == "EAGLEWorkerV2")
    body = [node for node in worker.body if getattr(node, "name", "") in METHODS]
    assert len(body) == len(METHODS)
    args = world.args
    graph = SimpleNamespace(cuda_graph_bs_decode=[1, 2], disable_cuda_graph=False)

    def verify_graphs(runner, *, attn_backend, speculative_num_steps, speculative_num_draft_tokens):
        assert attn_backend[1] == args.speculative_eagle_topk
        return world.worker._verify_graphs(speculative_num_steps, speculative_num_draft_tokens)

    names = {
        "Any": Any, "SpecRuntimeState": stub_sglang.SpecRuntimeState, "contextlib": contextlib, "_is_npu": False,
        "time": SimpleNamespace(perf_counter=lambda: 0.0), "get_available_gpu_memory": lambda *_: 9.0,
        "check_cuda_graph_backend": lambda *_: False, "Phase": SimpleNamespace(DECODE=0),
        "Backend": SimpleNamespace(DISABLED=0), "DecodeCudaGraphRunner": verify_graphs, "logger": None,
        "log_info_on_rank0": lambda *_: None, "get_spec": lambda: args, "get_exec": lambda: SimpleNamespace(graph=graph),
        "get_context": lambda: SimpleNamespace(override=args.override),
        "_select_spec_graph_runner_cls": lambda builtin_runner_cls, oot_runner_cls: builtin_runner_cls(),
        "current_platform": SimpleNamespace(get_graph_runner_cls=None),
    }  # fmt: skip
    module = ast.Module([*ast.parse("from __future__ import annotations").body, *body], [])
    exec(compile(ast.fix_missing_locations(module), str(wheel), "exec"), names)
    return {name: names[name] for name in METHODS}


@pytest.fixture
def world(request, monkeypatch):
    release = request.param
    if release not in WHEELS:
        pytest.skip(f"no wheel of {release}; set SGLANG_WHEELS to a folder that has it")
    made = stub_sglang.World(release=release, arguments={"cuda_graph_bs_decode": [1, 2], "disable_cuda_graph": False})
    made.install(monkeypatch)
    worker = made.worker
    runner = worker._target_worker.model_runner
    runner.init_new_workspace = False
    runner._get_attention_backend = lambda init_new_workspace: (
        "target backend", made.args.speculative_eagle_topk, made.args.speculative_num_draft_tokens
    )  # fmt: skip
    worker.device = "cuda"
    worker._additional_graph_memory_usage, worker._additional_graph_time_usage = {}, {}
    for name, method in methods_of(WHEELS[release], made).items():
        monkeypatch.setattr(stub_sglang.EAGLEWorkerV2, name, method)
    return made


@pytest.mark.parametrize("world", internals.releases(), indirect=True)
def test_the_releases_own_methods_switch_and_are_undone(world):
    server = live.LiveServer(world.scheduler, internals.profile(world.release), world.release)
    asked = Switcher(server, Alone(), cap=8, room_gb=1.0)
    for shape in (Shape(1, 2, 3), Shape(2, 2, 7), Shape(1, 4, 5), Shape(4, 1, 5), Shape(4, 4, 16)):
        last = asked.ask(shape, 1)
        assert (last.outcome, last.reason) == (SWITCHED, "")
        assert set(server.places().values()) == {shape}
        assert world.worker._target_worker.model_runner.attn_backend[1:] == (shape.topk, shape.num_draft_tokens)
    for before, fault in ((Shape(4, 4, 16), "draft"), (Shape(1, 4, 5), "verify")):
        asked.ask(before, 1)
        world.faults.add(fault)
        for shape in (Shape(1, 3, 4), Shape(2, 3, 6)):
            assert asked.ask(shape, 2).outcome == FAILED
            assert set(server.places().values()) == {before}
            assert not asked.broken
        world.faults.clear()
    assert asked.ask(Shape(2, 3, 6), 3).outcome == SWITCHED
