"""Lengths of the answers that a phase asks for."""

from hypothesis import given
from hypothesis import strategies as st

from search.contracts import Phase


def test_lengths_at_a_load_are_a_fixed_sequence_around_the_mean():
    phase = Phase(concurrency=4, requests=8, output_tokens=128)
    assert [phase.tokens_of(index) for index in range(8)] == [128, 79, 158, 109, 188, 140, 91, 170]


@given(
    tokens=st.integers(16, 4096),
    spread=st.floats(0.05, 0.9),
    start=st.integers(0, 10_000),
    requests=st.integers(50, 400),
)
def test_any_stretch_of_requests_has_nearly_the_mean_length_and_stays_in_bounds(tokens, spread, start, requests):
    phase = Phase(concurrency=2, requests=requests, output_tokens=tokens, spread=spread)
    asked = [phase.tokens_of(index) for index in range(start, start + requests)]
    assert abs(sum(asked) / requests / tokens - 1) <= 0.06
    assert min(asked) >= max(2, (1 - spread) * tokens - 1) and max(asked) <= (1 + spread) * tokens + 1


def test_alone_or_without_spread_all_answers_are_alike():
    assert {Phase(1, 9, 128).tokens_of(index) for index in range(9)} == {128}
    assert {Phase(8, 9, 128, spread=0.0).tokens_of(index) for index in range(9)} == {128}
