"""`search whatif` from argument list to page, JSON and exit code."""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from search.app.options import RunOptions
from search.app.whatif import ask
from search.cli.app import app
from search.cli.whatif_text import render
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Outcome
from search.spec.file import find_study, load_study
from search.spec.stored import stored_spec
from search.storage.records import LaunchRecord, StudyRecord
from search.storage.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
REPOSITORY = Path(__file__).parents[2]
QUESTION = "topk=2 num_steps=2"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whatif(*words):
    return CliRunner().invoke(app, ["whatif", *map(str, words)])


@pytest.fixture(scope="module")
def answer():
    return ask(RunOptions(here=REPOSITORY, study="kimi-k25", storage="trials.db"), QUESTION, None)


@pytest.mark.parametrize("width", [80, 120])
def test_page_has_the_five_steps_in_order_and_fits_the_terminal(answer, width):
    lines = render(answer, width=width)
    heads = [line.split(",")[0] for line in lines if line and not line.startswith(" ")]
    assert heads[0].startswith("Legal:  v1-k2-s2-d7 (0.5.9")
    assert heads[-5:] == ["Legal?", "Cost of a launch", "Expectation", "Test", "Decision"]
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 15  # and uses the width it has
    page = " ".join(" ".join(lines).split())
    assert "44% of the 16 of v1-k4-s3-d16" in page
    assert "Spec v2 currently only supports topk = 1" in page
    assert "releases that run it for this study: 0.5.13 to 0.5.23" in page
    assert "v1-k1-s2-d3 would tell" in page
    assert "python -m search try --study kimi-k25 v1-k2-s2-d7" in page


def test_answer_stands_in_the_first_three_sentences_and_brief_is_those_alone(answer):
    brief = render(answer, width=300, brief=True)
    assert render(answer, width=300)[: len(brief)] == brief
    legal, expect, do = " ".join(line.strip() for line in brief).replace("Do: ", "Expect: ").split("Expect: ")
    assert "v1-k2-s2-d7 (0.5.9 to 0.5.12.post1); not v2-k2-s2-d7 on 0.5.9 (v2-topk1-only; 0.5.13 to 0.5.23)" in legal
    assert expect.startswith("C=1 82.3 (") and "against 775 of v2-k1-s2-d3" in expect
    assert "do not launch v1-k2-s2-d7: a chance of " in do and "no patch for v2-k2-s2-d7 unless v1-" in do
    assert [line.split(":")[0] for line in brief if not line.startswith(" ")] == ["Legal", "Expect", "Do"]


def test_brief_prints_nothing_else():
    done = whatif("--study", "kimi-k25", "--brief", QUESTION)
    assert done.exit_code == 0, done.stderr
    heads = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["Legal:", "Expect:", "Do:"]


def test_cost_model_that_was_fitted_to_another_deployment_has_no_column(answer):
    def headings(asked):
        return [line for line in render(asked, width=100) if "90% band" in line and "beats it" in line]

    assert headings(answer) and all(line.endswith("cost model") for line in headings(answer))
    other = headings(replace(answer, calibrated=False))
    assert other and not any("cost model" in line for line in other)


def test_commands_of_the_page_are_whole_when_pasted(answer):
    lines = render(answer, width=80)
    start = lines.index("    command:") + 1
    pasted = []
    for line in lines[start:]:
        pasted += line.removesuffix("\\").split()
        if not line.endswith("\\"):
            break
    assert tuple(pasted) == answer.variants[0].legality.command


def test_command_prints_the_page_and_makes_no_database(here):
    done = whatif("--study", "kimi-k25", "spec_version=v1 topk=2 num_steps=2")
    assert done.exit_code == 0, done.stderr
    assert "v1-k2-s2-d7: legal on 0.5.9" in done.stdout
    assert "=> " in done.stdout
    assert list(here.iterdir()) == []


def test_json_holds_the_same_and_nothing_else():
    done = whatif("--study", "kimi-k25", "--json", QUESTION)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert [variant["config_id"] for variant in told["variants"]] == ["v1-k2-s2-d7", "v2-k2-s2-d7"]
    assert [variant["legality"]["legal"] for variant in told["variants"]] == [True, False]
    assert told["variants"][1]["unlocking"]["twin"] == "v1-k2-s2-d7"
    assert told["decision"]
    assert told["objectives"] == [1, 100]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--study", "kimi-k25"), "`whatif` takes a config"),
        ((QUESTION,), "`--study` names the study"),
        (("--study", "nope", QUESTION), "nope"),
        (("--study", "kimi-k25", "topc=2"), "The nearest one is `topk`"),
        (("--study", "kimi-k25", "topk=2 num_steps=2 num_draft_tokens=8"), "= 7` must hold"),
        (("--study", "kimi-k25", "topk=2 topk=4"), "`topk` is given as 2 and 4"),
        (
            ("--study", "kimi-k25", "topk=2 arf=auto allreduce_fusion=off"),
            "`allreduce_fusion` is given as auto and off",
        ),
        (("--study", "kimi-k25", "--storage", "other.db", QUESTION), "There is no database"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_sentence(words, said, here):
    done = whatif(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("config", ["topk=2 steps=2", "topk=2 num_steps=x", "topk=2 spec_version=v9"])
def test_mistake_is_not_told_of_a_crash_that_has_nothing_to_do_with_it(config):
    done = whatif("--study", "kimi-k25", config)
    assert done.exit_code == 2 and "graph capture" not in done.stderr


def test_recording_answers_for_its_own_study():
    done = whatif("--recording", REPOSITORY / "recordings/h200-codelm-0.5.11", "--json", "v1-k2-s2-d7")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["basis"] == "recording"
    assert told["variants"][0]["worth"] == "measured"
    assert told["rests_on"][0].startswith("Recording h200-codelm-0.5.11:")


def test_hand_made_recording_needs_a_study_to_say_what_is_legal():
    story = REPOSITORY / "recordings/kimi-k25-story"
    alone = whatif("--recording", story, QUESTION)
    assert alone.exit_code == 2
    assert "Name a study with `--study`" in alone.stderr
    done = whatif("--recording", story, "--study", "kimi-k25", "--json", "v1-k2-s2-d7")
    assert done.exit_code == 0, done.stderr
    assert "typed in by hand or computed" in json.loads(done.stdout)["rests_on"][0]


def stored(path, *, tp=8):
    """A measured study kimi-k25 with a baseline and one tree, whose file said `tp`."""
    spec = load_study(find_study("kimi-k25", here=REPOSITORY))
    data = stored_spec(spec.model_copy(update={"model": spec.model.model_copy(update={"tp": tp})}))
    with Store(str(path)) as store:
        store.save_study(StudyRecord("kimi-k25", "measured", data, {}, NOON))
        for config_id, rates in (("off", {1: 100.0, 100: 800.0}), ("v1-k2-s2-d7", {1: 130.0, 100: 900.0})):
            config = SpecConfig.from_id(config_id)
            begun = store.begin_launch(
                "kimi-k25", lambda number, config=config: LaunchRecord(number, "known", config, config, NOON)
            )
            for load, tps in rates.items():
                store.add_phase("kimi-k25", begun.number, phase(load, tps))
            store.finish_launch("kimi-k25", replace(begun, outcome=Outcome.MEASURED, boot_s=600.0, duration_s=900.0))


def phase(concurrency, tps):
    ms = 1000.0 * concurrency / tps
    return PhaseResult(concurrency, 1, 10, 100, 1.0, tps, tps, ms, 1.0)


def test_own_launches_of_the_storage_come_before_the_cost_model(here):
    stored(here / "trials.db")
    done = whatif("--study", "kimi-k25", "--json", QUESTION)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["basis"] == "launches"
    assert told["rests_on"] == ["2 launches of study kimi-k25, with 2 configs measured at both objectives."]
    assert told["variants"][0]["expectation"]["loads"][0]["measured"] is True
    assert told["variants"][0]["cost"]["boot_s"] == 615.0


def test_launches_under_another_study_file_are_marked(here):
    stored(here / "other.db", tp=4)
    done = whatif("--study", "kimi-k25", "--storage", "other.db", QUESTION)
    assert done.exit_code == 0, done.stderr
    assert "The study file has changed since they were measured (model)" in " ".join(done.stdout.split())


def test_storage_without_the_measured_study_falls_back_to_the_cost_model(here):
    with Store(str(here / "trials.db")):
        pass
    done = whatif("--study", "kimi-k25", "--json", "v1-k2-s2-d7")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["basis"] == "recording"


ADAPTIVE = """\
study: adaptive
model: {target: /m/llama, draft: /m/draft, algorithm: EAGLE3, architecture: LlamaForCausalLM, tp: 1}
hardware: {gpus: 1, kind: H200, sm: 90, memory_gib: 140, links: nvlink}
engine: {release: 0.5.16, env: {HF_TOKEN: hf_abcdefghijklmnopqrstu}}
space: {spec_version: [v2], topk: [1], num_steps: [3], num_draft_tokens: [tree], knobs: {adaptive: ["off", 0-1-3]}}
"""


def test_printed_command_of_an_adaptive_config_runs_in_a_shell(here):
    (here / "adaptive.yaml").write_text(ADAPTIVE)
    options = RunOptions(here=here, study="./adaptive.yaml", storage="trials.db")
    lines = render(ask(options, "v2-k1-s3-d4+adapt=0-1-3", None), width=80)
    printed = lines[lines.index("    command:") + 1 :]
    last = next(place for place, line in enumerate(printed) if not line.endswith("\\"))
    stub = here / "python"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "token=$HF_TOKEN" "$@" > said.txt\n')
    stub.chmod(0o755)
    environment = {"PATH": f"{here}:/usr/bin:/bin", "HF_TOKEN": "mine", "SGLANG_ENABLE_SPEC_V2": "1"}
    subprocess.run(["/bin/sh", "-c", "\n".join(printed[: last + 1])], cwd=here, env=environment, check=True)
    said = (here / "said.txt").read_text().splitlines()
    assert said[:3] == ["token=mine", "-m", "sglang.launch_server"]
    named = said[said.index("--speculative-adaptive-config") + 1]
    assert json.loads((here / named).read_text())["1"] == {"candidate_steps": [0, 1, 3]}
