"""A report folder that takes no file any more ends the study after one launch at most."""

import errno

import pytest

from search.errors import BreakerOpen
from search.outcomes import Outcome, Reason
from search.study import outputs
from search.study.events import Ending
from search.testing.engines import Script, ScriptedEngine


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_launch_that_cannot_write_its_files_is_the_last_one(lab, number):
    full = Script(launch_error=OSError(number, "no room"))
    engine = ScriptedEngine(lambda config, _: full if config.speculates else Script())
    heard = lab.run(engine, launches=9)
    assert isinstance(heard.error, BreakerOpen) and "no room" in str(heard.error)
    assert [launch.outcome for launch in lab.launches()] == [Outcome.MEASURED, Outcome.LOST]
    assert lab.launches()[1].reason is Reason.TOOL_ERROR
    assert all(trial.state.is_finished() for trial in lab.trials())
    # With room again its config is asked again.
    again = ScriptedEngine(lambda config, _: Script())
    assert lab.run(again, launches=2).ending is Ending.LAUNCHES  # the lost launch cost none
    assert again.launched == engine.launched[-1:]


def test_disk_that_runs_full_between_launches_costs_none(lab, monkeypatch):
    free = iter([10**12, 10**12, 0, 0])
    monkeypatch.setattr(outputs.shutil, "disk_usage", lambda _: type("Usage", (), {"free": next(free)}))
    heard = lab.run(ScriptedEngine(lambda config, _: Script()), launches=9)
    assert isinstance(heard.error, BreakerOpen) and "0 MiB left" in str(heard.error)
    assert [launch.outcome for launch in lab.launches()] == [Outcome.MEASURED] * 2
    assert all(trial.state.is_finished() for trial in lab.trials())


def test_other_fault_of_a_file_is_this_launchs_alone(lab):
    odd = Script(launch_error=OSError(errno.EIO, "odd"))
    heard = lab.run(ScriptedEngine(lambda config, _: odd if config.num_steps == 2 else Script()), launches=3)
    assert heard.error is None and heard.ending is Ending.LAUNCHES
