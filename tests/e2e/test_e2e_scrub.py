"""What versions before the masking left in plain text: found, masked in place, and nothing else touched."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import optuna
import pytest
from test_e2e_secrets import Planter, found_in
from typer.testing import CliRunner

from search.cli.app import app
from search.config import SpecConfig
from search.engines.recording import read_recording
from search.outcomes import Evidence, Outcome, Reason
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage import owner
from search.storage.optuna_side import optuna_storage
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store

ROOT = Path(__file__).parents[2]
OFF = SpecConfig.from_id("off")
STUDY = """
study: lab
title: "lab, see https://me:@title@@wiki.example/"
assumptions: ["login with PASSWORD=@assumption@"]
model: {target: org/target, draft: org/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine:
  release: 0.5.11
  prefix: [docker, run, -e, "HF_TOKEN=@docker@", --registry-password, "@flag and word@", "https://user:@URL in the prefix@@reg.example/v2"]
  env: {MY_SETTING: "@a variable@", OPENAI_API_KEY_2: "@key@", NCCL_ALGO: Ring, CACHE: "redis://:@redis@@cache:6379/0", SPEED: "0.125"}
  server_args: {attention-backend: triton}
  patches: [{name: ours, lifts: [], note: "from https://ci:@patch note@@git.example/p"}]
  max_running_requests: 64
serving: {env: {SERVE_KEY: "@serving@"}}
space: {spec_version: [v2], topk: [1], num_steps: [1], num_draft_tokens: [tree]}
objectives: {latency: 1, throughput: 4}
"""


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A database, a report, a launch folder and a recording with secrets in plain text, as versions before the masking wrote them."""
    monkeypatch.chdir(tmp_path)
    plant = Planter(7)
    text = re.sub("@([A-Za-z ]+)@", lambda place: plant.secret(place[1]), STUDY)
    spec = parse_study(text, name="lab.yaml")
    secret, planted = plant.secret, plant.planted
    monkeypatch.setenv("WANDB_API_KEY", secret("inherited"))
    plain = {f"engine.env.{name}": value for name, value in spec.engine.env.items()}
    plain |= {"engine.prefix": " ".join(spec.engine.prefix)}
    facts = fingerprint(spec, kind="measured") | plain
    at = datetime(2026, 1, 2, tzinfo=UTC)
    with Store("trials.db") as store:
        store.save_study(StudyRecord("lab", "measured", spec.model_dump(mode="json"), facts, at))
        store.add_note("lab", at, f"changed by hand, token={secret('note')}")
        line = f"RuntimeError: 401 for Bearer {secret('Bearer')} and {planted['a variable']} at redis://:{planted['redis']}@cache"
        launch = LaunchRecord(1, "baseline", OFF, OFF, at, folder="launches/0001-off")
        store.begin_launch("lab", lambda _: launch)
        store.finish_launch(
            "lab",
            LaunchRecord(
                1, "baseline", OFF, OFF, at, outcome=Outcome.FAILED, reason=Reason.START_CRASH,
                evidence=Evidence(line), why=f"asked with api_key={secret('why')}", folder="launches/0001-off",
            ),
        )  # fmt: skip
        store.end_beats(owner.this_process())
    trials = optuna.create_study(study_name="lab", storage=optuna_storage("trials.db"), directions=["minimize"] * 2)
    trials.set_user_attr("words", [f"from https://me:{secret('attribute')}@wiki.example"])
    launches = tmp_path / "reports" / "lab" / "launches" / "0001-off"
    launches.mkdir(parents=True)
    log = f"argv --env MY_SETTING={planted['a variable']}\nok\nAuthorization: Bearer {secret('log')}\n"
    (launches / "server.log").write_text(log)
    (launches / "server_info.json").write_text(json.dumps({"api_key": secret("server info"), "tp_size": 1}))
    (launches / "command.sh").write_text(f"exec env MY_SETTING={planted['a variable']} python server\n")
    (launches / "mine.txt").write_text("a person's notes, token=mine-mine-mine\n")
    (tmp_path / "reports" / "lab" / "run.log").write_text(f"00:00 1 off FAILED {line}\n")
    (tmp_path / "reports" / "lab" / "summary.md").write_text(f"# lab\n\n{line}\n")
    folder = tmp_path / "recordings" / "lab"
    folder.mkdir(parents=True)
    meta = {
        "name": "lab",
        "conditions": facts,
        "study_file": spec.model_dump(mode="json"),
        "note": f"password: {secret('meta')}",
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "measurements.csv").write_text(
        "config_id,spec_version,topk,num_steps,num_draft_tokens,allreduce_fusion,launch,outcome,reason,notes,concurrency,repeat,"
        "requests,output_tps,tpot_ms,ttft_ms,accept_length,accept_histogram,boot_s,duration_s\n"
        "off,off,,,,off,1,MEASURED,,,1,1,4,50,20,30,,,1,1\noff,off,,,,off,1,MEASURED,,,4,1,4,150,25,30,,,1,1\n"
    )
    return tmp_path, plant


def command(*words, code=0):
    done = CliRunner().invoke(app, ["clean", "--scrub", *words])
    assert done.exit_code == code, done.output
    return done.output


def holding(folder, plant):
    return {
        str(path.relative_to(folder)): found
        for path in folder.rglob("*")
        if path.is_file() and (found := found_in(path.read_bytes(), plant.planted))
    }


def test_scrub_only_lists_what_holds_secrets_until_it_is_told_to_write(old):
    folder, plant = old
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "trials.db" not in path.name}

    told = command()

    assert len(plant.planted) >= 18 and not found_in(told.encode(), plant.planted)
    for place in (
        "search_studies.spec, 1 row",
        "search_launches.evidence",
        "search_notes.text",
        "study_user_attributes",
    ):
        assert place in told
    for name in ("server.log", "server_info.json", "command.sh", "run.log", "summary.md", "meta.json"):
        assert name in told
    assert "nothing was changed; `--write` masks them" in told and "mine.txt" not in told
    assert all(path.read_bytes() == data for path, data in before.items())
    with closing(sqlite3.connect("trials.db")) as database:
        assert plant.planted["a variable"] in str(database.execute("select spec from search_studies").fetchall())
    assert command("--write", "--dry-run") == told


def test_scrub_leaves_none_of_the_secrets_in_any_file_of_ours_and_all_of_them_readable(old):
    folder, plant = old
    assert set(holding(folder, plant)) >= {"trials.db", "recordings/lab/meta.json"}

    told = command("--write")

    assert holding(folder, plant) == {} and not found_in(told.encode(), plant.planted)
    with Store("trials.db", read_only=True) as store:
        (launch,), study = store.launches("lab"), store.study("lab")
    assert launch.evidence.root_line.startswith("RuntimeError: 401 for Bearer *** and *** at redis://")
    assert study.spec["engine"]["env"] == {
        "MY_SETTING": "***", "OPENAI_API_KEY_2": "***", "NCCL_ALGO": "Ring", "CACHE": "***", "SPEED": "***",
    }  # fmt: skip
    assert read_recording(folder / "recordings" / "lab").rows[0].output_tps == 50
    launches = folder / "reports" / "lab" / "launches" / "0001-off"
    assert (launches / "server.log").read_text() == "argv --env MY_SETTING=***\nok\nAuthorization: Bearer ***\n"
    assert json.loads((launches / "server_info.json").read_text()) == {"api_key": "***", "tp_size": 1}
    assert "mine-mine-mine" in (launches / "mine.txt").read_text()
    assert "no secrets found" in command()
    assert CliRunner().invoke(app, ["report", "--study", "lab"]).exit_code == 0


def test_study_goes_on_after_its_fingerprint_was_masked(old):
    with Store("trials.db", read_only=True) as store:
        stored = store.study("lab")
    spec = parse_study(json.dumps(dict(stored.spec)), name="lab.yaml")

    command("--write")

    with Store("trials.db", read_only=True) as store:
        assert dict(store.study("lab").fingerprint) == fingerprint(spec, kind="measured")


def test_scrub_refuses_to_write_while_a_driver_is_at_work(old, monkeypatch):
    other = str(owner.Mark("elsewhere", "b" * 8, "1", 4242, "7"))
    with Store("trials.db") as store:
        store.beat(other, datetime.now(UTC))

    told = command("--write", code=2)

    assert "process 4242 on elsewhere" in told and "Wait for its end" in told


def test_log_that_a_process_has_open_is_left(old):
    folder, _ = old
    log = folder / "reports" / "lab" / "launches" / "0001-off" / "server.log"
    before = log.read_text()

    with log.open("a"):
        told = command("--write")

    assert f"left: {log.relative_to(folder)}" in told and log.read_text() == before


def test_file_that_a_person_changed_in_a_report_is_left(old):
    folder, plant = old
    page = folder / "reports" / "lab" / "front.csv"
    page.write_text(f"my own notes, {plant.planted['a variable']}\n")
    linked = folder / "reports" / "lab" / "launches" / "0002-off"
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "server.log").write_text("token=abcdefgh\n")
    linked.symlink_to(folder / "elsewhere")

    told = command("--write")

    assert "front.csv" not in told and plant.planted["a variable"] in page.read_text()
    assert (folder / "elsewhere" / "server.log").read_text() == "token=abcdefgh\n"


def test_scrub_knows_the_secrets_of_a_named_study_file_where_the_database_is_masked(old):
    folder, plant = old
    text = json.dumps({**json.loads((folder / "recordings" / "lab" / "meta.json").read_text())["study_file"]})
    (folder / "lab.yaml").write_text(text)
    command("--write")
    log = folder / "reports" / "lab" / "launches" / "0001-off" / "server.log"
    log.write_text(f"said {plant.planted['a variable']}\n")

    assert "no secrets found" in command()
    assert "server.log" in command("--study", "./lab.yaml")


def test_nothing_is_found_where_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert command() == "no secrets found\n"
    assert not list(tmp_path.iterdir())
    assert "`--write` belongs to `--scrub`" in CliRunner().invoke(app, ["clean", "--write"]).output


def test_recordings_that_this_project_brings_hold_no_secrets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert command("--recordings", str(ROOT / "recordings")) == "no secrets found\n"
