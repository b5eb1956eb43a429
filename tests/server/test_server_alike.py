"""Two failures of one cause are alike, whatever numbers their words hold."""

import pytest

from search.outcomes import Evidence
from search.server.alike import cause_key, same_cause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RuntimeError: refused by policy 17 at 0x7f21aa00", "RuntimeError: refused by policy 18 at 0x7f99bb10"),
        ("OSError: /tmp/a/launches/0003-off/x.bin is gone", "OSError: /tmp/a/launches/0007-v2-k1/x.bin is gone"),
        ("ended with exit code 3; last line: loading 12%", "ended with exit code 3; last line: loading 55%"),
    ],
)
def test_lines_that_differ_in_numbers_folders_and_last_words_are_alike(one, other):
    assert same_cause(Evidence(one, "loading"), Evidence(other, "loading"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Evidence("KeyError: 'eagle'", "loading"), Evidence("KeyError: 'vocab'", "loading")),
        (Evidence("RuntimeError: no", "loading"), Evidence("RuntimeError: no", "c=100")),
        (Evidence("OSError: /a/x.bin is gone"), Evidence("OSError: /a/y.json is gone")),
        (Evidence(""), Evidence("")),
    ],
)
def test_other_words_another_moment_and_silence_are_not_alike(one, other):
    assert not same_cause(one, other)


def test_every_load_is_one_moment():
    assert cause_key(Evidence("x", "c=1")) == cause_key(Evidence("x", "c=100"))
