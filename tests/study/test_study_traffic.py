"""`traffic` in a study file."""

import json

import pytest

from search.app.traffic import with_traffic
from search.errors import UsageError
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.spec.stored import stored_spec
from search.spec.study import StudySpec


def study(text, traffic, more=""):
    return parse_study(f"{text}traffic: {traffic}\n{more}", name="x")


def test_shares_are_read_in_percent_or_as_numbers_and_sorted(study_text):
    spec = study(study_text, "{100: 30%, 1: 0.2, 30: 50%}")
    assert dict(spec.used.shares) == pytest.approx({1: 0.2, 30: 0.5, 100: 0.3})
    assert spec.used.loads == (1, 30, 100)
    assert spec.used.words == "20% at C=1, 50% at C=30, 30% at C=100"


def test_its_loads_are_measured_and_what_compares_stays_as_it_was(study_text):
    plain, with_it = parse_study(study_text, name="x"), study(study_text, "{1: 50%, 7: 50%}")
    assert set(with_it.loads) == {*plain.loads, 1, 7}
    assert fingerprint(with_it, kind="measured") == fingerprint(plain, kind="measured")


def test_stored_as_json_it_reads_back_equal(study_text):
    spec = study(study_text, "{1: 20%, 30: 80%}")
    data = json.loads(json.dumps(stored_spec(spec)))
    assert StudySpec.model_validate(data).used == spec.used


def test_thirds_in_whole_percents_make_a_day(study_text):
    assert sum(share for _, share in study(study_text, "{1: 33%, 30: 33%, 100: 33%}").used.shares) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ("{1: 20%, 30: 50%}", "add up to 70.0%"),
        ("{0: 100%}", "at least 1"),
        ("{1: 0%, 30: 100%}", "above 0"),
        ("{1: 200%}", "at most 1"),
        ("{1: .nan}", "traffic"),
        ("{a: 100%}", "traffic"),
        ("[1, 2]", "mapping"),
    ],
)
def test_what_is_no_day_is_refused(study_text, traffic, said):
    with pytest.raises(UsageError, match=said):
        study(study_text, traffic)


def test_sampler_without_its_traffic_is_refused(study_text):
    text = "".join(line for line in study_text.splitlines(keepends=True) if not line.startswith("sampler"))
    with pytest.raises(UsageError, match="`traffic` must say which loads"):
        parse_study(text + "sampler: traffic\n", name="x")
    assert study(text, "{1: 100%}", "sampler: traffic\n").sampler == "traffic"


def test_another_traffic_is_asked_for_on_the_command_line(study_text):
    spec = parse_study(study_text, name="x")
    assert with_traffic(spec, "{1: 60%, 30: 0.4}").used.shares == ((1, 0.6), (30, 0.4))
    for text in ("", "1", "1:60%", "1:60%,1:40%", "x:100%", "1:60%:3"):
        with pytest.raises(UsageError, match="--traffic"):
            with_traffic(spec, text)
