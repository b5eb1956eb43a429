"""The part that touches SGLang's objects, over a stub with the traps of 0.5.16."""

from types import SimpleNamespace

import pytest
from search_shapes import hooks, internals, live, wire
from search_shapes.ranks import Alone
from search_shapes.shape import Shape
from search_shapes.switch import FAILED, REFUSED, SWITCHED, Switcher
from stub_sglang import World

TREE, CHAIN, SMALL, SAME_STEPS = Shape(4, 4, 16), Shape(1, 2, 3), Shape(2, 2, 7), Shape(2, 4, 15)
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def world(monkeypatch):
    made = World()
    made.install(monkeypatch)
    return made


def server(world):
    return live.LiveServer(world.scheduler, internals.profile(world.release), world.release)


def switcher(world):
    return Switcher(server(world), Alone(), cap=8, room_gb=1.0)


def state_of(world):
    """Everything that a switch touches, as values."""
    worker, draft = world.worker, world.worker._draft_worker
    runner = worker._target_worker.model_runner
    owners = (worker, draft, draft.draft_runner, runner, world.args)
    skipped = ("_rebuild_topk1_chain_buffers", "mutations", "world")
    return [{name: str(value) for name, value in vars(owner).items() if name not in skipped} for owner in owners]


def test_switch_through_chains_and_trees_and_back_leaves_everything_as_it_was(world):
    started = state_of(world)
    asked = switcher(world)
    for shape in (CHAIN, SMALL, Shape(1, 4, 5), SAME_STEPS, CHAIN, Shape(4, 1, 5)):
        last = asked.ask(shape, 1)
        assert (last.outcome, last.reason) == (SWITCHED, "")
        assert set(asked.server.places().values()) == {shape}
        runner = world.worker._target_worker.model_runner
        assert runner.attn_backend == ("target backend", shape.topk, shape.num_draft_tokens)
        assert world.worker._draft_worker.draft_attn_backend[1:] == (shape.topk, shape.num_steps, shape.topk == 1)
        assert world.worker._draft_worker.draft_runner.attn_backend[0] == "extend backend"
    assert asked.ask(TREE, 1).outcome == SWITCHED
    for now, then in zip(state_of(world), started, strict=True):
        for name in ("dsa_extend_topk_buf", "_topk1_parents_prealloc", "_topk1_score_indices_prealloc"):
            now.pop(name, None)
            then.pop(name, None)
        assert now == then


@pytest.mark.parametrize("release", internals.releases())
def test_switch_there_and_back_in_the_way_of_each_release(monkeypatch, release):
    world = World(release=release)
    world.install(monkeypatch)
    asked = switcher(world)
    for shape in (CHAIN, SMALL, CHAIN, TREE):
        last = asked.ask(shape, 1)
        assert (last.outcome, last.reason) == (SWITCHED, "")
        assert set(asked.server.places().values()) == {shape}
    what = {"0.5.22": "owner", "0.5.23": "layout"}.get(release, "tp")
    assert world.seen_in[-1] == (f"draft tp {what}", "moe", "a2a")
    relay = world.scheduler.future_map
    if internals.profile(release)["relay"] == "flag":
        assert relay._forward_buf_initialized is False
    else:
        assert not relay.need_topk
        assert relay.topk_p_buf is None


def test_switch_recomputes_what_hangs_on_topk(world):
    asked = switcher(world)
    draft, relay = world.worker._draft_worker, world.scheduler.future_map
    assert not draft.index_share_for_mtp_iteration
    asked.ask(CHAIN, 1)
    assert draft.index_share_for_mtp_iteration
    assert draft.seed_dsa_topk_from_draft_extend
    assert draft.dsa_extend_topk_buf is None
    assert draft._topk1_score_indices_prealloc.shape == (8, 2)
    assert relay._forward_buf_initialized is False
    assert relay.dsa_topk_indices_buf is None
    assert relay.needs_cpu_seq_lens
    asked.ask(SMALL, 1)
    assert not draft.index_share_for_mtp_iteration
    assert not relay.needs_cpu_seq_lens


def test_switch_reserves_what_a_start_of_its_own_would(world):
    asked = switcher(world)
    assert live.reserve_tokens() == 32
    asked.ask(CHAIN, 1)
    assert live.reserve_tokens() == 6
    asked.ask(TREE, 1)
    assert live.reserve_tokens() == 32


def test_switch_zeroes_the_counters(world):
    switcher(world).ask(CHAIN, 1)
    counters = world.scheduler.metrics_reporter
    assert counters.spec_total_num_forward_ct == counters.spec_total_num_accept_tokens == 0


def test_build_runs_inside_the_contexts_of_the_start(world):
    switcher(world).ask(CHAIN, 1)
    assert world.seen_in[-1] == ("draft tp tp", "moe", "a2a")
    assert world.contexts == []


@pytest.mark.parametrize("fault", ["draft", "verify", "apply"])
@pytest.mark.parametrize("before", [TREE, CHAIN])
@pytest.mark.parametrize("shape", [SMALL, Shape(1, 3, 4)])
def test_switch_that_fails_puts_all_back_topk_included(world, fault, before, shape):
    asked = switcher(world)
    asked.ask(before, 1)
    was = state_of(world)
    world.faults.add(fault)
    last = asked.ask(shape, 2)
    assert last.outcome == FAILED
    assert asked.broken == ""
    assert state_of(world) == was
    world.faults.clear()
    assert asked.ask(shape, 3).outcome == SWITCHED


def test_switch_when_requests_run_is_refused_as_busy(world):
    world.scheduler.idle = False
    last = switcher(world).ask(CHAIN, 1)
    assert (last.outcome, last.reason[:5]) == (REFUSED, "busy:")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable_dp_attention", True), ("enable_two_batch_overlap", True), ("enable_pdmux", True),
        ("enable_multi_layer_eagle", True), ("speculative_use_rejection_sampling", True),
        ("speculative_algorithm", "NGRAM"), ("speculative_algorithm", "DFLASH"), ("dp_size", 2), ("host", "0.0.0.0"),
        ("enable_lora", True), ("disaggregation_mode", "decode"),
    ],
)  # fmt: skip
def test_switch_with_a_setting_that_binds_the_shape_is_refused(monkeypatch, name, value):
    world = World(arguments={name: value})
    world.install(monkeypatch)
    last = switcher(world).ask(CHAIN, 1)
    assert last.outcome == REFUSED
    assert str(value) in last.reason or name in last.reason


def test_switch_with_parts_that_bind_the_shape_is_refused(world):
    world.worker._target_worker.model_runner.prefill_cuda_graph_runner = SimpleNamespace(_is_full_backend=True)
    assert "prefill graphs" in switcher(world).ask(CHAIN, 1).reason


def test_switch_of_a_hybrid_model_is_refused(world):
    world.scheduler.req_to_token_pool = type("HybridReqToTokenPool", (), {})()
    assert "hybrid" in switcher(world).ask(CHAIN, 1).reason


def test_switch_on_another_worker_is_refused_by_its_name(world):
    world.scheduler.draft_worker.__class__ = type("MultiLayerEagleWorkerV2", (type(world.worker),), {})
    assert "MultiLayerEagleWorkerV2" in switcher(world).ask(CHAIN, 1).reason


def test_switch_when_an_attribute_of_the_table_is_gone_is_refused_by_its_name(world):
    del world.scheduler.future_map._forward_buf_initialized
    assert "`FutureMap._forward_buf_initialized`" in switcher(world).ask(CHAIN, 1).reason


def test_report_of_a_server_without_speculation_stands(world):
    world.scheduler.draft_worker = None
    world.args.speculative_algorithm = None
    report = switcher(world).report()
    assert "none" in report["refuses"].lower()


def told(world, numbers):
    """What the hooks answer and report to a command."""
    ours = hooks.Hooks(token=TOKEN, release="0.5.16", profile=internals.profile("0.5.16"))
    request = SimpleNamespace(server_args=numbers)
    answer = ours.command(lambda scheduler, recv_req: "SGLang's own", world.scheduler, request)
    result = ours.report(SimpleNamespace(internal_state={"other": 1}), world.scheduler, None)
    return answer, result.internal_state


def test_hooks_answer_a_command_and_report_it(world):
    answer, state = told(world, wire.command(CHAIN, token=TOKEN, request=11))
    assert answer.updated
    report = state[wire.REPORT]
    assert (report["now"], report["consistent"], report["last"]["request"]) == ([1, 2, 3], True, 11)
    assert state["other"] == 1
    assert report["reserve_tokens"] == 6


def test_hooks_leave_other_commands_to_sglang_and_turn_strangers_away(world):
    assert told(world, {"pp_max_micro_batch_size": 8})[0] == "SGLang's own"
    answer, state = told(world, wire.command(CHAIN, token=TOKEN[::-1], request=11))
    assert not answer.updated
    assert state[wire.REPORT]["last"] is None
    assert state[wire.REPORT]["now"] == [4, 4, 16]
    half = wire.command(CHAIN, token=TOKEN, request=11)
    del half[wire.TOKEN_KEYS[0]]
    assert not told(world, half)[0].updated
