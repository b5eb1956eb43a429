"""The plan: the space in numbers and plain text."""

import json

from search.config import SpecConfig
from search.deployment import Deployment, Hardware, Patch
from search.dialects import for_release
from search.space import LockedConfig, Space, SpaceChoices, SpaceSummary, enumerate_space

DEPLOYMENT = Deployment(
    "/models/kimi",
    "/models/draft",
    "EAGLE3",
    8,
    Hardware("NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 95.0, "pcie"),
    "0.5.9",
    architecture="KimiK25ForConditionalGeneration",
    patches=(Patch("kimi-eagle3", ("eagle3-kimi-k25",)),),
)
CHOICES = SpaceChoices(topk=(1, 2), num_steps=(3,), num_draft_tokens=(3, 20, "tree"), allreduce_fusion=("off", "auto"))
SUMMARY = SpaceSummary.of(enumerate_space(CHOICES, DEPLOYMENT, for_release("0.5.9")))


def test_numbers_add_up_and_name_every_reason():
    assert SUMMARY.raw == 26
    assert SUMMARY.launchable == ("off", "v1-k1-s3-d4", "v1-k2-s3-d11", "v2-k1-s3-d4")
    assert SUMMARY.baselines == ("off",)
    assert SUMMARY.aliases == 8
    assert {reason.rule_id: reason.count for reason in SUMMARY.dropped} == {
        "alias": 8,
        "tree-bound": 4,
        "wasted-depth": 4,
    }
    assert {reason.rule_id: reason.count for reason in SUMMARY.locked_by} == {"arf-sm120": 5, "v2-topk1-only": 2}
    assert LockedConfig("v2-k2-s3-d11+arf=auto", ("v2-topk1-only", "arf-sm120")) in SUMMARY.locked
    assert SUMMARY.lifted_by == (("kimi-eagle3", ("eagle3-kimi-k25",)),)
    assert SUMMARY.raw == len(SUMMARY.launchable) + len(SUMMARY.locked) + len(SUMMARY.dropped_points)


def test_text_says_what_was_dropped_and_what_would_unlock_the_rest():
    text = SUMMARY.render()
    assert text.startswith("space for SGLang 0.5.9: 26 raw points\n  4 launchable, 1 of them baselines")
    assert "  6 locked: understood, but refused by this release or GPU" in text
    assert "  16 dropped, 8 of them aliases of another point" in text
    assert "patch kimi-eagle3 lifts eagle3-kimi-k25" in text
    assert "v2-topk1-only: Spec v2 currently only supports topk = 1 for speculative decoding." in text
    assert "source: sglang 0.5.9 srt/server_args.py:2381" in text
    assert "unlocked by: SGLang 0.5.13" in text
    assert "v1-k2-s3-d11+arf=auto" not in text.partition("locked:")[0]


def test_listing_names_every_config_and_point():
    text = SUMMARY.render(listed=True)
    assert "\n  v1-k2-s3-d11\n" in text
    assert "  v2-k2-s3-d11+arf=auto  v2-topk1-only, arf-sm120" in text
    assert "  v1-k2-s3-d20  tree-bound" in text


def test_json_is_json_and_holds_the_same():
    data = json.loads(json.dumps(SUMMARY.to_json()))
    assert data["raw"] == 26
    assert data["launchable"] == ["off", "v1-k1-s3-d4", "v1-k2-s3-d11", "v2-k1-s3-d4"]
    assert data["locked"][0]["rule_ids"] == ["arf-sm120"]


def test_recorded_space_has_a_plan_too():
    summary = SpaceSummary.of(Space.recorded([SpecConfig("off"), SpecConfig("v2", 1, 2, 3)]))
    assert summary.render().startswith("space: 2 raw points\n  2 launchable, 1 of them")
