"""What a study file may open: optional knobs, plain server flags, algorithms."""

from pathlib import Path

import pytest

from search.dialects import for_release
from search.errors import UsageError
from search.spec.file import find_study, parse_study

STUDY = """
study: lab
model: {target: /m, draft: /d, algorithm: EAGLE3, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine: {release: 0.5.16}
space:
  spec_version: [v2]
  topk: [1]
  num_steps: [3]
  num_draft_tokens: [tree]
"""


def study(text: str = STUDY):
    return parse_study(text, name="lab.yaml")


def ids(spec) -> list[str]:
    return [config.config_id for config in spec.space_of(for_release(spec.engine.release)).configs]


def test_knobs_and_flags_are_opened_side_by_side():
    spec = study(
        STUDY
        + "  knobs: {overlap: [on, off], adaptive: [off, 1-3-7]}\n"
        + "  flags: {chunked-prefill-size: [2048], enable-mixed-chunk: [false, true], schedule-conservativeness: [0.5, 1.0]}\n"
    )
    found = ids(spec)
    assert "off+chunked_prefill_size=2048" in found
    assert "off+chunked_prefill_size=2048+enable_mixed_chunk=True+overlap=off+schedule_conservativeness=0.5" in found
    assert "v2-k1-s3-d4+adapt=1-3-7+chunked_prefill_size=2048+overlap=off" in found
    # Mixed chunks are turned off under speculation, and 1.0 is what an absent flag means.
    assert not any(name.startswith("v2") and "mixed" in name for name in found)
    assert not any("conservativeness=1.0" in name for name in found)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("algorithm: EAGLE3", "algorithm: DSPARK", "DSPARK is not driven by this project; missing: a space for its gamma"),
        ("algorithm: EAGLE3", "algorithm: UNO", "missing: a LoRA path per launch"),
        ("algorithm: EAGLE3", "algorithm: NGRAM", "NGRAM drafts from the text itself, without a model"),
        ("draft: /d, ", "", "EAGLE3 needs a draft model"),
        ("  topk: [1]", "  topk: [1]\n  knobs: {page_sizes: [16]}", "an optional knob is one of adaptive, allreduce_transport"),
        ("  topk: [1]", "  topk: [1]\n  flags: {--page: [16]}", "written without its leading dashes"),
    ],
)  # fmt: skip
def test_mistake_is_named_with_the_way_out(old, new, words):
    assert old in STUDY
    with pytest.raises(UsageError) as error:
        study(STUDY.replace(old, new))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("page-size: [16]", "`page_size` is a knob, but stands among the plain server flags"),
        ("enable-symm-mem: [true]", "because the knob `allreduce_transport` sets it"),
        ("disable-overlap-schedule: [true]", "because the knob `spec_version` or `overlap` sets it"),
        ("chunked-prefil-size: [2048]", "Did you mean `chunked-prefill-size`?"),
        ("cuda-graph-bs-decoded: [8]", "Did you mean `cuda-graph-bs-decode`?"),
    ],
)
def test_flag_that_cannot_be_opened_is_refused_by_name(flags, words):
    spec = study(STUDY + f"  flags: {{{flags}}}\n")
    with pytest.raises(UsageError) as error:
        ids(spec)
    assert words in str(error.value)


def test_ngram_needs_no_draft_and_has_its_own_width_and_depth():
    text = STUDY.replace("draft: /d, algorithm: EAGLE3", "algorithm: NGRAM")
    spec = study(text.replace("topk: [1]", "topk: [10]").replace("[3]", "[18]").replace("[tree]", "[12, 16]"))
    assert ids(spec) == ["off", "v2-k10-s18-d12", "v2-k10-s18-d16"]


def test_more_tokens_than_an_eagle_tree_holds_are_known_to_ngram_and_refused_to_eagle():
    wide = STUDY.replace("topk: [1]", "topk: [4]").replace("[tree]", "[64]") + "known: [v2-k4-s3-d64]\n"
    spec = study(wide.replace("draft: /d, algorithm: EAGLE3", "algorithm: NGRAM"))
    assert [config.config_id for config in spec.known_configs] == ["v2-k4-s3-d64"]
    assert ids(spec) == ["off", "v2-k4-s3-d64"]
    with pytest.raises(UsageError, match=r"`known.0`: `num_draft_tokens <= .* = 37` must hold"):
        study(wide)
    asked = wide.replace(
        "known: [v2-k4-s3-d64]", "questions: {wide: {config: v2-k4-s3-d64, at: [1], against: [v2-k1-s3-d4]}}"
    )
    with pytest.raises(UsageError, match=r"`questions.wide`: `num_draft_tokens <= .* = 37` must hold"):
        study(asked)


@pytest.mark.parametrize(
    ("release", "launchable", "locked", "rule"),
    [
        ("0.5.9", 172, 150, "v2-topk1-only"),
        ("0.5.12.post1", 172, 150, "v2-topk1-only"),
        ("0.5.13.post1", 162, 160, "v1-worker-gone"),
        ("0.5.23", 162, 160, "v1-worker-gone"),
    ],
)
def test_kimi_k25_loses_its_trees_on_v2_before_0_5_13_and_its_v1_worker_after(release, launchable, locked, rule):
    text = (
        find_study("kimi-k25", here=Path(__file__).parent).read_text().replace("release: 0.5.9", f"release: {release}")
    )
    space = study(text).space_of(for_release(release))
    assert (len(space.configs), len(space.locked), len(space.dropped)) == (launchable, locked, 580)
    assert {found.rule_id for entry in space.locked for found in entry.rules} == {rule}
