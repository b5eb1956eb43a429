"""Each note of a phase appears when it should and does not when it should not; one table."""

import pytest

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.summary import summarise
from search.load.trace import Trace
from search.outcomes import Note, Reason


def answers(passes, *, tokens=101, prompt_tokens=100, cached=0, count=40):
    """Requests of one worker, a second each; `passes` and `cached` by request."""
    traces = []
    for i in range(count):
        told = passes(i) if callable(passes) else passes
        served = cached(i) if callable(cached) else cached
        times = (i + 0.1, i + 0.9)
        traces.append(
            Trace(i, f"p{i}", 0, float(i), times, (1, tokens), tokens, told, (), prompt_tokens, served, "length")
        )
    return traces


def noted(traces, num_steps, **more):
    phase = Phase(concurrency=1, requests=len(traces), output_tokens=traces[0].tokens)
    return summarise(traces, phase, 1, num_steps=num_steps, **more).notes


SPLIT = (Note.ACCEPT_DRIFT,)


@pytest.mark.parametrize(
    ("traces", "num_steps", "notes"),
    [
        (answers(None), None, ()),
        (answers(50), 3, ()),
        (answers(100), 3, (Note.NO_DRAFT_GAIN,)),
        (answers(96), 3, ()),  # 1.052
        (answers(50, cached=90), 3, (Note.CACHE_TAINTED,)),
        (answers(50, cached=lambda i: 90 if i < 2 else 0), 3, ()),  # 2 of 40 are no more than 5 %
        (answers(50, cached=lambda i: 90 if i < 3 else 0), 3, (Note.CACHE_TAINTED,)),
        (answers(50, cached=30), 3, ()),  # a template's beginning
        (answers(lambda i: 40 if i < 20 else 60), 3, SPLIT),
        (answers(lambda i: 60 if i < 20 else 40), 3, SPLIT),
        (answers(lambda i: 50 if i < 20 else 55), 3, ()),  # 9 %
        (answers(lambda i: 30 if i % 2 else 90), 3, ()),  # prompts differ, halves do not
        (
            answers(lambda i: (90 if i % 2 else 30) if i < 20 else (99 if i % 2 else 40)),
            3,
            (),
        ),  # within its uncertainty
        (answers(lambda i: 40 if i < 7 else 60, count=14), 3, ()),  # too few requests
        (answers(lambda i: 4 if i < 20 else 6, tokens=11), 3, ()),  # too few passes
    ],
)
def test_notes_of_the_requests(traces, num_steps, notes):
    assert noted(traces, num_steps) == notes


@pytest.mark.parametrize(("client_s", "notes"), [(None, ()), (20.0, ()), (31.0, ()), (33.0, (Note.CLIENT_NEAR_LIMIT,))])
def test_client_above_four_fifths_of_a_processor_is_noted(client_s, notes):
    assert noted(answers(None), None, client_s=client_s) == notes  # over 39.9 s


def test_client_that_never_idles_is_the_bottleneck():
    with pytest.raises(LoadFailed, match="used 99% of a processor") as caught:
        noted(answers(None), None, client_s=39.5)
    assert caught.value.reason is Reason.CLIENT_LIMITED


def test_busy_client_of_a_phase_under_a_second_is_not_judged():
    traces = answers(None, count=1)
    result = summarise(traces, Phase(concurrency=1, requests=1, output_tokens=101), 1, num_steps=None, client_s=0.9)
    assert (result.client_busy, result.notes) == (1.0, ())


def test_notes_found_before_come_first():
    assert noted(answers(100), 3, notes=(Note.WARMUP_TAINTED,)) == (Note.WARMUP_TAINTED, Note.NO_DRAFT_GAIN)
