"""Where the hours of a study went."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.analysis.hours import hours_by_stage
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.storage.records import LaunchRecord

PHASE = PhaseResult(1, 1, 16, 2048, 10.0, 100.0, 100.0, 10.0, 50.0, warmup_s=4.0)
ONE = LaunchRecord(
    1,
    "baseline",
    SpecConfig.from_id("off"),
    SpecConfig.from_id("off"),
    datetime(2026, 1, 1, tzinfo=UTC),
    boot_s=780.0,
    duration_s=820.0,
    phases=(PHASE, PHASE),
)


def test_every_second_of_a_study_is_in_one_column_and_one_stage():
    begun = replace(ONE, number=2, stage="search", start=2)
    switched = replace(begun, number=3, place=1, boot_s=None, switch_s=40.0, duration_s=70.0)
    failed = replace(ONE, number=4, stage="search", boot_s=None, duration_s=300.0, phases=())
    first, search, whole = hours_by_stage([ONE, begun, switched, failed])
    assert (first.stage, first.starts, first.start_s, first.warmup_s, first.phase_s) == (
        "baseline",
        1,
        780.0,
        8.0,
        20.0,
    )
    assert (search.measurements, search.starts, search.switch_s) == (3, 2, 40.0)
    assert (whole.stage, whole.total_s) == ("", 820.0 + 820.0 + 70.0 + 300.0)
    assert whole.rest_s == pytest.approx(12.0 + 12.0 + 2.0 + 300.0)


def test_study_without_launches_has_no_table():
    assert hours_by_stage([]) == ()
