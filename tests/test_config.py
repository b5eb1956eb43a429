"""SpecConfig: tree arithmetic, ids, and refusals."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.config import OPTIONAL_KNOBS, SpecConfig, SpecVersion, check_tree, simplicity, tree_bound
from search.errors import ImpossibleTree, InvalidConfig


def drafted_nodes(*, topk: int, num_steps: int) -> int:
    """Draft a tree as the server does and count its nodes, root included."""
    nodes = 1
    beams = 1
    for _ in range(num_steps):
        proposed = [(beam, child) for beam in range(beams) for child in range(topk)]
        nodes += len(proposed)
        beams = min(topk, len(proposed))
    return nodes


@st.composite
def configs(draw) -> SpecConfig:
    fusion = draw(st.sampled_from(["off", "auto", "trtllm"]))
    extra = draw(
        st.dictionaries(
            st.sampled_from(sorted(OPTIONAL_KNOBS)), st.sampled_from(["triton", "torch-symm-mem", "fa3", 16, 64])
        )
    )
    version = draw(st.sampled_from(list(SpecVersion)))
    if version is SpecVersion.OFF:
        return SpecConfig(version, allreduce_fusion=fusion, extra=tuple(extra.items()))
    topk, steps = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    tokens = draw(st.integers(2, tree_bound(topk=topk, num_steps=steps)))
    return SpecConfig(version, topk, steps, tokens, fusion, tuple(extra.items()))


@pytest.mark.parametrize(
    ("topk", "num_steps", "nodes"), [(1, 2, 3), (2, 1, 3), (2, 2, 7), (4, 1, 5), (4, 3, 37), (8, 5, 265)]
)
def test_tree_bound_is_what_the_server_was_seen_to_hold(topk, num_steps, nodes):
    assert tree_bound(topk=topk, num_steps=num_steps) == nodes


@given(topk=st.integers(1, 12), num_steps=st.integers(1, 12))
def test_tree_bound_counts_the_nodes_of_a_drafted_tree(topk, num_steps):
    assert tree_bound(topk=topk, num_steps=num_steps) == drafted_nodes(topk=topk, num_steps=num_steps)


@pytest.mark.parametrize("algorithm", ["", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE"])
def test_tree_at_its_bound_is_drafted_and_one_past_it_refused(algorithm):
    check_tree(SpecConfig("v1", 2, 2, 7), algorithm)
    with pytest.raises(ImpossibleTree, match=r"= 7` must hold .* but got 8"):
        check_tree(SpecConfig("v1", 2, 2, 8), algorithm)


@given(topk=st.integers(1, 12), steps=st.integers(1, 12), tokens=st.integers(2, 4096))
def test_trie_has_room_for_any_number_of_tokens(topk, steps, tokens):
    check_tree(SpecConfig("v2", topk, steps, tokens), "NGRAM")
    assert SpecConfig.from_id(f"v2-k{topk}-s{steps}-d{tokens}").verify_tokens == tokens


def test_chain_may_name_any_number_of_draft_tokens():
    assert SpecConfig("v2", 1, 2, 9).config_id == "v2-k1-s2-d9"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"num_steps": 3}, ["`topk`", "`num_draft_tokens`"]),
        ({"topk": 2, "num_steps": 3}, ["`num_draft_tokens`"]),
        ({"num_draft_tokens": 4}, ["`topk`", "`num_steps`"]),
    ],
)
def test_part_of_the_trio_is_refused_naming_what_is_missing(given, missing):
    with pytest.raises(InvalidConfig) as error:
        SpecConfig.from_params({"spec_version": "v1"} | given)
    named = str(error.value).partition("missing: ")[2].partition(" Give ")[0]
    assert named == " and ".join(missing) + "."


def test_off_with_tree_knobs_is_refused_but_params_may_carry_them():
    with pytest.raises(InvalidConfig, match="`off` has no tree knobs"):
        SpecConfig("off", topk=2)
    assert SpecConfig.from_params({"spec_version": "off", "topk": 2, "num_steps": 2}) == SpecConfig("off")


@pytest.mark.parametrize("params", [{"topk": 0}, {"num_steps": 0}, {"num_draft_tokens": 1}])
def test_values_below_the_least_are_refused(params):
    with pytest.raises(InvalidConfig, match="must hold, but got"):
        SpecConfig.from_params({"spec_version": "v1", "topk": 2, "num_steps": 2, "num_draft_tokens": 4} | params)


@pytest.mark.parametrize("value", ["two", 2.5, "", True, "inf", "nan"])
def test_tree_knob_that_is_no_whole_number_is_refused(value):
    with pytest.raises(InvalidConfig, match="`topk` is a whole number"):
        SpecConfig.from_params({"spec_version": "v1", "topk": value, "num_steps": 2, "num_draft_tokens": 4})


def test_tree_knobs_from_a_table_may_be_floats_or_text():
    config = SpecConfig.from_params({"spec_version": "v1", "topk": 2.0, "num_steps": "2", "num_draft_tokens": 7})
    assert config == SpecConfig("v1", 2, 2, 7)


@pytest.mark.parametrize("text", ["", "v3-k1-s2-d3", "v1-k2-s2", "off+", "v1-k2-s2-d7+arf", "v1-k2-s2-d7 ", "x"])
def test_text_that_is_no_id_is_refused(text):
    with pytest.raises(InvalidConfig, match="A config id reads like"):
        SpecConfig.from_id(text)


@pytest.mark.parametrize(
    ("config", "config_id", "family"),
    [
        (SpecConfig("off"), "off", "off"),
        (SpecConfig("off", allreduce_fusion="auto"), "off+arf=auto", "off"),
        (SpecConfig("v2", 1, 2, 3), "v2-k1-s2-d3", "v2 chain"),
        (SpecConfig("v1", 4, 3, 16, "auto"), "v1-k4-s3-d16+arf=auto", "v1 tree"),
        (
            SpecConfig("v1", 2, 2, 7, extra=(("page_size", 16), ("attention_backend", "fa3"))),
            "v1-k2-s2-d7+attn=fa3+page=16",
            "v1 tree",
        ),
    ],
)
def test_id_and_family_read_as_documented(config, config_id, family):
    assert (config.config_id, config.family) == (config_id, family)


@given(configs())
def test_id_round_trips(config):
    assert SpecConfig.from_id(config.config_id) == config


@given(configs())
def test_params_round_trip(config):
    assert SpecConfig.from_params(config.params) == config


@given(configs(), configs())
def test_ids_are_unique(one, other):
    assert (one == other) == (one.config_id == other.config_id)


def test_config_survives_pickling():
    config = SpecConfig("v1", 4, 3, 16, "auto", (("page_size", 16),))
    assert pickle.loads(pickle.dumps(config)) == config


def test_simplicity_prefers_off_then_fewer_tokens_then_fewer_knobs():
    ids = ["v1-k2-s2-d7", "off+arf=auto", "v2-k1-s2-d3+arf=auto", "v2-k1-s2-d3", "off"]
    ranked = sorted(map(SpecConfig.from_id, ids), key=simplicity)
    assert [c.config_id for c in ranked] == [
        "off",
        "off+arf=auto",
        "v2-k1-s2-d3",
        "v2-k1-s2-d3+arf=auto",
        "v1-k2-s2-d7",
    ]


def nodes_of_a_drafted_tree(topk: int, num_steps: int) -> int:
    """Draft as SGLang does: each step expands the best `topk` of the last step's nodes by `topk` children each."""
    drafted = ["root"]
    beams = ["root"]
    for step in range(num_steps):
        children = [f"{beam}.{child}" for beam in beams for child in range(topk)]
        drafted += children
        beams = sorted(children, key=lambda name: hash((step, name)))[:topk]
    assert len(set(drafted)) == len(drafted)
    return len(drafted)


@pytest.mark.parametrize("topk", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 5])
def test_tree_bound_is_the_count_of_nodes_of_a_drafted_tree(topk, num_steps):
    assert tree_bound(topk=topk, num_steps=num_steps) == nodes_of_a_drafted_tree(topk, num_steps)


@pytest.mark.parametrize("value", ["a/b", "a b", "a+b", "a=b", ""])
def test_knob_value_that_cannot_stand_in_an_id_is_refused(value):
    with pytest.raises(InvalidConfig, match="stands in the config id"):
        SpecConfig("off", extra=(("tokenizer_path", value),))


def test_plain_flags_read_back_from_their_id():
    config = SpecConfig("off", extra=(("chunked_prefill_size", 4096), ("enable_mixed_chunk", True), ("kv", "fp8_e4m3")))
    assert config.config_id == "off+chunked_prefill_size=4096+enable_mixed_chunk=True+kv=fp8_e4m3"
    assert SpecConfig.from_id(config.config_id) == config
