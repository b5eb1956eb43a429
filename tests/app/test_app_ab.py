"""Two shapes in turn inside one server: on the cost model, on the fake server, and what is refused."""

import dataclasses
import json
import math

import pytest
from fake_servers import servers_of
from typer.testing import CliRunner

from search.app.ab import alternate
from search.app.options import RunOptions
from search.app.simulated import assemble_simulated
from search.cli.app import app
from search.cluster import InlineExecutor
from search.contracts import RealClock
from search.dialects import for_release
from search.engines._sglang import SglangEngine
from search.errors import UsageError
from search.load.target import Prompt
from search.outcomes import Outcome
from search.server.supervisor import Deadlines
from search.storage.store import Store
from search.study.signals import Interrupts
from search.testing import install_fake_sglang

STUDY = """\
study: lab
model: {target: ./target, draft: ./draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: 0.5.16
  server_args: {attention-backend: triton, mem-fraction-static: 0.6}
  env: {PYTHONPATH: SITE, FAKE_SGLANG_SPEED: "5"}
  stall_minutes: 1
space: {spec_version: [v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree], allreduce_fusion: ["off"]}
objectives: {latency: 1, throughput: 4}
watch: []
measure: {output_tokens: 64, requests_at_latency: 2, requests_per_worker: 1, repeats: 1, warmup_rounds: 2}
"""


@pytest.fixture
def options(tmp_path):
    site = install_fake_sglang(tmp_path / "site", release="0.5.16")
    (tmp_path / "lab.yaml").write_text(STUDY.replace("SITE", str(site)).replace(", warmup_rounds: 2", ""))
    return RunOptions(
        here=tmp_path,
        study=str(tmp_path / "lab.yaml"),
        simulate=True,
        storage=str(tmp_path / "trials.db"),
        reports=tmp_path / "reports",
    )


def test_both_are_measured_in_turn_in_one_start_and_stored_as_tried(options):
    heard = []
    found = alternate(options, ("v2-k1-s1-d2", "v2-k2-s2-d7"), rounds=4, heard=heard.append, interrupts=Interrupts())
    assert [record.asked.config_id for record in heard] == 2 * [
        *("v2-k1-s1-d2", "v2-k2-s2-d7"),
        *("v2-k2-s2-d7", "v2-k1-s1-d2"),
    ]
    assert [record.place for record in found.records] == list(range(8))
    assert {record.start for record in found.records} == {1}
    assert [one.objective.name for one in found.contrasts] == ["c1_tpot_ms", "c4_output_tps"]
    for one in found.contrasts:
        each = [math.log(b / a) for a, b in zip(one.a, one.b, strict=True)]
        assert math.log(one.comparison.ratio) == pytest.approx(sum(each) / 4)
        assert one.comparison.lo < one.comparison.ratio < one.comparison.hi
    with Store(options.storage) as store:
        assert [launch.stage for launch in store.launches("lab.simulated")] == ["try"] * 8


@pytest.mark.parametrize(
    ("texts", "rounds", "said"),
    [
        (("v2-k1-s1-d2", "v2-k1-s1-d2"), 4, "takes two configs"),
        (("v2-k1-s1-d2", "off"), 4, "`off` always has starts of its own"),
        (("v2-k1-s1-d2", "v2-k2-s2-d7"), 5, "an even number"),
        (("v2-k1-s1-d2", "v2-k2-s2-d7"), 14, "at most 12 rounds"),
        (("v2-k1-s1-d2", "v2-k9-s9-d7"), 4, "cannot be launched here"),
    ],
)
def test_what_no_start_can_show_is_refused_with_the_reason(options, texts, rounds, said):
    with pytest.raises(UsageError, match=said):
        alternate(options, texts, rounds=rounds, heard=lambda _: None, interrupts=Interrupts())


def test_command_prints_difference_interval_and_what_it_can_see(options, monkeypatch):
    monkeypatch.chdir(options.here)
    words = ["ab", "v2-k1-s1-d2", "v2-k2-s2-d7", "--study", options.study, "--rounds", "4", "--simulate"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "c1_tpot_ms: a " in done.stdout and "so many rounds show differences from" in done.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--json", "-q"]).stdout)
    assert set(told["objectives"]) == {"c1_tpot_ms", "c4_output_tps"} and len(told["launches"]) == 8


def fake(options, monkeypatch):
    """The parts of the simulated study with real servers of the fake SGLang behind them."""
    parts = assemble_simulated(options, None)
    deployment = dataclasses.replace(parts.spec.deployment, env=dict(parts.spec.deployment.env))
    engine = SglangEngine(
        deployment,
        for_release("0.5.16"),
        prompts=tuple(Prompt(f"chat-{n}", "chat", f"Count to {n}.") for n in range(16)),
        deadlines=Deadlines(lease_s=10.0, grace_s=0.5, port_s=0.5),
    )
    monkeypatch.setattr("search.engines._sglang.reap_orphans", lambda: ((), ()))
    monkeypatch.setattr("search.engines._sglang.find_py_spy", lambda python: None)
    real = dataclasses.replace(
        parts, kind="measured", name="lab", clock=RealClock(), open_executor=lambda: InlineExecutor(engine)
    )
    monkeypatch.setattr("search.app.ab.assemble", lambda _: real)


def test_fake_server_goes_through_all_rounds_and_nothing_is_left(options, monkeypatch, tmp_path):
    fake(options, monkeypatch)
    found = alternate(options, ("v2-k1-s1-d2", "v2-k2-s2-d7"), rounds=4, heard=lambda _: None, interrupts=Interrupts())
    assert all(record.outcome is Outcome.MEASURED for record in found.records)
    assert len({record.start_number for record in found.records}) == 1
    assert [record.effective.config for record in found.records] == [record.asked for record in found.records]
    assert len(found.contrasts) == 2
    assert servers_of(tmp_path / "site") == []
