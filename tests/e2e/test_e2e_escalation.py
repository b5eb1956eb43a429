"""A second phase in another engine, on two fake SGLang releases: real processes, the command line, one database."""

import json
import sys
from pathlib import Path

import pytest
from fake_servers import servers_of
from typer.testing import CliRunner

from search.cli.app import app
from search.storage.store import Store
from search.testing import install_fake_sglang

pytestmark = pytest.mark.slow

STUDY = """
study: lab
model: {{target: ./target, draft: ./draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}}
hardware: {{gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}}
engine:
  release: 0.5.11
  python: {python}
  env: {{PYTHONPATH: "{first}", FAKE_SGLANG_SPEED: "5"{outputs}}}
  server_args: {{attention-backend: triton}}
  max_running_requests: 64
  boot_ceiling_minutes: 1
space: {{spec_version: [v1, v2], topk: [1], num_steps: [2], num_draft_tokens: [tree]}}
objectives: {{latency: 1, throughput: 8}}
questions:
  chain: {{config: v2-k1-s2-d3, against: ["off"], at: [1]}}
escalation:
  when: {{question: chain, ends: [{ends}]}}
  engine:
    release: 0.5.13
    env: {{PYTHONPATH: "{second}", FAKE_SGLANG_SPEED: "10"{outputs}}}
  space: {{spec_version: [v2], topk: [2], num_steps: [2]}}
  known: [v2-k2-s2-d7]
  budget: {{launches: 2, closing: false}}
measure: {{output_tokens: 32, requests_at_latency: 8, requests_per_worker: 2, repeats: 2}}
budget: {{launches: 2, closing: false}}
sampler: grid
"""


@pytest.fixture
def run(tmp_path, monkeypatch, one_h200):
    """Runs the study of two releases; says what it printed."""

    def run(*, ends, outputs=True):
        sites = [install_fake_sglang(tmp_path / release, release=release) for release in ("0.5.11", "0.5.13")]
        for name in ("target", "draft"):
            (tmp_path / name).mkdir()
        text = STUDY.format(
            python=sys.executable, first=sites[0], second=sites[1], ends=ends,
            outputs=', FAKE_SGLANG_OUTPUTS: "1"' if outputs else "",
        )  # fmt: skip
        (tmp_path / "lab.yaml").write_text(text)
        monkeypatch.chdir(tmp_path)
        return CliRunner().invoke(app, ["run", "--study", "./lab.yaml", "--executor", "inline"])

    return run


def launches_of(study):
    with Store("trials.db", read_only=True) as store:
        return store.launches(study), store.study(study)


def test_escalation_runs_in_its_own_engine_with_its_own_fingerprint_when_the_question_ends_so(run, tmp_path):
    # Two starts measure no scatter between starts, so that is what the question ends in.
    told = run(ends="supported, assumed scatter")
    assert told.exit_code == 0, told.output
    assert "the escalation begins: lab.escalation, on SGLang 0.5.13" in told.output
    first, study = launches_of("lab")
    second, after = launches_of("lab.escalation")
    assert [one.effective.release for one in first] == ["0.5.11"] * 2
    assert [(one.config.config_id, one.effective.release) for one in second] == [
        ("off", "0.5.13"), ("v2-k2-s2-d7", "0.5.13"),
    ]  # fmt: skip
    assert (study.fingerprint["engine.release"], after.fingerprint["engine.release"]) == ("0.5.11", "0.5.13")
    assert study.fingerprint["measure.prompts.sha256"] == after.fingerprint["measure.prompts.sha256"]
    assert {check.verdict for check in second[1].lossless} == {"lossless"}
    answer = json.loads(Path("reports/lab/front.json").read_text())["escalation"]
    assert (answer["state"], answer["starts"], answer["unchecked"]) == ("begun", 2, [])
    assert {one["concurrency"] for one in answer["worth"]} == {1, 8}
    # How much it is worth is this machine's pace; that it can be compared is not.
    assert all(one["gain"] is not None for one in answer["worth"])
    assert "Escalation to SGLang 0.5.13 (question chain ended assumed scatter)" in " ".join(told.output.split())
    assert servers_of(tmp_path) == []


def test_nothing_of_an_escalation_counts_whose_answers_nobody_could_compare(run):
    told = run(ends="supported, assumed scatter", outputs=False)
    assert told.exit_code == 0, told.output
    answer = json.loads(Path("reports/lab/front.json").read_text())["escalation"]
    assert answer["unchecked"] == ["v2-k2-s2-d7"]
    assert {one["config_id"] for one in answer["worth"]} == {"off"}
    assert "does not count: v2-k2-s2-d7" in " ".join(told.output.split())


def test_escalation_is_left_out_when_the_question_ends_otherwise(run):
    told = run(ends="refuted")
    assert told.exit_code == 0, told.output
    assert launches_of("lab.escalation") == ((), None)
    words = " ".join(told.output.split())
    assert "Escalation to SGLang 0.5.13 not begun: question chain ended assumed scatter" in words
