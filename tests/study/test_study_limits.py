"""What a request must keep to count as good, from the study file to the client."""

import pytest

from search.errors import UsageError
from search.load.target import Limits
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", None),
        ("measure: {limits: {}}", None),
        ("measure: {limits: {ttft_ms: 500}}", Limits(ttft_ms=500.0)),
        ("measure: {limits: {ttft_ms: 500, tpot_ms: 12.5}}", Limits(ttft_ms=500.0, tpot_ms=12.5)),
    ],
)
def test_limits_reach_the_client_as_written_and_change_no_measurement(study_text, text, limits):
    plain, spec = parse_study(study_text, name="x"), parse_study(study_text + text, name="x")
    assert spec.measure.limits.load_limits == limits
    assert fingerprint(spec, kind="measured") == fingerprint(plain, kind="measured")


@pytest.mark.parametrize("text", ["ttft_ms: 0", "tpot_ms: -1", "e2e_ms: 5"])
def test_limits_that_nothing_can_keep_or_nobody_knows_are_refused(study_text, text):
    with pytest.raises(UsageError, match="limits"):
        parse_study(study_text + f"measure: {{limits: {{{text}}}}}", name="x")
