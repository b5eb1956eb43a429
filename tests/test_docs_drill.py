"""The tests that `docs/drill.md` says hold the twelve faults exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "drill.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (\d+)\. [^|]*\| (.*) \|$", TEXT, re.MULTILINE))
NAMED = sorted(set(re.findall(r"`(tests/[a-z0-9_/]+\.py)::(test_[A-Za-z0-9_]+)`", TEXT)))


def test_every_fault_has_tests():
    assert list(ROWS) == [str(number) for number in range(1, 13)]
    assert all("::test_" in tests for tests in ROWS.values())


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_named_test_exists(path, name):
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
