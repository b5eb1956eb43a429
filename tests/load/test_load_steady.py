"""The steady window on a small model of a server: prefills come first, all that wait in one batch, and stop decoding.

That is how SGLang schedules, and why workers that start together go on in bursts.
"""

import random
from statistics import fmean, stdev

import pytest

from search.load.steady import ramp_tokens, slice_count, steady_window, window_rates
from search.load.trace import Trace

CONCURRENCY, TOKENS = 40, 64
PREFILL_S, STEP_S = 0.02, 0.003


class Request:
    def __init__(self, index, worker, wanted, started):
        self.index, self.worker, self.wanted, self.started = index, worker, wanted, started
        self.times, self.counts = [], []

    def give(self, tokens, now):
        self.counts.append(min(self.wanted, (self.counts or [0])[-1] + tokens))
        self.times.append(now)
        return self.counts[-1] == self.wanted

    def trace(self):
        return Trace(
            self.index, f"p{self.index}", self.worker, self.started, tuple(self.times), tuple(self.counts), self.wanted
        )


def closed_loop(requests, *, staggered, seed, accepts=(1, 2, 2, 3, 3)):
    """Traces of the ramp and of the measured requests; each verify pass gives one of `accepts` tokens."""
    draw = random.Random(seed)
    now, ramp, measured = 0.0, [], []
    todo = iter(range(requests))
    waiting, running, early = [], [], set()
    for worker in range(CONCURRENCY):
        if staggered:
            waiting.append(Request(worker, worker, ramp_tokens(worker, CONCURRENCY, TOKENS), 0.0))
            early.add(waiting[-1])
        else:
            waiting.append(Request(next(todo), worker, TOKENS, 0.0))
    while waiting or running:
        batch = waiting or running
        now += (PREFILL_S if waiting else STEP_S) * draw.uniform(0.97, 1.03)
        ended = [r for r in batch if r.give(1 if waiting else draw.choice(accepts), now)]
        running = [r for r in dict.fromkeys([*running, *waiting]) if r not in ended]
        waiting = []
        for request in ended:
            (ramp if request in early else measured).append(request.trace())
            if (index := next(todo, None)) is not None:
                waiting.append(Request(index, request.worker, TOKENS, now))
    return ramp, measured


def rates(requests, *, staggered, seed):
    ramp, measured = closed_loop(requests, staggered=staggered, seed=seed)
    window = steady_window([*ramp, *measured])
    return window_rates([*ramp, *measured], window, slice_count(window, measured))


def test_ramp_spreads_the_ends_evenly_over_one_answer():
    assert [ramp_tokens(worker, 4, 10) for worker in range(4)] == [3, 5, 8, 10]
    assert [ramp_tokens(worker, 5, 2) for worker in range(5)] == [1, 1, 2, 2, 2]


def test_rate_of_a_staggered_phase_hardly_depends_on_its_length():
    short, long = (fmean(rates(n, staggered=True, seed=1)) for n in (120, 960))
    assert short == pytest.approx(long, rel=0.1)


def test_rate_of_workers_that_start_together_does():
    short, long = (fmean(rates(n, staggered=False, seed=1)) for n in (120, 960))
    assert short > 1.5 * long


def test_spread_within_a_staggered_phase_tells_how_far_repeats_lie_apart():
    repeats = [rates(160, staggered=True, seed=seed) for seed in range(12)]
    spread = stdev(fmean(one) for one in repeats)
    within = fmean(stdev(one) / len(one) ** 0.5 for one in repeats)
    assert 0.5 < within / spread < 2.5


def test_measured_requests_of_a_staggered_phase_are_whole():
    ramp, measured = closed_loop(120, staggered=True, seed=1)
    assert sorted(trace.index for trace in measured) == list(range(120))
    assert {trace.tokens for trace in measured} == {TOKENS}
    assert len(ramp) == CONCURRENCY
