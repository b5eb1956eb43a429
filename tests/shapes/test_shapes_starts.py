"""Which configs share a start: arithmetic of what a start holds, groups, orders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_shapes import shape as plugins
from search_shapes import wire

from search.config import SpecConfig, SpecVersion, tree_bound
from search.server import shapes as clients
from search.server.shape_starts import decode_slots, group, holds, order, row_headroom, smallest_start
from search.shape import Shape


@st.composite
def shapes(draw):
    topk, steps = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    if topk == 1:
        return Shape(1, steps, steps + 1)
    return Shape(topk, steps, draw(st.integers(2, tree_bound(topk=topk, num_steps=steps))))


pages = st.sampled_from([1, 16, 32, 64, 128])


@given(st.lists(shapes(), min_size=1, max_size=8), pages)
def test_smallest_start_holds_all_and_is_possible(given_shapes, page_size):
    start = smallest_start(given_shapes, page_size)
    assert all(holds(start, shape, page_size) for shape in given_shapes)
    assert plugins.impossible(plugins.Shape(*start.numbers)) == ""


@given(shapes(), shapes(), pages)
def test_host_and_plugin_agree_on_what_a_start_holds(start, shape, page_size):
    theirs = plugins.too_large(plugins.Shape(*shape.numbers), plugins.Shape(*start.numbers), page_size)
    assert holds(start, shape, page_size) == (theirs == "")
    assert decode_slots(shape, page_size) == plugins.decode_slots(plugins.Shape(*shape.numbers), page_size)
    assert row_headroom(shape, page_size) == plugins.row_headroom(plugins.Shape(*shape.numbers), page_size)


def test_host_and_plugin_use_the_same_words():
    for name in ("REPORT", "PROTOCOL", "SHAPE_KEYS", "TOKEN_KEYS", "REQUEST_KEY"):
        assert getattr(clients, name) == getattr(wire, name)


def test_token_travels_whole_and_a_single_wrong_digit_is_noticed():
    token = "0123456789abcdef" * 2
    sent = wire.command(plugins.Shape(1, 2, 3), token=token, request=5)
    assert wire.read(sent, token=token) == wire.Asked(plugins.Shape(1, 2, 3), 5, authentic=True)
    assert wire.read({name: float(value) for name, value in sent.items()}, token=token).authentic
    for place in range(32):
        other = token[:place] + ("0" if token[place] != "0" else "1") + token[place + 1 :]
        assert not wire.read(sent, token=other).authentic
    assert wire.read({"pp_max_micro_batch_size": 8}, token=token) is None


def test_decode_slots_of_a_paged_tree_are_whole_pages_per_branch():
    assert decode_slots(Shape(4, 4, 16), 1) == 16
    assert decode_slots(Shape(4, 5, 16), 1) == 20
    assert decode_slots(Shape(4, 4, 16), 64) == 2 * 64 * 4
    assert decode_slots(Shape(1, 4, 5), 64) == 5


def config(topk, steps, tokens, **extra):
    return SpecConfig(SpecVersion.V2, topk, steps, tokens, extra=tuple(extra.items()))


OFF = SpecConfig(SpecVersion.OFF)
CHAIN, LONG_CHAIN, TREE, DEEP_TREE = config(1, 2, 3), config(1, 5, 6), config(4, 2, 16), config(2, 4, 15)
TRITON = {"attention_backend": "triton", "page_size": 1, "cuda_graph_bs": (1, 2, 4)}


def resolved(**settings):
    return {one.config_id: settings for one in (OFF, CHAIN, LONG_CHAIN, TREE, DEEP_TREE)}


def test_group_when_settings_agree_takes_all_shapes_into_one_start_and_off_apart():
    one, off = group([CHAIN, TREE, OFF, LONG_CHAIN, DEEP_TREE], resolved(**TRITON))
    assert one.configs == (CHAIN, TREE, LONG_CHAIN, DEEP_TREE)
    assert one.start_with == config(4, 5, 16)
    assert one.reserves == (40, (6, 32, 12, 30))
    assert dict(one.pinned) == TRITON
    assert "mem_fraction_static" in one.to_read_back
    assert off.configs == (OFF,)
    assert off.start_with is None
    assert "own" in off.why_apart


def test_group_when_one_shape_is_largest_starts_with_it():
    (one,) = group([CHAIN, config(4, 4, 16), DEEP_TREE], resolved(**TRITON) | {"v2-k4-s4-d16": TRITON})
    assert one.start_with == config(4, 4, 16)


def test_group_when_a_backend_differs_by_topk_makes_two_starts_and_says_why():
    settings = resolved(**TRITON)
    for chain in (CHAIN, LONG_CHAIN):
        settings[chain.config_id] = TRITON | {"attention_backend": "fa3"}
    trees, chains = group([TREE, CHAIN, DEEP_TREE, LONG_CHAIN], settings)
    assert trees.configs == (TREE, DEEP_TREE)
    assert chains.configs == (CHAIN, LONG_CHAIN)
    assert "`attention_backend` fa3 rather than triton" in chains.why_apart


def test_group_when_only_the_shapes_own_settings_differ_is_one_start():
    settings = {
        one.config_id: TRITON | {"speculative_eagle_topk": one.topk, "speculative_num_steps": one.num_steps}
        for one in (CHAIN, TREE)
    }
    assert len(group([CHAIN, TREE], settings)) == 1


def test_group_when_an_opened_knob_differs_is_two_starts():
    other = config(1, 2, 3, page_size=16)
    settings = {CHAIN.config_id: TRITON, other.config_id: TRITON}
    _, apart = group([CHAIN, other], settings)
    assert "`page_size` 16 rather than None" in apart.why_apart


def test_group_when_nothing_is_known_of_a_config_gives_it_its_own_start():
    groups = group([CHAIN, TREE, DEEP_TREE], {TREE.config_id: TRITON, DEEP_TREE.config_id: TRITON})
    assert [one.configs for one in groups] == [(CHAIN,), (TREE, DEEP_TREE)]
    assert "Nothing is known" in groups[0].why_apart


@given(st.lists(shapes(), min_size=1, max_size=9, unique=True), st.integers(0, 40))
def test_order_measures_each_shape_once_and_the_anchor_three_times(some, start):
    anchor = some[0]
    walk = order(some, anchor=anchor, start=start)
    assert walk[0] == walk[-1] == anchor
    assert sorted(shape for shape in walk if shape != anchor) == sorted(some[1:])
    assert walk.count(anchor) == min(3, len(some))


def test_order_over_all_pairs_of_starts_gives_each_shape_the_same_mean_place():
    some = [Shape(1, steps, steps + 1) for steps in range(1, 8)]
    places = dict.fromkeys(some[1:], 0)
    for start in range(2 * len(places)):
        walk = [shape for shape in order(some, anchor=some[0], start=start) if shape != some[0]]
        for place, shape in enumerate(walk):
            places[shape] += place
    assert len(set(places.values())) == 1


@pytest.mark.parametrize("shape", [(1, 2, 7), (0, 1, 2), (2, 1, 4)])
def test_impossible_shapes_are_told_so(shape):
    assert plugins.impossible(plugins.Shape(*shape))
