"""The steady window of a phase, and the rate inside it.

Workers that start together on answers of one length end together: every prefill falls into a
burst, the bursts return once per answer, and the window holds a lucky or an unlucky number of
them (two repeats of one config lay 21 % apart on a real GPU, 300 requests of 128 tokens at
concurrency 100). A staggered phase therefore begins with a ramp: worker w of C first asks for
(w + 1) / C of an answer. What is left of the running answers is then spread evenly over one
length, as it is at any moment of a closed loop that has run for ever, so prefills come one by
one from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from search.load.trace import Trace

_MIN_SLICES = 4
_MIN_SLICE_S = 1.0


class Window(NamedTuple):
    """The steady window, in seconds of the phase's clock: start excluded, end included."""

    start: float
    end: float


def ramp_tokens(worker: int, concurrency: int, output_tokens: int) -> int:
    """Tokens of the unmeasured first answer of `worker`: ceil(output_tokens * (worker + 1) / concurrency).

    In worker order, because a server prefills in the order of arrival: the delays of the first,
    common prefill then stretch the spread of the ends and do not tear holes into it.
    """
    return ceil(output_tokens * (worker + 1) / concurrency)


def steady_window(traces: Iterable[Trace]) -> Window | None:
    """From all workers busy to the first idle one.

    Starts when the last worker gets the first token of its first request, a ramp's included; ends
    when the first worker gets the last token of its last one. At concurrency 1 this is the whole
    run from its first token to its last. None when a worker fell idle before all were busy.

    The tokens of a ramp count in the rate: without them the workers still in it would seem idle.
    They are the beginnings of answers, so over the first answer's length positions are a third
    of an answer instead of a half on average; with k answers per worker the window's mean
    position is low by 1 / (6 k) of an answer, which moves the rate by well under 1 %, alike in
    every config. To start after the ramp instead would cost a k-th of the window.
    """
    busy: dict[int, float] = {}
    idle: dict[int, float] = {}
    for trace in traces:
        busy[trace.worker] = min(trace.first, busy.get(trace.worker, trace.first))
        idle[trace.worker] = max(trace.last, idle.get(trace.worker, trace.last))
    window = Window(max(busy.values()), min(idle.values()))
    return window if window.end > window.start else None


def slice_count(window: Window, traces: Sequence[Trace]) -> int:
    """How many equal slices the window is cut into: each as long as a mean answer takes, and a second.

    Over the length of one answer every worker prefills and decodes once. A shorter slice holds a
    burst of prefills or none, and the spread of such slices would show the load's rhythm, not the
    uncertainty of its mean. At least four, or there is nothing to resample: a phase too short for that
    has slices shorter than a cycle and errs towards more uncertainty.

    Args:
        traces: The measured requests; a ramp's are shorter than an answer.
    """
    answer_s = sum(trace.last - trace.started for trace in traces) / len(traces)
    return max(_MIN_SLICES, int((window.end - window.start) / max(answer_s, _MIN_SLICE_S)))


def window_rates(traces: Iterable[Trace], window: Window, slices: int) -> tuple[float, ...]:
    """Tokens per second in equal consecutive slices of `window`; their mean is the window's rate.

    A token belongs to the slice (start, end] in which its record was read.
    """
    edges = np.linspace(window.start, window.end, slices + 1)
    totals = np.zeros(slices)
    for trace in traces:
        times = np.asarray(trace.times)
        tokens = np.diff(trace.counts, prepend=0.0)
        place = np.searchsorted(edges, times, side="left") - 1
        inside = (place >= 0) & (place < slices)
        np.add.at(totals, place[inside], tokens[inside])
    rates: npt.NDArray[np.float64] = totals * slices / (window.end - window.start)
    return tuple(rates.tolist())
