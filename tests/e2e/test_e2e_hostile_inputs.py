"""Hostile study files, tables, databases and logs: each ends in a right answer or a clear error, and harms nothing else."""

import pytest
from hostile_inputs import cases, good_inputs, tried

pytestmark = pytest.mark.slow(100)

AT_LEAST = {"study file": 80, "table": 80, "database": 40, "log": 40, "brought": 50}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    good_inputs(folder)
    return folder


@pytest.mark.parametrize("kind", AT_LEAST)
@pytest.mark.timeout(600)
def test_hostile_input_gets_an_answer_or_a_clear_error(base, tmp_path, kind):
    ends = [tried(case, tmp_path / str(number)) for number, case in enumerate(cases(0, base)) if case.kind == kind]
    assert not [f"{end.case.name}: {end.wrong}" for end in ends if end.wrong]
    assert len(ends) >= AT_LEAST[kind]
    # The corpus tells nothing if everything is refused, or nothing is.
    assert len({end.answer for end in ends}) > 1 or kind == "log"
