"""A study over environment variables, from its simulated run to a recording, its replay and its scripts."""

import csv

import pytest
from typer.testing import CliRunner

from search.cli.app import app

STUDY = """\
study: pcie
model: {target: /m/Kimi-K2.5, draft: /m/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 8}
hardware: {gpus: 8, kind: RTX PRO 6000, sm: 120, memory_gib: 95, links: pcie}
engine: {release: 0.5.16, env: {HF_TOKEN: hf_abcdefghijklmnopqrstu}}
space:
  spec_version: [v2]
  topk: [1]
  num_steps: [2, 3]
  num_draft_tokens: [tree]
  env: {NCCL_P2P_LEVEL: [unset, SYS]}
known: [v2-k1-s2-d3+NCCL_P2P_LEVEL=SYS]
simulation: {physics: kimi-k25-story}
budget: {launches: 8, confirm: 0, ladder: 0, closing: false}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pcie.yaml").write_text(STUDY)
    return tmp_path


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sampler", ["frontier", "random"])
def test_run_records_and_replays_configs_that_differ_in_a_variable(here, sampler):
    words = ["--study", "./pcie.yaml", "--simulate", "--executor", "inline", "--sampler", sampler]
    run = CliRunner().invoke(app, ["run", *words])
    assert run.exit_code == 0, run.output
    report = here / "reports" / "pcie.simulated"
    trials = rows(report / "trials.csv")
    assert {row["NCCL_P2P_LEVEL"] for row in trials} == {"", "SYS"}
    recorded = CliRunner().invoke(app, ["record", "--study", "pcie.simulated", "--to", "table"])
    assert recorded.exit_code == 0, recorded.output
    assert {row["NCCL_P2P_LEVEL"] for row in rows(here / "table" / "measurements.csv")} == {"", "SYS"}
    replayed = CliRunner().invoke(app, ["run", "--replay", "table", "--executor", "inline"])
    assert replayed.exit_code == 0, replayed.output
    told = {row["config_id"] for row in rows(here / "reports" / "table.replay" / "trials.csv")}
    assert "v2-k1-s2-d3+NCCL_P2P_LEVEL=SYS" in told
    scripts = {path.name: path.read_text().partition("exec env")[2] for path in (report / "launch").glob("*.sh")}
    for name, script in scripts.items():
        assert ("NCCL_P2P_LEVEL=SYS" in script) == ("NCCL_P2P_LEVEL=SYS" in name)
        assert ("-u NCCL_P2P_LEVEL" in script) != ("NCCL_P2P_LEVEL=SYS" in name)
    assert scripts
    assert not [
        path
        for path in here.rglob("*")
        if path.is_file() and path.name != "pcie.yaml" and b"hf_abc" in path.read_bytes()
    ]
