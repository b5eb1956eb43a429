"""The closed lists of outcomes and reasons."""

import inspect

import pytest

from search import outcomes
from search.outcomes import Blame, Reason


def test_reason_without_a_blame_does_not_import():
    source = inspect.getsource(outcomes)
    forgetful = source.replace('OOM_KV = "OOM_KV", Blame.CONFIG', 'OOM_KV = "OOM_KV"')
    assert forgetful != source
    with pytest.raises((ValueError, RuntimeError)):
        exec(compile(forgetful, "outcomes.py", "exec"), {"__name__": outcomes.__name__})


def test_reason_is_found_by_its_stored_value_alone():
    assert all(Reason(reason.value) is reason and reason == reason.name for reason in Reason)
    assert Reason("OOM_KV").blame is Blame.CONFIG
