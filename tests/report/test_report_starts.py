"""A start holds one measurement or several, and the report says which."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from search.config import SpecConfig
from search.report.starts import are_shared, starts_words
from search.storage.records import LaunchRecord

ONE = LaunchRecord(1, "search", SpecConfig.from_id("off"), SpecConfig.from_id("off"), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("starts", "words", "shared"),
    [
        ((), "0 starts", False),
        ((None, None), "2 starts", False),
        ((1,), "1 start", False),
        ((None, 2, 2, 2), "2 starts with 4 measurements", True),
    ],
)
def test_measurements_are_named_where_a_start_holds_several(starts, words, shared):
    launches = [replace(ONE, number=number, start=start) for number, start in enumerate(starts, 1)]
    assert (starts_words(launches), are_shared(launches)) == (words, shared)
