"""Prompts as people send them, on the fake server: the target's template, a temperature, two workloads, one command."""

import json
import sys
from pathlib import Path

import pytest
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
  env: {{PYTHONPATH: "{site}", FAKE_SGLANG_SPEED: "5", FAKE_SGLANG_OUTPUTS: "1"}}
  max_running_requests: 64
  boot_ceiling_minutes: 1
space: {{spec_version: [v2], topk: [1], num_steps: [2], num_draft_tokens: [tree]}}
objectives: {{latency: 1, throughput: 8}}
known: [v2-k1-s2-d3]
measure:
  output_tokens: 32
  requests_at_latency: 8
  requests_per_worker: 2
  prompts: {{template: chat}}
  sampling: {{temperature: 0.7, thinking: false}}
workloads:
  batch: {{file: batch.jsonl, template: chat, sampling: {{thinking: true}}}}
budget: {{launches: 2, closing: false}}
sampler: grid
"""
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    "{% if enable_thinking is defined and enable_thinking %}<think>{% endif %}"
)


def test_study_sends_rendered_chats_of_two_workloads_and_checks_greedy_answers_beside(tmp_path, monkeypatch, one_h200):
    site = install_fake_sglang(tmp_path / "site", release="0.5.11")
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
    (tmp_path / "target" / "chat_template.jinja").write_text(TEMPLATE)
    requests = [
        {"custom_id": f"r{n}", "body": {"messages": [{"role": "system", "content": "Brief."}, {"role": "user", "content": f"Q{n}"}]}}
        for n in range(12)
    ]  # fmt: skip
    (tmp_path / "batch.jsonl").write_text("\n".join(map(json.dumps, requests)))
    (tmp_path / "lab.yaml").write_text(STUDY.format(python=sys.executable, site=site))
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(app, ["run", "--study", "./lab.yaml", "--executor", "inline"])
    assert told.exit_code == 0, told.output
    with Store("trials.db", read_only=True) as store:
        launches, study = store.launches("lab"), store.study("lab")
    assert [launch.config.config_id for launch in launches] == ["off", "v2-k1-s2-d3"]
    for launch in launches:
        assert {(phase.workload, phase.concurrency) for phase in launch.beside} == {("batch", 1), ("batch", 8)}
        assert {name for phase in launch.beside for name in phase.prompt_ids} <= {f"r{n}" for n in range(12)}
    # Sampled answers differ by chance; the greedy ones that were sent beside them do not.
    assert {check.verdict for check in launches[1].lossless} == {"lossless"}
    facts = study.fingerprint
    assert facts["measure.sampling.temperature"] == "0.7" and facts["measure.sampling.thinking"] == "False"
    assert facts["workloads.batch.sampling.thinking"] == "True"
    assert facts["measure.prompts.chat_template"] == facts["workloads.batch.prompts.chat_template"]
    assert facts["measure.prompts.sha256"] != facts["workloads.batch.prompts.sha256"]
    answer = json.loads(Path("reports/lab/front.json").read_text())["workloads"]
    assert [one["workload"] for one in answer["verdicts"]] == ["main", "batch"]

    # The same command resumes; another template is another study.
    again = CliRunner().invoke(app, ["run", "--study", "./lab.yaml", "--executor", "inline"])
    assert again.exit_code == 0, again.output
    (tmp_path / "target" / "chat_template.jinja").write_text(TEMPLATE.replace("<assistant>", "<bot>"))
    changed = CliRunner().invoke(app, ["run", "--study", "./lab.yaml", "--executor", "inline"])
    assert changed.exit_code == 2 and "measure.prompts.chat_template: " in changed.output
