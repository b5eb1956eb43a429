"""Which accept lengths differ by more than their uncertainty, and which only look so."""

from dataclasses import replace

import pytest

from search.contracts import PhaseResult
from search.stats.acceptance import accept_drift, accept_estimate, accept_ratio

OTHERS = tuple(f"q{i}" for i in range(16))
FEW, MANY = tuple(f"p{i}" for i in range(16)), tuple(f"p{i}" for i in range(200))


def result(accept, *, tokens=4096, ids=(), requests=16, histogram=()):
    return PhaseResult(1, 1, requests, tokens, 10.0, 100.0, 100.0, 10.0, 50.0, accept, histogram, prompt_ids=tuple(ids))


@pytest.mark.parametrize(
    ("c1", "loaded", "drifted"),
    [
        (result(2.37, ids=FEW), result(1.15, ids=MANY), True),  # seen on v1 of SGLang 0.5.11
        (result(2.6), result(1.26), True),
        (result(2.37, tokens=300), result(1.15), True),
        (result(2.37, tokens=100), result(1.15), False),  # 42 passes tell nothing
        (result(2.37, tokens=None), result(1.15), False),
        (result(2.4, ids=FEW), result(2.0, ids=FEW), True),  # the same prompts, 17 % lower
        (result(2.4, ids=FEW), result(2.0, ids=OTHERS), False),  # other prompts may be that hard
        (result(2.4), result(2.0), True),  # nameless ones of a study are the same
        (result(2.4, requests=8), result(2.0, requests=400), False),
        (result(2.73, tokens=None, histogram=(104, 102, 920)), result(1.31, histogram=(24144, 1515, 3691)), True),
        (result(2.4, ids=FEW), result(2.3, ids=FEW), False),  # 4 % changes nothing
        (result(2.4, ids=FEW), result(3.0, ids=FEW), False),
        (result(None), result(1.15), False),
        (result(2.37), result(None), False),
    ],
)
def test_accept_drift_is_a_fall_beyond_its_uncertainty(c1, loaded, drifted):
    assert accept_drift(c1, loaded) is drifted


def test_two_workers_on_the_same_prompts_can_be_told_apart():
    v2, v1 = result(2.22, ids=FEW, tokens=8192), result(2.38, ids=FEW, tokens=8192)
    told = accept_ratio(v2, v1)
    assert round(told.value, 3) == 0.933 and told.hi < 1
    assert accept_ratio(v2, result(2.38, ids=OTHERS, tokens=8192)).hi > 1
    assert accept_ratio(v2, result(None)) is None


def test_histogram_tells_the_noise_of_a_pass():
    sure = result(2.0, ids=FEW, histogram=(0, 2048, 0))
    unsure = replace(sure, accept_histogram=(1024, 0, 1024))
    assert accept_ratio(sure, sure).hi == 1.0
    assert round(accept_ratio(unsure, unsure).hi, 3) == 1.044


def test_accept_estimate_is_as_sure_as_its_prompts():
    few, many = accept_estimate([result(2.0, ids=FEW)] * 2), accept_estimate([result(2.0, ids=MANY, tokens=51200)] * 2)
    assert few.value == many.value == 2.0
    assert (round(few.lo, 2), round(few.hi, 2)) == (1.81, 2.21)
    assert (round(many.lo, 2), round(many.hi, 2)) == (1.94, 2.06)
    assert accept_estimate([result(None)]) is None
    assert accept_estimate([result(2.0, tokens=None)]).lo is None
    assert accept_estimate([result(1.0, ids=FEW)]).lo == 1.0
