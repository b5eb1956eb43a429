"""Every number of a phase, from its traces; one formula per function, in its docstring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest

import numpy as np

from search.load.steady import Window
from search.load.target import Limits
from search.load.trace import Trace

DRAFTS_HELP_ABOVE = 1.05
"""At or below this accept length the drafts do not help (NO_DRAFT_GAIN)."""


def tpot_ms(trace: Trace) -> float | None:
    """(last token time - first token time) / (tokens - tokens of the first arrival), in ms.

    The first arrival nearly always carries one token (the prefill's), which makes the divisor
    `tokens - 1`. Where the server coalesced more into it, their own times are unknown, and
    `tokens - 1` would flatter exactly the configs that give several tokens per pass. None when
    the whole answer came at once, or is one token long.
    """
    later = trace.tokens - trace.counts[0]
    return 1e3 * (trace.last - trace.first) / later if later > 0 else None


def ttft_ms(trace: Trace) -> float:
    """First token time - time the request was sent, in ms."""
    return 1e3 * (trace.first - trace.started)


def e2e_ms(trace: Trace) -> float:
    """Last token time - time the request was sent, in ms."""
    return 1e3 * (trace.last - trace.started)


def itl_ms(traces: Iterable[Trace]) -> tuple[float, ...]:
    """Inter-chunk times in ms: between two successive arrivals of tokens in one stream.

    A verify pass that gives three tokens is one arrival: this is the rhythm a reader sees, while
    `tpot_ms` is the pace of tokens. Arrivals of one read have 0 between them.
    """
    return tuple(1e3 * (late - early) for trace in traces for early, late in pairwise(trace.times))


def mean(values: Sequence[float]) -> float | None:
    """Sum / count; None of nothing."""
    return sum(values) / len(values) if values else None


def p99(values: Sequence[float]) -> float | None:
    """99th percentile, linear between the two nearest ranks; None of nothing. Of under 100 values nearly the largest."""
    return float(np.quantile(values, 0.99)) if values else None


def p50(values: Sequence[float]) -> float | None:
    """Median; None of nothing."""
    return float(np.quantile(values, 0.5)) if values else None


def goodput(traces: Sequence[Trace], limits: Limits | None) -> float | None:
    """Requests that met every limit / requests, 0 to 1; None without limits and without requests."""
    if limits is None or not traces:
        return None
    return sum(meets(trace, limits) for trace in traces) / len(traces)


def goodput_rps(traces: Iterable[Trace], window: Window, limits: Limits | None) -> float | None:
    """Requests that met every limit and ended inside the window / length of the window in seconds.

    None without limits.
    """
    if limits is None:
        return None
    good = sum(window.start < trace.last <= window.end and meets(trace, limits) for trace in traces)
    return good / (window.end - window.start)


def meets(trace: Trace, limits: Limits) -> bool:
    """Whether no limit that is set is exceeded by this request."""
    pairs = ((ttft_ms(trace), limits.ttft_ms), (tpot_ms(trace), limits.tpot_ms))
    return all(limit is None or (value is not None and value <= limit) for value, limit in pairs)


def accept_length(traces: Sequence[Trace]) -> float | None:
    """Sum of output tokens / sum of verify passes, as SGLang's own `spec_accept_length` per request.

    The first token of an answer comes from the prefill and not from a verify pass; it is counted
    all the same, so short answers read a little high. None without verify passes.
    """
    passes = sum(trace.verify_count or 0 for trace in traces)
    return sum(trace.tokens for trace in traces) / passes if passes else None


def histogram_sum(traces: Sequence[Trace]) -> tuple[int, ...]:
    """Elementwise sum of the requests' histograms; a shorter one counts as padded with zeros."""
    return tuple(sum(column) for column in zip_longest(*(trace.histogram for trace in traces), fillvalue=0))
