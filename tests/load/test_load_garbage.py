"""Answers of not-a-numbers are refused, be they a third of all, or right in their first tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from load_streams import DONE, record

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.garbage import FEWEST_TOKENS, is_garbage, refuse_garbage
from search.load.phases import run_phase
from search.load.target import Prompt
from search.load.trace import Trace
from search.outcomes import Reason

PHASE = Phase(concurrency=1, requests=30, output_tokens=64)
NONSENSE = (0,) * 60


def trace(index, ids):
    return Trace(index, f"p{index}", 0, 0.0, (1.0, 2.0), (1.0, float(len(ids))), len(ids), output_ids=tuple(ids))


def answers(count, *, garbage):
    """`count` answers, of which `garbage` break off into not-a-numbers after four right tokens."""
    return [trace(n, (11, 12, 13, 14, *NONSENSE) if n < garbage else range(100 + n, 164 + n)) for n in range(count)]


@pytest.mark.parametrize("garbage", [30, 10, 2])
def test_garbage_after_the_first_right_tokens_is_refused_with_its_count(garbage):
    with pytest.raises(LoadFailed) as caught:
        refuse_garbage(answers(30, garbage=garbage), PHASE)
    assert caught.value.reason is Reason.BAD_OUTPUT
    assert caught.value.evidence.root_line.startswith(f"{garbage} of 30 answers are garbage: that to p0")
    assert "from place 4 of 64 on" in caught.value.evidence.root_line


def test_healthy_answers_and_a_single_odd_one_pass():
    refuse_garbage(answers(30, garbage=0), PHASE)
    refuse_garbage(answers(30, garbage=1), PHASE)


def test_answers_that_are_not_told_pass():
    refuse_garbage([trace(n, ()) for n in range(8)], PHASE)


def test_token_that_no_vocabulary_has_is_garbage():
    assert is_garbage(trace(0, (5, -1, 7)))


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=80))
def test_loops_and_texts_of_other_tokens_are_no_garbage(ids):
    assert not is_garbage(trace(0, ids * 3))


@given(st.integers(0, FEWEST_TOKENS - 1))
def test_short_run_of_the_token_is_no_garbage(length):
    assert not is_garbage(trace(0, (7,) * 20 + (0,) * length))


async def test_phase_of_garbage_gives_no_numbers(server):
    async def script(stream):
        ids = [3, 4, *[0] * (stream.tokens - 2)]
        for n in range(1, stream.tokens):
            await stream.write(record(n, ids=ids[:n]))
        await stream.write(record(stream.tokens, finish="length", ids=ids) + DONE)

    server.script = script
    phase = Phase(concurrency=1, requests=2, output_tokens=40)
    with pytest.raises(LoadFailed) as caught:
        await run_phase(server.target(), [Prompt("p", "chat", json.dumps("x"))], phase, 1)
    assert caught.value.reason is Reason.BAD_OUTPUT
