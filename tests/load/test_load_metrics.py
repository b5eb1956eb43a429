import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.metrics import accept_length
from search.load.steady import Window, slice_count, steady_window, window_rates
from search.load.summary import summarise
from search.load.trace import Trace
from search.outcomes import Note


def trace(index=0, worker=0, started=0.0, times=(1.0, 2.0), counts=(1, 2), **more) -> Trace:
    return Trace(index, f"p{index}", worker, started, times, counts, int(counts[-1]), **more)


@st.composite
def phases(draw) -> list[Trace]:
    """Traces of a closed loop: workers one after the other in time, random gaps and token counts."""
    traces = []
    for worker in range(draw(st.integers(1, 4))):
        now = 0.0
        for _ in range(draw(st.integers(1, 3))):
            started = now
            gaps = draw(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6))
            steps = draw(st.lists(st.integers(1, 4), min_size=len(gaps), max_size=len(gaps)))
            times, counts, count = [], [], 0
            for gap, step in zip(gaps, steps, strict=True):
                now, count = now + gap, count + step
                times.append(now)
                counts.append(count)
            traces.append(trace(len(traces), worker, started, tuple(times), tuple(counts)))
    return traces


def test_steady_window_runs_from_all_busy_to_first_idle():
    traces = [
        trace(0, worker=0, times=(1.0, 4.0)),
        trace(1, worker=1, times=(2.0, 5.0)),
        trace(2, worker=0, times=(4.5, 8.0)),
        trace(3, worker=1, times=(5.5, 9.0)),
    ]
    assert steady_window(traces) == Window(2.0, 8.0)


def test_steady_window_of_one_worker_is_first_token_to_last():
    assert steady_window([trace(0, times=(1.0, 4.0)), trace(1, times=(4.5, 8.0))]) == Window(1.0, 8.0)


def test_steady_window_does_not_exist_when_one_was_idle_first():
    assert steady_window([trace(0, worker=0, times=(1.0, 2.0)), trace(1, worker=1, times=(2.0, 3.0))]) is None


def test_window_rates_leave_out_tokens_before_and_after():
    one = trace(0, times=(0.5, 1.0, 1.5, 5.0, 11.0, 12.0), counts=(1, 2, 4, 7, 11, 16))
    # Slices of 1 s over (1, 11]: 2 tokens at 1.5, 3 at 5.0, 4 at 11.0.
    assert window_rates([one], Window(1.0, 11.0), 10) == pytest.approx((2, 0, 0, 3, 0, 0, 0, 0, 0, 4))


@pytest.mark.parametrize(
    ("answer_s", "window_s", "slices"),
    [(3.0, 24.0, 8), (0.2, 24.0, 24), (3.0, 9.0, 4), (0.2, 0.8, 4)],
    ids=["an answer long", "no shorter than a second", "at least four", "of a short phase too"],
)
def test_slices_are_as_long_as_an_answer(answer_s, window_s, slices):
    answers = [trace(i, started=i, times=(i + 0.1, i + answer_s)) for i in range(3)]
    assert slice_count(Window(5.0, 5.0 + window_s), answers) == slices


def burst(concurrency, answers, prefill_s, step_s, tokens):
    """A closed loop of a server that prefills alone and decodes all together, started at once."""
    traces, now = [], 0.0
    for n in range(answers):
        started, times = now, []
        now += prefill_s * concurrency
        for _ in range(tokens):
            now += step_s
            times.append(now)
        counts = tuple(range(1, tokens + 1))
        traces += [trace(n * concurrency + w, w, started, tuple(times), counts) for w in range(concurrency)]
    return traces


def test_slices_do_not_take_bursts_of_prefills_for_uncertainty():
    # 2 s of prefills in a burst, then 2 s of decoding, six times: slices of a second would hold 0 or 1,000 tokens.
    traces = burst(concurrency=100, answers=6, prefill_s=0.02, step_s=0.1, tokens=20)
    window = steady_window(traces)
    rates = window_rates(traces, window, slice_count(window, traces))
    assert len(rates) == 5
    assert max(rates) / min(rates) < 1.3
    assert min(window_rates(traces, window, 20)) == 0


@given(phases())
def test_mean_of_the_slices_is_the_rate_of_the_window(traces):
    window = steady_window(traces)
    if window is None:
        return
    inside = sum(
        count - before
        for one in traces
        for at, count, before in zip(one.times, one.counts, (0, *one.counts), strict=False)
        if window.start < at <= window.end
    )
    rates = window_rates(traces, window, slice_count(window, traces))
    assert len(rates) >= 4
    assert sum(rates) / len(rates) == pytest.approx(inside / (window.end - window.start))


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 5)), min_size=1))
def test_accept_length_lies_between_those_of_the_requests(pairs):
    traces = [trace(i, counts=(1, passes * each), verify_count=passes) for i, (passes, each) in enumerate(pairs)]
    low, high = min(each for _, each in pairs), max(each for _, each in pairs)
    assert low - 1e-9 <= accept_length(traces) <= high + 1e-9


def test_perfect_drafts_may_exceed_the_bound_by_the_token_of_the_prefill():
    # 2 steps: one token from the prefill, then 85 passes of 3.
    one = trace(0, times=(1.0, 2.0), counts=(1, 256), verify_count=85)
    phase = Phase(concurrency=1, requests=1, output_tokens=256)
    assert summarise([one], phase, 1, num_steps=2).accept_length == pytest.approx(3.0118, abs=1e-4)
    with pytest.raises(LoadFailed, match="must lie in"):
        summarise([trace(0, counts=(1, 256), verify_count=84)], phase, 1, num_steps=2)


def test_drafts_that_never_help_are_noted():
    phase = Phase(concurrency=1, requests=1, output_tokens=100)
    result = summarise([trace(0, counts=(1, 100), verify_count=99)], phase, 1, num_steps=3)
    assert (round(result.accept_length, 2), result.notes) == (1.01, (Note.NO_DRAFT_GAIN,))


def test_prompt_times_come_in_prompt_order_whoever_ended_first():
    late = trace(0, worker=0, times=(1.0, 4.0), counts=(1, 4))
    early = trace(1, worker=1, times=(1.0, 2.5), counts=(1, 4))
    result = summarise([early, late], Phase(concurrency=2, requests=2, output_tokens=4, spread=0.0), 1, num_steps=None)
    assert result.prompt_tpot_ms == pytest.approx((1000, 500))
    assert result.tpot_ms == pytest.approx(750)


def test_shared_template_in_the_cache_is_no_taint():
    phase = Phase(concurrency=1, requests=1, output_tokens=2)
    result = summarise([trace(prompt_tokens=40, cached_tokens=30)], phase, 1, num_steps=None)
    assert result.notes == ()


def test_tokens_that_take_no_time_void_the_phase():
    at_once = trace(times=(1.0, 1.0, 1.0), counts=(1, 2, 3))
    with pytest.raises(LoadFailed, match=r"METRIC_INVALID.*tokens must take time"):
        summarise([at_once], Phase(concurrency=1, requests=1, output_tokens=3), 1, num_steps=None)
