"""A second phase in another engine: what a study file may say of it, when it begins, what is stored of it."""

import json
from pathlib import Path

import pytest
from lab_study import STUDY
from typer.testing import CliRunner

from search.analysis.escalation import condition
from search.analysis.findings import QuestionVerdict
from search.cli.app import app
from search.errors import UsageError
from search.spec.file import parse_study
from search.spec.stored import stored_spec
from search.spec.study import StudySpec
from search.storage.store import Store

ESCALATION = """\
questions:
  chain: {config: v2-k1-s2-d3, against: ["off"], at: [1]}
escalation:
  when: {question: chain, ends: supported}
  engine: {release: 0.5.13, patches: [], env: {HF_TOKEN: hf_abcdefghijklmnop}}
  space: {spec_version: [v2], topk: [2]}
  known: [v2-k2-s2-d7]
  budget: {launches: 5}
"""


def mistake(text):
    with pytest.raises(UsageError) as caught:
        parse_study(text, name="lab.yaml")
    return str(caught.value)


def test_second_phase_is_the_study_with_what_differs():
    spec = parse_study(STUDY + ESCALATION, name="lab.yaml")
    second = spec.escalated()
    assert (second.study, second.engine.release, second.lossless) == ("lab.escalation", "0.5.13", "required")
    assert (second.space.spec_version, second.space.topk, second.space.num_steps) == (("v2",), (2,), (1, 2, 3))
    assert (second.known, second.questions) == (("v2-k2-s2-d7",), {})
    assert (second.budget.launches, second.budget.hours) == (5, 100)
    assert (second.measure, second.axes, second.watch) == (spec.measure, spec.axes, spec.watch)
    with pytest.raises(ValueError, match="has no `escalation`"):
        second.escalated()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("question: chain", "question: tree", "`escalation.when.question` must be a question of the study, one of chain"),
        ("ends: supported", "ends: won", "`escalation.when.ends`: should be 'supported', 'refuted'"),
        ("release: 0.5.13,", "relase: 0.5.13,", "`escalation` must make a study of its own together with the rest, but `engine.relase`"),
        ("topk: [2]", "topk: [two]", "but `space.topk.0` of that"),
        ("launches: 5", "launches: 0", "but `budget.launches` of that"),
        ("  engine: {release: 0.5.13, patches: [], env: {HF_TOKEN: hf_abcdefghijklmnop}}\n", "", "`escalation.engine`: is required, but missing"),
        ("  when:", "  whenn:", "did you mean `when`?"),
    ],
)  # fmt: skip
def test_escalation_that_makes_no_study_is_refused(old, new, said):
    assert said in mistake(STUDY + ESCALATION.replace(old, new))


def test_secrets_of_the_second_engine_are_neither_stored_nor_told():
    spec = parse_study(STUDY + ESCALATION, name="lab.yaml")
    stored = stored_spec(spec)
    assert "hf_abcdefghijklmnop" not in json.dumps(stored)
    again = StudySpec.model_validate(stored)
    assert again.escalated().engine.release == "0.5.13"
    wrong = ESCALATION.replace("hf_abcdefghijklmnop}", "hf_abcdefghijklmnop}, server_args: {port: hf_abcdefghijklmnop}")
    assert "hf_abcdefghijklmnop" not in mistake(STUDY + wrong)


def test_study_of_before_is_read_without_an_escalation():
    stored = stored_spec(parse_study(STUDY, name="lab.yaml"))
    for key in ("escalation", "workloads", "lossless"):
        stored.pop(key)
    stored["measure"].pop("sampling")
    read = StudySpec.model_validate(stored)
    assert (read.escalation, read.workloads, read.lossless) == (None, {}, "checked")


@pytest.mark.parametrize(
    ("verdict", "ends", "begins"),
    [
        ("supported", "supported", True),
        ("refuted", "supported", False),
        ("not separable", "[supported, not separable]", True),
        ("not measured", "[supported, refuted, same]", False),
    ],
)
def test_second_phase_begins_exactly_when_its_question_ends_so(verdict, ends, begins):
    spec = parse_study(STUDY + ESCALATION.replace("ends: supported", f"ends: {ends}"), name="lab.yaml")
    due, why = condition(spec.escalation, [QuestionVerdict("chain", verdict, "")])
    assert due is begins and verdict in why


def test_question_that_has_no_verdict_yet_begins_nothing():
    spec = parse_study(STUDY + ESCALATION, name="lab.yaml")
    assert condition(spec.escalation, []) == (
        False, "question chain ended not measured, and it begins when that ends supported",
    )  # fmt: skip


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """Runs kimi-k25 simulated with a second phase that begins when its chain beats no speculation at C=30."""

    def run(ends):
        text = Path("spaces/kimi-k25.yaml").read_text()
        begin, end = text.index("# If a tree beats"), text.index("budget: {launches: 40")
        escalation = f"""
escalation:
  when: {{question: chain, ends: {ends}}}
  engine: {{release: 0.5.13, patches: [], server_args: {{attention-backend: triton}}}}
  space: {{spec_version: [v2], topk: [1, 2], num_steps: [1, 2], allreduce_fusion: ["off"]}}
  known: [v2-k1-s2-d3]
  budget: {{launches: 9, hours: 4}}

"""
        text = text[:begin] + escalation + text[end:]
        text = text.replace("questions:\n", 'questions:\n  chain: {config: v2-k1-s2-d3, against: ["off"], at: [30]}\n')
        (tmp_path / "spaces").mkdir()
        (tmp_path / "spaces" / "kimi.yaml").write_text(text.replace("study: kimi-k25", "study: kimi"))
        monkeypatch.chdir(tmp_path)
        return CliRunner().invoke(app, ["run", "--study", "kimi", "--simulate", "--json"])

    return run


@pytest.mark.slow
def test_simulated_escalation_runs_when_its_condition_holds_and_resumes_to_the_same_answer(simulated, tmp_path):
    told = simulated("supported")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)["escalation"]
    assert (answer["state"], answer["study"], answer["release"]) == ("begun", "kimi.escalation.simulated", "0.5.13")
    assert [one["concurrency"] for one in answer["worth"]] == [1, 30, 100, 250]
    # The cost model knows no releases: the same config is as fast there, and nothing is shown to be gained.
    assert not any(one["shown"] for one in answer["worth"])
    equal = [one["gain"][0] for one in answer["worth"] if one["config_id"] == one["against_config_id"]]
    assert equal and all(abs(gain - 1) < 0.05 for gain in equal)
    with Store("trials.db", read_only=True) as store:
        facts = store.study("kimi.escalation.simulated").fingerprint
        assert facts["engine.release"] == "0.5.13" and len(store.launches("kimi.escalation.simulated")) <= 9
    report = CliRunner().invoke(app, ["report", "--study", "kimi", "--json"])
    assert json.loads(report.stdout)["escalation"] == answer
    assert "id='escalation'" in Path("reports/kimi.simulated/index.html").read_text().replace('"', "'")


@pytest.mark.slow
def test_simulated_escalation_is_not_begun_when_its_condition_does_not_hold(simulated):
    told = simulated("refuted")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)["escalation"]
    assert (answer["state"], answer["starts"], answer["worth"]) == ("not due", 0, [])
    with Store("trials.db", read_only=True) as store:
        assert [study.name for study in store.studies()] == ["kimi.simulated"]


def test_second_phase_has_a_plan_of_its_own():
    told = CliRunner().invoke(app, ["plan", "--study", "kimi-k25.escalation", "--json"])
    plan = json.loads(told.stdout)
    assert plan["study"] == "kimi-k25.escalation"
    assert [one["config_id"] for one in plan["first"]] == ["off", "v2-k1-s2-d3", "v2-k2-s2-d7", "v2-k4-s3-d16"]
    first = json.loads(CliRunner().invoke(app, ["plan", "--study", "kimi-k25", "--json"]).stdout)
    assert "if question trees-on-v1 ends supported: SGLang 0.5.13" in first["then"]


def test_second_phase_of_a_study_without_one_is_refused():
    told = CliRunner().invoke(app, ["plan", "--study", "h200-lab.escalation"])
    assert told.exit_code == 2 and "its file has no `escalation`" in told.output
