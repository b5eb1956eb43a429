"""Kills or stops a part of a running study, then the same command finishes it: nothing left, lost, torn or doubled."""

import pytest
from drill_cases import MOMENTS, SIGNALS, SINGLES, SWITCHES, all_cases, run_case, sample
from drill_databases import binaries
from drill_pairs import Pair, all_pairs, can_unshare, run_pair

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
    names = [str(case) for case in all_cases() if case.database == "sqlite"]
    assert len(MOMENTS) == 10
    assert {name for name in names if name.endswith("KILL-end")} == {
        "driver-KILL-end",
        "actor-KILL-end",
        "raylet-KILL-end",
    }
    plain = [name for name in names if not name.endswith("-runaways")]
    assert sum(name.startswith("guardian-STOP-") for name in plain) == 7 + len(SWITCHES)


def test_drill_strikes_every_part_in_the_middle_of_a_switch_and_of_a_build():
    names = {str(case) for case in all_cases()}
    assert {f"{v}-{s}-{m}" for v in SINGLES for s in SIGNALS for m in ("building", "switching")} <= names


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


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed")
def test_drill_strikes_every_part_under_load_in_postgresql_too():
    served = [case for case in all_cases() if case.database == "postgres"]
    assert {(case.victims, case.signal) for case in served} >= {
        ((victim,), sign) for victim in SINGLES for sign in ("KILL", "STOP")
    }
    assert sum(case.runaways for case in served) == 12


@pytest.mark.skipif(not can_unshare(), reason="a PID namespace of one's own needs the right to make it")
def test_drill_sets_two_drivers_with_unlike_clocks_beside_each_other_in_every_database():
    pairs = all_pairs()
    assert len({str(pair) for pair in pairs}) == len(pairs)
    for database in {pair.database for pair in pairs}:
        mine = {(pair.victims, pair.signal, pair.clock) for pair in pairs if pair.database == database}
        assert len(mine) == 10 and {clock for _, _, clock in mine} == {"ahead", "behind"}


@pytest.mark.slow(about_s=40)
@pytest.mark.timeout(600)
@pytest.mark.skipif(not can_unshare(), reason="a PID namespace of one's own needs the right to make it")
def test_live_driver_with_another_clock_in_another_namespace_loses_nothing_to_a_second_one():
    result = run_pair(Pair((), "none", "behind", "sqlite"))
    assert result.wrong == [], result.as_row()
    assert result.lost == 0
