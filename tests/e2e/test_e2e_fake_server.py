"""The whole product on a fake SGLang server: real processes, real HTTP, a Ray actor, a report, a recording."""

import json
from functools import partial
from pathlib import Path

import pytest
from fake_servers import servers_of
from typer.testing import CliRunner

from search.app.report_content import ContentBuilder
from search.cli.app import app
from search.cluster import InlineExecutor, RayExecutor
from search.config import SpecConfig
from search.contracts import RealClock, Slot
from search.dialects import for_release
from search.engines import SglangEngine
from search.load.prompts import load_prompts
from search.outcomes import Note, Outcome
from search.report.listener import ReportListener
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study.context import StudyContext, Watch
from search.study.launch import Launcher
from search.study.runner import run_study
from search.testing import install_fake_sglang

pytestmark = pytest.mark.slow

STUDY = """
study: lab
model: {target: models/target, draft: models/draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: 0.5.11
  env: {PYTHONPATH: "@fake@", FAKE_SGLANG_SPEED: "5"}
  server_args: {attention-backend: triton}
  max_running_requests: 64
  boot_ceiling_minutes: 1
space: {spec_version: [v1, v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree]}
objectives: {latency: 1, throughput: 8}
watch: [4]
known: ["off", v2-k1-s2-d3, v1-k2-s2-d7]
measure: {output_tokens: 32, requests_at_latency: 4, requests_per_worker: 3, repeats: 2}
budget: {launches: 4, closing: false}
sampler: grid
"""


@pytest.fixture
def spec(tmp_path):
    fake = install_fake_sglang(tmp_path / "fake", release="0.5.11")
    return parse_study(STUDY.replace("@fake@", str(fake)), name="lab.yaml")


def engine_factory(spec, raw=None):
    prompts = load_prompts()
    return partial(
        SglangEngine,
        spec.deployment,
        for_release(spec.engine.release),
        prompts=prompts.search,
        held_out=prompts.held_out,
        raw=raw,
    )


def run(spec, executor, folder):
    storage, reports = folder / "trials.db", folder / "reports" / "lab"
    with executor, Store(storage) as store:

        def content(judgement):
            return ContentBuilder(spec, store.study("lab")).content(store.launches("lab"), judgement)

        run_study(
            StudyContext(
                spec=spec,
                name="lab",
                kind="measured",
                space=spec.space_of(for_release("0.5.11")),
                fingerprint=fingerprint(spec, kind="measured"),
                clock=RealClock(),
                reports=reports,
                resume_command="python -m search.run --study lab",
            ),
            executor=executor,
            store=store,
            storage=optuna_storage(storage),
            watch=Watch(ReportListener(reports, content, RealClock())),
        )
        return store.launches("lab")


def front_of(path):
    return [
        (row["config_id"], row["c1_tpot_ms"], row["c8_output_tps"]) for row in json.loads(path.read_text())["front"]
    ]


def test_study_runs_through_a_ray_actor_and_its_recording_replays_to_the_same_front(spec, tmp_path, monkeypatch):
    launches = run(spec, RayExecutor(engine_factory(spec)), tmp_path)

    assert [(launch.stage, launch.config.config_id) for launch in launches[:3]] == [
        ("baseline", "off"), ("known", "v2-k1-s2-d3"), ("known", "v1-k2-s2-d7"),
    ]  # fmt: skip
    assert [launch.outcome for launch in launches] == [Outcome.MEASURED] * 4
    for launch in launches:
        folder = tmp_path / "reports" / "lab" / launch.folder
        assert {path.name for path in folder.iterdir()} == {
            "server.log", "command.sh", "requests.jsonl", "server_info.json",
        }  # fmt: skip
        assert launch.effective.release == "0.5.11"
        assert [(p.concurrency, p.repeat, p.requests) for p in launch.phases[:4]] == [
            (1, 1, 4), (8, 1, 24), (1, 2, 4), (8, 2, 24),
        ]  # fmt: skip
        assert all(1 < (phase.accept_length or 1.5) <= 3 for phase in launch.phases)
    assert servers_of(tmp_path) == []

    monkeypatch.chdir(tmp_path)
    record = CliRunner().invoke(app, ["record", "--study", "lab", "--to", "recordings/lab"])
    assert record.exit_code == 0, record.output
    replay = CliRunner().invoke(app, ["run", "--replay", "recordings/lab", "-q"])
    assert replay.exit_code == 0, replay.output
    mine, replayed = (front_of(Path(f"reports/{name}/front.json")) for name in ("lab", "lab.replay"))
    assert [row[0] for row in replayed] == [row[0] for row in mine]
    # A table holds rounded numbers, and the means of rounded ones may differ in the last digit.
    assert [row[1:] for row in replayed] == [pytest.approx(row[1:], rel=1e-3) for row in mine]


def test_study_of_goodput_against_first_tokens_runs_on_the_fake_server(spec, tmp_path):
    text = (
        STUDY.replace("@fake@", spec.engine.env["PYTHONPATH"])
        .replace(
            "objectives: {latency: 1, throughput: 8}",
            "objectives: [{metric: ttft_p99_ms, at: 1}, {metric: goodput, at: 8}]",
        )
        .replace("repeats: 2}", "repeats: 2, limits: {ttft_ms: 0.001}}")
        .replace("launches: 4", "launches: 2")
    )
    chosen = parse_study(text, name="lab.yaml")
    engine = SglangEngine(
        chosen.deployment,
        for_release(chosen.engine.release),
        prompts=load_prompts().search,
        held_out=load_prompts().held_out,
        limits=chosen.measure.limits.load_limits,
    )
    launches = run(chosen, InlineExecutor(engine), tmp_path)
    assert [launch.outcome for launch in launches] == [Outcome.MEASURED] * 2
    for launch in launches:
        assert {phase.gpus for phase in launch.phases} == {1}
        for phase in launch.phases:
            # Nobody gives a first token within a microsecond; a median lies below its tail.
            assert phase.goodput == phase.goodput_rps == 0.0
            assert 0 < phase.ttft_p50_ms <= phase.ttft_p99_ms <= phase.e2e_p99_ms
    told = json.loads((tmp_path / "reports" / "lab" / "front.json").read_text())
    assert told["objectives"] == {"c1_ttft_p99_ms": "minimize", "c8_goodput": "maximize"}
    # All are equally bad under load, so only the quickest first token is on the front.
    (best,) = told["front"]
    assert best["c8_goodput"] == 0.0 and best["c1_ttft_p99_ms"] > 0


def test_raw_tree_on_the_v2_worker_is_filed_as_the_v1_config_that_ran(spec, tmp_path):
    raw = (
        "SGLANG_ENABLE_SPEC_V2=1",
        *["--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "models/draft"],
        *["--speculative-num-steps", "2", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "7"],
    )
    engine = engine_factory(spec, raw)()
    with Store(tmp_path / "trials.db") as store:
        run(spec.model_copy(update={"budget": spec.budget.model_copy(update={"launches": 1})}),
            InlineExecutor(engine_factory(spec)()), tmp_path)  # fmt: skip
        context = StudyContext(
            spec=spec,
            name="lab",
            kind="measured",
            space=spec.space_of(for_release("0.5.11")),
            fingerprint={},
            clock=RealClock(),
            reports=tmp_path,
        )
        launcher = Launcher(context, executor=InlineExecutor(engine, (Slot(0),)), store=store)
        record = launcher.run(SpecConfig.from_id("v2-k2-s2-d7"), stage="try", why="raw").record
    assert (record.asked.config_id, record.config.config_id) == ("v2-k2-s2-d7", "v1-k2-s2-d7")
    assert Note.EFFECTIVE_DIFFERS in record.notes
    assert record.outcome is Outcome.MEASURED
