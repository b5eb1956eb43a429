"""Finding a config in a space, and explaining why it is not there."""

import pytest

from search.config import SpecConfig
from search.deployment import Deployment, Hardware
from search.dialects import for_release
from search.space import Space, SpaceChoices, enumerate_space

DEPLOYMENT = Deployment(
    "/models/target",
    "/models/draft",
    "EAGLE3",
    8,
    Hardware("NVIDIA H200", 90, 139.0, "nvlink"),
    "0.5.9",
    architecture="LlamaForCausalLM",
)
CHOICES = SpaceChoices(
    topk=(1, 2),
    num_steps=(2, 3),
    num_draft_tokens=(4, "tree"),
    optional={"attention_backend": ("triton", "flashinfer")},
)
SPACE = enumerate_space(CHOICES, DEPLOYMENT, for_release("0.5.9"))


def explain(config_id: str, space: Space = SPACE):
    return space.explain(SpecConfig.from_id(config_id))


def test_find_goes_through_the_canonical_config():
    asked = SpecConfig.from_id("v2-k1-s2-d9+attn=triton")
    assert SPACE.find(asked) == SpecConfig.from_id("v2-k1-s2-d3+attn=triton")
    assert SPACE.find(SpecConfig.from_id("v2-k1-s5-d6+attn=triton")) is None


def test_launchable_config_needs_no_words():
    explanation = explain("v1-k2-s2-d7+attn=triton")
    assert (explanation.launchable, explanation.legal, explanation.lines) == (True, True, ())


def test_locked_config_is_explained_by_its_rule_and_what_unlocks_it():
    explanation = explain("v2-k2-s2-d7+attn=triton")
    assert [rule.rule_id for rule in explanation.rules] == ["v2-topk1-only"]
    assert not explanation.legal
    assert explanation.unchosen == ()
    assert "Spec v2 currently only supports topk = 1" in explanation.lines[0]
    assert "Unlocked by SGLang 0.5.13" in explanation.lines[0]


@pytest.mark.parametrize(
    ("config_id", "line"),
    [
        ("v1-k4-s2-d21+attn=triton", "`topk` 4 is not among the study's 1, 2."),
        ("v1-k2-s3-d5+attn=triton", "`num_draft_tokens` 5 is not among the study's 4, tree."),
        ("v1-k2-s2-d7+attn=fa3", "`attention_backend` fa3 is not among the study's triton, flashinfer."),
        ("off+arf=auto+attn=triton", "`allreduce_fusion` auto is not among the study's off."),
        ("off+attn=triton+page=16", "`page_size` 16 is not among the study's knobs."),
        ("off", "The study opens `attention_backend` without the default that this config leaves in place."),
    ],
)
def test_legal_config_outside_the_choices_names_the_knob(config_id, line):
    explanation = explain(config_id)
    assert explanation.legal
    assert not explanation.launchable
    if "k4" in config_id:
        assert line in explanation.lines
    else:
        assert explanation.lines == (line,)


def test_recorded_space_is_what_was_recorded_in_launch_order():
    names = ["v2-k1-s2-d3", "off+arf=auto", "v1-k2-s2-d7", "off", "off"]
    recorded = Space.recorded(map(SpecConfig.from_id, names))
    assert [c.config_id for c in recorded.configs] == ["off", "off+arf=auto", "v1-k2-s2-d7", "v2-k1-s2-d3"]
    assert explain("v1-k4-s3-d16", recorded).unchosen == ("It was not recorded.",)
    assert explain("off", recorded).launchable


def test_named_config_outside_the_choices_joins_unless_a_rule_refuses_it():
    outside, locked, inside = (SpecConfig.from_id(i) for i in ("v1-k2-s5-d8", "v2-k2-s2-d7", "off+attn=triton"))
    joined = SPACE.including([outside, locked, inside])
    assert {c.config_id for c in joined.configs} - {c.config_id for c in SPACE.configs} == {"v1-k2-s5-d8"}
    assert joined.find(outside) == outside
    assert joined.raw == len(joined.configs) + len(joined.locked) + len(joined.dropped)
