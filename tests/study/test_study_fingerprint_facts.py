"""The machine's share of a fingerprint: missing answers differ from nothing, accepted changes are marked."""

import pytest

from search.contracts import RealClock
from search.errors import UsageError
from search.spec.fingerprint import differences, renewed
from search.storage.store import Store
from search.study.events import Ending
from search.study.resume import accept_changes
from search.testing.engines import Script, ScriptedEngine, Speed

TORCH_29 = {"environment.torch": "2.9.1", "environment.nccl": "2.28.3"}


def engine():
    return ScriptedEngine(lambda config, _: Script(Speed({1: 100.0, 30: 600.0, 100: 1000.0})))


def test_changed_fact_is_a_difference():
    assert differences(TORCH_29, TORCH_29 | {"environment.torch": "2.10.0"}) == ["environment.torch: 2.9.1 -> 2.10.0"]


@pytest.mark.parametrize("answer", [{}, {"environment.torch": "unknown"}], ids=["not asked", "no answer"])
def test_fact_without_an_answer_differs_from_nothing_and_is_kept(answer):
    without = {"environment.nccl": "2.28.3"} | answer
    assert differences(TORCH_29, without) == [] == differences(without, TORCH_29)
    assert renewed(TORCH_29, without) == TORCH_29 == renewed(without, TORCH_29)


def test_key_of_the_study_file_that_is_gone_is_a_difference():
    assert differences({"engine.env.NCCL_ALGO": "Ring"}, {}) == ["engine.env.NCCL_ALGO: Ring -> not set"]


def test_changed_environment_is_refused_until_it_is_accepted_and_then_marked(lab):
    lab.run(engine(), launches=2, facts=TORCH_29)
    now = TORCH_29 | {"environment.torch": "2.10.0"}
    error = lab.run(engine(), launches=3, facts=now).error
    assert isinstance(error, UsageError)
    assert "  environment.torch: 2.9.1 -> 2.10.0\n" in str(error) and "`--accept-changes`" in str(error)
    with Store(lab.folder / "trials.db") as store:
        now = store.study("lab").fingerprint | now
        told = accept_changes("lab", now, store=store, clock=RealClock())
        assert accept_changes("lab", now, store=store, clock=RealClock()) == ()
        notes = store.study("lab").notes
    assert told == ("environment.torch: 2.9.1 -> 2.10.0",)
    assert notes == ("fingerprint changed at launch 3: environment.torch: 2.9.1 -> 2.10.0",)
    assert lab.run(engine(), launches=3, facts=now).ending is Ending.LAUNCHES
    assert isinstance(lab.run(engine(), launches=4, facts=TORCH_29).error, UsageError)
