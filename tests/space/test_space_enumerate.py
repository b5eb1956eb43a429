"""Enumeration: every raw point ends as launchable, locked or dropped."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.config import SpecConfig, tree_bound
from search.deployment import Deployment, Hardware, Patch
from search.dialects import for_release, known_releases
from search.errors import UnsupportedKnob, UsageError
from search.space import Space, SpaceChoices, enumerate_space

SM120 = Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie")
H200 = Hardware("NVIDIA H200", 90, 139.0, "nvlink")
PATCHES = (
    Patch("kimi-eagle3", ("eagle3-kimi-k25",)),
    Patch("sm120", ("arf-sm120", "torch-symm-mem-sm120")),
)
KIMI = Deployment(
    "/models/kimi",
    "/models/draft",
    "EAGLE3",
    8,
    SM120,
    "0.5.9",
    architecture="KimiK25ForConditionalGeneration",
    patches=PATCHES,
)
SMALL = SpaceChoices(topk=(1, 2), num_steps=(2,), num_draft_tokens=(3, 7, 8, "tree"), allreduce_fusion=("off", "auto"))


def space(choices: SpaceChoices = SMALL, deployment: Deployment = KIMI) -> Space:
    return enumerate_space(choices, deployment, for_release(deployment.release))


def ids(configs) -> list[str]:
    return [config.config_id for config in configs]


def test_small_space_holds_exactly_the_launchable_configs_with_baselines_first():
    assert ids(space().configs) == [
        "off",
        "off+arf=auto",
        *("v1-k1-s2-d3", "v1-k1-s2-d3+arf=auto"),
        *("v1-k2-s2-d3", "v1-k2-s2-d3+arf=auto", "v1-k2-s2-d7", "v1-k2-s2-d7+arf=auto"),
        *("v2-k1-s2-d3", "v2-k1-s2-d3+arf=auto"),
    ]
    assert ids(space().baselines) == ["off", "off+arf=auto"]


def test_small_space_counts_what_it_left_out():
    # 2 off, and 2 workers x 2 topk x 4 token counts x 2 fusions.
    assert space().raw == 34
    # A chain has 4 spellings, the full tree of topk 2 has two; 8 tokens do not fit topk 2.
    assert space().counts == {"alias": 16, "tree-bound": 4}
    assert ids(entry.config for entry in space().locked) == [
        *("v2-k2-s2-d3", "v2-k2-s2-d3+arf=auto", "v2-k2-s2-d7", "v2-k2-s2-d7+arf=auto"),
    ]
    assert {rule.rule_id for entry in space().locked for rule in entry.rules} == {"v2-topk1-only"}


def test_order_does_not_depend_on_the_order_of_the_choices():
    turned = replace(
        SMALL,
        spec_version=tuple(reversed(SMALL.spec_version)),
        topk=(2, 1),
        num_draft_tokens=("tree", 8, 7, 3),
        allreduce_fusion=("auto", "off"),
    )
    assert space(turned).configs == space().configs


def test_dropped_points_say_why():
    reasons = {point.point: point for point in space().dropped}
    assert reasons["v1-k2-s2-d8"].words == "8 draft tokens, but topk 2 and 2 steps draft at most 7."
    assert reasons["v2-k1-s2-d7"].words == "The same launch as v2-k1-s2-d3."


def test_wasted_depth_is_dropped_with_its_rule():
    found = space(SpaceChoices(topk=(2,), num_steps=(4,), num_draft_tokens=(4, 5)))
    assert [point.reason for point in found.dropped] == ["wasted-depth", "wasted-depth"]
    assert found.dropped[0].rule is not None
    assert ids(found.configs) == ["off", "v1-k2-s4-d5"]
    assert ids(entry.config for entry in found.locked) == ["v2-k2-s4-d5"]


def test_stock_kimi_on_0_5_9_can_launch_nothing_but_off():
    assert ids(space(deployment=replace(KIMI, patches=())).configs) == ["off"]


def test_impossible_numbers_are_dropped_as_invalid_with_the_rule_in_words():
    found = space(SpaceChoices(spec_version=("v1",), topk=(0, 2), num_steps=(2,), num_draft_tokens=(1,)))
    assert found.configs == ()
    assert [point.reason for point in found.dropped] == ["invalid", "invalid"]
    assert "`topk >= 1` must hold, but got 0" in found.dropped[0].words


def test_value_without_a_spelling_stops_the_enumeration():
    with pytest.raises(UnsupportedKnob, match="`attention_backend` is one of"):
        space(replace(SMALL, optional={"attention_backend": ("triton", "fa9")}))


def test_patch_that_lifts_an_unknown_rule_is_refused_naming_the_nearest():
    typo = replace(KIMI, patches=(Patch("sm120-fusion", ("arf-sm-120",)),))
    with pytest.raises(UsageError, match=r"patch `sm120-fusion` lifts `arf-sm-120`.*Did you mean `arf-sm120`"):
        space(deployment=typo)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"topk": ()}, "`topk` has none"),
        ({"optional": {"page_size": ()}}, "`page_size` has none"),
        ({"optional": {"pagesize": (1,)}}, "but got `pagesize`"),
    ],
)
def test_choices_without_values_or_of_unknown_knobs_are_refused(choices, words):
    with pytest.raises(UsageError, match=words):
        SpaceChoices(**choices)


CHOICES = st.builds(
    SpaceChoices,
    topk=st.sets(st.integers(1, 5), min_size=1).map(tuple),
    num_steps=st.sets(st.integers(1, 5), min_size=1).map(tuple),
    num_draft_tokens=st.sets(st.integers(1, 20) | st.just("tree"), min_size=1).map(tuple),
    allreduce_fusion=st.sampled_from([("off",), ("off", "auto"), ("auto", "trtllm")]),
    optional=st.sampled_from(
        [{}, {"page_size": (1, 16)}, {"attention_backend": ("triton", "flashmla"), "draft_attention_backend": ("fa3",)}]
    ),
)


@settings(max_examples=60)
@given(
    choices=CHOICES,
    release=st.sampled_from(known_releases()),
    hardware=st.sampled_from([SM120, H200]),
    patches=st.sampled_from([(), PATCHES[1:]]),
)
def test_every_raw_point_is_sorted_once_and_every_config_is_canonical_legal_and_unique(
    choices, release, hardware, patches
):
    deployment = replace(KIMI, release=release, hardware=hardware, patches=patches, architecture="")
    dialect = for_release(release)
    found = enumerate_space(choices, deployment, dialect)
    assert found.raw == len(found.configs) + len(found.locked) + len(found.dropped)
    for config in found.configs:
        assert dialect.violations(config, deployment) == ()
        assert dialect.canonical(config, deployment) == config
        assert SpecConfig.from_id(config.config_id) == config
        assert found.explain(config).launchable
        if config.speculates:
            assert config.num_draft_tokens <= tree_bound(topk=config.topk, num_steps=config.num_steps)
    for entry in found.locked:
        assert entry.rules
        assert all(rule.locks for rule in entry.rules)
    everything = ids(found.configs) + ids(entry.config for entry in found.locked)
    assert len(set(everything)) == len(everything)


def test_a_hundred_thousand_points_are_sorted():
    large = SpaceChoices(
        topk=tuple(range(1, 11)),
        num_steps=tuple(range(1, 11)),
        num_draft_tokens=tuple(range(2, 64)),
        allreduce_fusion=("off", "auto"),
        optional={"attention_backend": ("triton", "flashinfer"), "page_size": (1, 16)},
    )
    found = space(large)
    assert found.raw == 99_208
    assert len(found.configs) + len(found.locked) + len(found.dropped) == 99_208


def test_naive_grid_is_118_configs_40_duplicates_and_34_impossible_trees():
    grid = SpaceChoices(
        spec_version=("v1",), topk=(1, 2, 4, 8), num_steps=tuple(range(1, 9)), num_draft_tokens=(2, 4, 8, 16, 32, 64)
    )
    found = space(grid)
    assert found.raw == 192
    assert (found.counts["alias"], found.counts["tree-bound"]) == (40, 34)
    # Of the 118 others, these would run but reach fewer steps than they say: fewer steps are the same tree.
    assert found.counts["wasted-depth"] == 39
    assert len(found.configs) == 79


def test_plain_flags_are_knobs_of_the_space():
    choices = replace(SMALL, topk=(1,), allreduce_fusion=("off",), flags={"chunked-prefill-size": (2048, 4096)})
    assert ids(space(choices).baselines) == ["off+chunked_prefill_size=2048", "off+chunked_prefill_size=4096"]
    assert space(choices).raw == 18


def test_patch_for_another_release_lifts_nothing_here_and_is_no_mistake():
    newer = replace(KIMI, release="0.5.23")
    found = space(deployment=newer)
    assert {rule.rule_id for entry in found.locked for rule in entry.rules} == {"v1-worker-gone"}
    assert "v2-k2-s2-d7+arf=auto" in ids(found.configs)


def test_flag_that_no_launch_could_be_given_stops_the_enumeration():
    with pytest.raises(UsageError, match=r"holds `cuda-graph-bs`, but SGLang 0\.5\.23 has no such flag"):
        space(deployment=replace(KIMI, release="0.5.23", server_args={"cuda-graph-bs": (1, 2)}))
    with pytest.raises(UsageError, match="Did you mean `attention-backend`"):
        space(deployment=replace(KIMI, patches=(), server_args={"atention-backend": "triton"}))


def test_patched_tree_may_have_flags_of_its_own():
    patched = replace(KIMI, server_args={"my-new-flag": 3})
    opened = replace(SMALL, topk=(1,), allreduce_fusion=("off",), flags={"my-other-flag": (1, 2)})
    assert "off+my_other_flag=2" in ids(space(opened, patched).configs)
    with pytest.raises(UnsupportedKnob, match="no knob or flag `my_other_flag`"):
        space(opened, replace(KIMI, patches=()))


def test_raw_points_do_not_multiply_by_unopened_knobs():
    assert SpaceChoices().raw == 3
    assert [point.label for point in SpaceChoices(spec_version=("off",)).points()] == ["off"]


NGRAM = Deployment("/models/target", "", "NGRAM", 1, H200, "0.5.16", architecture="LlamaForCausalLM")


def test_trie_takes_any_number_of_tokens_and_has_no_full_size():
    choices = SpaceChoices(spec_version=("off", "v2"), topk=(1, 2), num_steps=(1, 2), num_draft_tokens=(4, 64))
    found = space(choices, NGRAM)
    assert ids(found.configs) == ["off", "v2-k1-s2-d4", "v2-k1-s2-d64", "v2-k2-s2-d4", "v2-k2-s2-d64"]
    assert found.counts == {"ngram-depth": 4}
    with pytest.raises(UsageError, match="Name numbers, such as 12"):
        space(SpaceChoices(topk=(10,), num_steps=(18,)), NGRAM)
