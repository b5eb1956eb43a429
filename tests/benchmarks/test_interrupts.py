"""Random strikes on whole processes; the benchmark does many more of them."""

import pytest

from benchmarks.interrupts import run


@pytest.mark.slow(about_s=60)
@pytest.mark.timeout(900)
def test_no_strike_is_lost_and_every_study_resumes_whenever_it_comes():
    found = list(run(30, seed=1000, jobs=2))
    assert [strike for strike in found if not strike.is_kept] == []
    assert sum(strike.accepted for strike in found) >= 10
    assert sum(strike.accepted and strike.running and strike.says_how for strike in found) >= 5
