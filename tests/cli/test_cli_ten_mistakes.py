"""Tried as a new user would: a study file with ten different mistakes, ten readable answers."""

import pytest
from typer.testing import CliRunner

from search.cli.app import app

TEN = """\
study: My Lab
modle: {}
model: {target: /models/target, draft: /models/draft, algorithm: EAGEL3, tp: 2}
hardware: {gpus: eight, kind: H200, sm: 90, memory_gib: 141, links: nvlnk}
engine:
  release: 0.5
  server_args: {--tp-size: 8}
space:
  spec_version: [v2]
  topk: [0]
  num_steps: [2]
  num_draft_tokens: [3, tre]
known: [v2-k2-s2-d9]
watch: 30
"""
ANSWERS = """\
lab.yaml:1: `study`: should be lower-case letters, digits, `.`, `_` or `-`, beginning with a letter or digit, but found \
'My Lab' (str).
lab.yaml:2: `modle`: is not a key of a study file; did you mean `model`?
lab.yaml:3: `model.algorithm`: should be 'EAGLE3', 'EAGLE', 'NEXTN', 'STANDALONE', 'NGRAM' or 'DFLASH', but found \
'EAGEL3' (str). Did you mean 'EAGLE3'?
lab.yaml:4: `hardware.gpus`: should be a whole number, but found 'eight' (str).
lab.yaml:4: `hardware.links`: should be 'pcie' or 'nvlink', but found 'nvlnk' (str). Did you mean 'nvlink'?
lab.yaml:6: `engine.release`: should be text, but found 0.5 (float). Write it in quotes: "0.5".
lab.yaml:7: `engine.server_args.--tp-size`: a server flag is written without its leading dashes, such as `tp-size`, but \
got '--tp-size'.
lab.yaml:10: `space.topk.0`: should be at least 1, but found 0 (int).
lab.yaml:12: `space.num_draft_tokens.1`: should be a whole number or 'tree', but found 'tre' (str). Did you mean 'tree'?
lab.yaml:13: `known.0`: `num_draft_tokens <= 1 + topk + (num_steps - 1) * topk**2 = 7` must hold for topk 2 and \
num_steps 2, but got 9. Lower `num_draft_tokens`, or raise `num_steps` or `topk`.
lab.yaml:14: `watch`: should be a list, but found 30 (int). Write it in brackets: [30].
"""
FINE = """\
study: lab
model: {target: /models/target, draft: /models/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 1}
hardware: {gpus: 1, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine: {release: 0.5.11}
space: {spec_version: [v1, v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree]}
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plans a study file with this text; returns the exit code and what was said on stderr."""
    monkeypatch.chdir(tmp_path)

    def plan(text):
        (tmp_path / "lab.yaml").write_text(text)
        done = CliRunner().invoke(app, ["plan", "--study", "lab.yaml"])
        assert "Traceback" not in done.output
        return done.exit_code, done.stderr.replace(str(tmp_path) + "/", "")

    return plan


def test_every_mistake_of_a_file_gets_its_own_readable_line(plan):
    code, said = plan(TEN)
    assert code == 2
    assert said == ANSWERS


def test_file_without_a_mistake_is_planned(plan):
    assert plan(FINE) == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "tp: 1",
            "tp: 2",
            "lab.yaml:3: `hardware.gpus`: `hardware.gpus` must be a multiple of `model.tp`, but got 1 and 2.",
        ),
        (
            "draft: /models/draft, ",
            "",
            "lab.yaml:2: `model`: EAGLE3 needs a draft model: name its path or id as `draft`, or write `algorithm: EAGLE` to draft with the target's own MTP layers.",
        ),
        ("EAGLE3", "DSPARK", "lab.yaml:2: `model.algorithm`: DSPARK is not driven by this project; missing: a space"),
        ("study: lab", "study: lab\nwatch: [300]", "lab.yaml:5: `engine.max_running_requests`: "),
        ("study: lab", "study: lab\nstudy: other", "lab.yaml:2: `study`: is given twice."),
        ("engine:", "\tengine:", "lab.yaml:4: not YAML: found character '\\t' that cannot start any token."),
        ("0.5.11", "0.5.8", "SGLang 0.5.8 is older than the oldest known one, 0.5.9"),
        ("0.5.11", "0.5.12.post2", "SGLang 0.5.12.post2 is between known ones, and flags change between releases."),
        (
            "0.5.11}",
            "0.5.11, patches: [{name: p, lifts: [v2-topk1-onli]}]}",
            "patch `p` lifts `v2-topk1-onli`, which is none of them. Did you mean `v2-topk1-only`?",
        ),
        (
            "0.5.11}",
            "0.5.11, server_args: {tp-size: 8}}",
            "`server_args` may not hold `tp-size`, because the study's `tp` sets it; got 8. Set it there",
        ),
        (
            "0.5.11}",
            "0.5.11, server_args: {mem-fraction: 0.8}}",
            "`server_args` holds `mem-fraction`, but the parser of SGLang 0.5.11 has no such flag. Did you mean",
        ),
        (
            "[tree]}",
            "[tree], knobs: {page_sise: [1]}}",
            "lab.yaml:5: `space.knobs`: an optional knob is one of adaptive,",
        ),
        ("[tree]}", "[tree], knobs: {attention_backend: [fa9]}}", "`attention_backend` is one of auto, triton,"),
        ("[tree]}", "[tree], flags: {schedule-pol: [lpm]}}", "Did you mean `schedule-policy`?"),
        (
            "study: lab",
            "study: lab\nquestions: {q: {config: v2-k1-s2-d3, against: off, at: [1]}}",
            'lab.yaml:2: `questions.q.against`: should be a list, but found False (bool). Write it in brackets: ["off"].',
        ),
        (
            "gpus: 1",
            'gpus: "1"',
            "lab.yaml:3: `hardware.gpus`: should be a whole number, but found '1' (str). Write it without quotes.",
        ),
        ("study: lab", "study: lab\nsimulation: {physics: kimi}", "A parameter set is one of generic, kimi-k25-story,"),
    ],
)
def test_one_mistake_gets_one_readable_answer(plan, before, after, said):
    assert before in FINE
    code, line = plan(FINE.replace(before, after, 1))
    assert code == 2
    assert said in line and line.count("\n") == 1
