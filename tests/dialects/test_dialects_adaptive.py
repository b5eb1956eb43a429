"""Where adaptive steps start and what they choose from, held to each release's own class (`verdicts/adaptive.json`)."""

import json
from pathlib import Path

import pytest

from search.config import SpecConfig
from search.deployment import Deployment, Hardware
from search.dialects import for_release, known_releases

RECORDED = json.loads((Path(__file__).parents[2] / "verdicts" / "adaptive.json").read_text(encoding="utf-8"))
H200 = Hardware("NVIDIA H200", 90, 139.0, "nvlink")


def deployment(release: str) -> Deployment:
    return Deployment("/models/target", "/models/draft", "EAGLE3", 1, H200, release, architecture="LlamaForCausalLM")


@pytest.mark.parametrize("release", known_releases())
def test_own_table_holds_the_candidates_that_the_release_has(release):
    assert list(for_release(release).adaptive_steps) == RECORDED.get(release, {"table": []})["table"]


@pytest.mark.parametrize("release", [release for release, told in RECORDED.items() if "starts" in told])
def test_start_outside_the_candidates_is_moved_or_added_as_the_release_does(release):
    version = "v1" if release == "0.5.11" else "v2"
    for asked, (start, candidates) in RECORDED[release]["starts"].items():
        steps, _, first = asked.partition("@")
        config = SpecConfig.from_id(f"{version}-k1-s{first}-d{int(first) + 1}+adapt={steps}")
        ours = for_release(release).canonical(config, deployment(release))
        told = (ours.num_steps, ours.num_draft_tokens, dict(ours.extra)["adaptive"])
        assert told == (start, start + 1, "-".join(map(str, candidates))), asked


def test_own_table_is_sent_without_a_file_where_it_goes_by_batch_size():
    config = SpecConfig.from_id("v2-k1-s3-d4+adapt=auto")
    assert for_release("0.5.16").canonical(config, deployment("0.5.16")) == config
    args = for_release("0.5.16").launch_args(config, deployment("0.5.16"))
    assert "--speculative-adaptive" in args.flags and args.files == {}
    flat = for_release("0.5.12").canonical(config, deployment("0.5.12"))
    assert dict(flat.extra) == {"adaptive": "1-3-7"}


def test_start_outside_the_own_table_is_refused_by_name():
    outside = SpecConfig.from_id("v2-k1-s5-d6+adapt=auto")
    for release, refused in (("0.5.16", {"adaptive-steps"}), ("0.5.20", set())):
        rules = for_release(release).violations(outside, deployment(release))
        assert {rule.rule_id for rule in rules} == refused
