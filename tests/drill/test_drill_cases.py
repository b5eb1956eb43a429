"""Kills or stops a part of a running study, then the same command finishes it: nothing left, lost, torn or doubled."""

import pytest
from drill_cases import MOMENTS, SINGLES, all_cases, run_case, sample

SEED, COUNT = 0, 14


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        # Unknown unless this folder was named on the command line.
        whole = metafunc.config.getoption("--drill-all", default=False)
        metafunc.parametrize("case", all_cases() if whole else sample(SEED, COUNT), ids=str)


@pytest.mark.slow(about_s=20)
@pytest.mark.timeout(400)
def test_study_survives(case):
    result = run_case(case)
    assert result.wrong == [], result.as_row()


def test_drill_strikes_every_part_with_both_signals_at_every_moment_it_lives_through():
    names = [str(case) for case in all_cases()]
    assert len(names) == len(set(names))
    assert len(MOMENTS) == 10
    assert {name for name in names if name.endswith("KILL-end")} == {
        "driver-KILL-end",
        "actor-KILL-end",
        "raylet-KILL-end",
    }
    plain = [name for name in names if not name.endswith("-runaways")]
    assert sum(name.startswith("guardian-STOP-") for name in plain) == 7


def test_drill_strikes_servers_with_runaways():
    names = {str(case) for case in all_cases()}
    assert {"guardian-KILL-loaded-runaways", "driver-STOP-loaded-runaways", "launcher-KILL-stopping-runaways"} <= names
    assert sum(name.endswith("-runaways") for name in names) == 34


def test_sample_of_any_seed_names_every_part_with_both_signals():
    for seed in range(5):
        drawn = sample(seed, COUNT)
        assert len(drawn) == COUNT
        assert {(c.victims[0], c.signal) for c in drawn if len(c.victims) == 1} == {
            (victim, sign) for victim in SINGLES for sign in ("KILL", "STOP")
        }
        assert drawn == sample(seed, COUNT)
