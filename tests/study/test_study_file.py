"""Mistakes in a study file become one line each, with the line they stand in."""

import pytest

from search.config import SpecConfig
from search.errors import UsageError
from search.server.command import OWNED_ARGUMENTS
from search.spec.file import find_study, load_study, parse_study


def mistake(text):
    with pytest.raises(UsageError) as caught:
        parse_study(text, name="lab.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("study: lab\n", "", "lab.yaml:1: `study`: is required, but missing."),
        ("budget:", "budgte:", "lab.yaml:22: `budgte`: is not a key of a study file; did you mean `budget`?"),
        ("  sm: 90", "  sm: ninety", "lab.yaml:9: `hardware.sm`: should be a whole number, but found 'ninety' (str)."),
        ("  topk: [1, 2]", "  topk: [1, two]", "lab.yaml:16: `space.topk.1`: should be a whole number, but found 'two' (str)."),
        ("  topk: [1, 2]", "  topk: []", "lab.yaml:16: `space.topk`: "),
        ("  links: nvlink", "  links: cable", "lab.yaml:11: `hardware.links`: should be 'pcie' or 'nvlink', but found 'cable' (str)."),
        ("known: [v2-k1-s2-d3]", "known: [v2-k9]", "lab.yaml:21: `known.0`: A config id reads like"),
        ("latency: 1, throughput: 100", "latency: 100, throughput: 1", "lab.yaml:19: `objectives`: `latency < throughput` must hold, but got 100 and 1"),
        ("launches: 40", "launches: 0", "lab.yaml:22: `budget.launches`: should be at least 1, but found 0 (int)."),
        ("watch: [30]", "watch: [30]\nwatch: [40]", "lab.yaml:21: `watch`: is given twice."),
        ("watch: [30]", "watch: [300]", "`engine.max_running_requests` must admit every measured concurrency"),
        ("  release: 0.5.11", "  release: 0.5.11\n  server_args: {--tp: 2}", "lab.yaml:14: `engine.server_args.--tp"),
        ("  gpus: 1", "  gpus: [1", "lab.yaml:8: not YAML: "),
    ],
)  # fmt: skip
def test_mistake_is_one_line_with_its_place(study_text, old, new, said):
    assert old in study_text
    text = mistake(study_text.replace(old, new))
    assert said in text
    assert text.startswith("lab.yaml:") and "\n" not in text and "pydantic" not in text


def test_two_mistakes_are_two_lines_in_the_order_of_the_file(study_text):
    text = mistake(study_text.replace("sm: 90", "sm: x").replace("sampler: random", "sampler: magic"))
    assert [line.split(":")[1] for line in text.splitlines()] == ["9", "23"]


@pytest.mark.parametrize(
    "name",
    ["A$(touch hit)B", "A`touch hit`", "A;touch hit;B", "A B", "A=B", "A\\nB", "1A", "Ä", "", "SPEC_SEARCH_LAUNCH"],
)
@pytest.mark.parametrize("place", ["engine", "serving"])
def test_variable_whose_name_a_script_would_run_is_refused(study_text, place, name):
    key = f'  env: {{"{name}": x}}\n'
    text = study_text.replace("  release: 0.5.11\n", "  release: 0.5.11\n" + key * (place == "engine"))
    text += ("serving:\n" + key) * (place == "serving")
    assert f"`{place}.env." in mistake(text)


@pytest.mark.parametrize("name", ["tp$(touch hit)", "a b", "a;b", "-x", "--x", "A", "a=b", "x\\ny", ""])
@pytest.mark.parametrize("place", ["engine", "serving"])
def test_flag_whose_name_a_script_would_run_is_refused(study_text, place, name):
    key = f'  server_args: {{"{name}": x}}\n'
    text = study_text.replace("  release: 0.5.11\n", "  release: 0.5.11\n" + key * (place == "engine"))
    text += ("serving:\n" + key) * (place == "serving")
    assert f"`{place}.server_args." in mistake(text)


@pytest.mark.parametrize("name", ["../x", "a/b", "$(touch hit)", "a b", ".x", "", "x\\ny", "A" * 200, "..", "-x"])
def test_study_whose_name_is_a_path_or_a_command_is_refused(study_text, name):
    assert "`study`" in mistake(study_text.replace("study: lab", f'study: "{name}"'))


@pytest.mark.parametrize("name", sorted({"host", "port", "api-key", "log-level"} | OWNED_ARGUMENTS.keys()))
def test_argument_that_is_ours_is_refused_with_its_reason(study_text, name):
    text = mistake(study_text.replace("  release: 0.5.11\n", f"  release: 0.5.11\n  server_args: {{{name}: 1}}\n"))
    assert "`engine.server_args" in text and name in text and OWNED_ARGUMENTS[name] in text
    text = mistake(study_text.replace("  topk: [1, 2]\n", f"  topk: [1, 2]\n  flags: {{{name}: [1, 2]}}\n"))
    assert "`space.flags" in text and name in text


@pytest.mark.parametrize("text", ["", "just words", "- a\n- list\n", "study: [unclosed", "\t"])
def test_text_that_is_no_mapping_is_refused_in_one_line(text):
    said = mistake(text)
    assert said.startswith("lab.yaml:") and "\n" not in said


def test_yaml_cannot_run_code(study_text):
    said = mistake(study_text + "title: !!python/object/apply:os.system ['true']\n")
    assert "not YAML" in said


def test_bare_off_is_the_word(study_text):
    spec = parse_study(study_text.replace("[v2-k1-s2-d3]", "[off, v2-k1-s2-d3]"), name="x")
    assert spec.known_configs == (SpecConfig("off"), SpecConfig("v2", 1, 2, 3))


def test_questions_configs_are_launched_too(study_text):
    spec = parse_study(study_text + "questions: {q: {config: v1-k1-s2-d3, against: [off], at: [1]}}\n", name="x")
    assert [config.config_id for config in spec.known_configs] == ["v2-k1-s2-d3", "v1-k1-s2-d3", "off"]


def test_unknown_study_lists_the_known_ones_and_the_nearest(tmp_path, study_text):
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "labor.yaml").write_text(study_text)
    with pytest.raises(UsageError, match=r"no study named 'labour'. Did you mean labor\? Known studies: .*labor"):
        find_study("labour", here=tmp_path)
    assert load_study(find_study("labor", here=tmp_path)).study == "lab"


def test_own_study_file_comes_before_the_packaged_one(tmp_path, study_text):
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "kimi-k25.yaml").write_text(study_text)
    assert find_study("kimi-k25", here=tmp_path) == tmp_path / "spaces" / "kimi-k25.yaml"


def test_path_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no file nowhere/x\.yaml"):
        find_study("nowhere/x.yaml", here=tmp_path)


@pytest.mark.parametrize("name", ["kimi-k25", "h200-lab"])
def test_shipped_studies_are_right(name, tmp_path):
    assert load_study(find_study(name, here=tmp_path)).study == name


@pytest.mark.parametrize(
    ("words", "share"), [("", 0.02), ("worth: 2%\n", 0.02), ("worth: 0.035\n", 0.035), ("worth: 0.5 %\n", 0.005)]
)
def test_gain_that_matters_is_a_share_or_a_percentage(study_text, words, share):
    spec = parse_study(study_text + words, name="x")
    assert spec.worth == pytest.approx(share)
    assert type(spec).model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize("words", ["worth: 2", "worth: -1%", "worth: much", "worth: 0"])
def test_gain_that_matters_lies_between_nothing_and_everything(study_text, words):
    assert "`worth`" in mistake(study_text + words + "\n")


def test_question_may_be_about_a_knob(study_text):
    asked = "questions:\n  wide: {knob: topk, value: 2, against: [1], at: [1, 100]}\n  one: {config: v2-k1-s1-d2, against: [off], at: [1]}\n"
    spec = parse_study(study_text + asked, name="x")
    assert (spec.questions["wide"].value, spec.questions["wide"].against) == (2, (1,))
    assert [config.config_id for config in spec.known_configs] == ["v2-k1-s2-d3", "v2-k1-s1-d2", "off"]
    assert type(spec).model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("{knob: topc, value: 2, against: [1], at: [1]}", "must be a knob of the space, one of spec_version, topk"),
        ("{knob: topk, value: 2, against: [1, 2], at: [1]}", "`value` must not be among `against`, but 2 is"),
        ("{knob: topk, value: 2, at: [1]}", "against"),
        ("{config: off, value: 2, against: [off], at: [1]}", "`questions.q.value`: is not a key of a study file"),
        (
            "{knob: topk, vale: 2, against: [1], at: [1]}",
            "`questions.q.vale`: is not a key of a study file; did you mean `value`?",
        ),
        ("{knob: topk, value: 2, against: [1], at: [0]}", "`questions.q.at.0`: should be at least 1"),
    ],
)
def test_question_about_a_knob_that_cannot_be_asked_is_refused(study_text, question, said):
    assert said in mistake(study_text + f"questions:\n  q: {question}\n")
