"""Every number of a phase, from its traces; one formula per function, in its docstring.

A number that cannot be right voids the phase (`METRIC_INVALID`): a plausible wrong one would
cost more than a lost launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from search.contracts import Phase, PhaseResult
from search.errors import LoadFailed
from search.load.trace import Trace
from search.outcomes import Evidence, Note, Reason

DRAFTS_HELP_ABOVE = 1.05
"""At or below this accept length the drafts do not help (NO_DRAFT_GAIN)."""

_MIN_SLICES = 10
_SLICE_S = 1.0
_CACHED_AT_LEAST = 32
_CACHED_REQUESTS = 0.05


class Window(NamedTuple):
    """The steady window, in seconds of the phase's clock: start excluded, end included."""

    start: float
    end: float


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


def steady_window(traces: Sequence[Trace]) -> Window | None:
    """From all workers busy to the first idle one.

    Starts when the last worker gets the first token of its first request; ends when the first
    worker gets the last token of its last one. At concurrency 1 this is the whole run from its
    first token to its last. None when a worker fell idle before all were busy.
    """
    busy: dict[int, float] = {}
    idle: dict[int, float] = {}
    for trace in traces:
        busy[trace.worker] = min(trace.first, busy.get(trace.worker, trace.first))
        idle[trace.worker] = max(trace.last, idle.get(trace.worker, trace.last))
    window = Window(max(busy.values()), min(idle.values()))
    return window if window.end > window.start else None


def window_rates(traces: Sequence[Trace], window: Window) -> tuple[float, ...]:
    """Tokens per second in equal consecutive slices of `window`; their mean is the window's rate.

    Slices of about a second, but at least ten of them. A token belongs to the slice
    (start, end] in which its record was read.
    """
    slices = max(_MIN_SLICES, int((window.end - window.start) / _SLICE_S))
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


def served_from_cache(traces: Sequence[Trace]) -> bool:
    """Whether the radix cache spared prefill work that other configs may have had to do.

    A request counts when over half its prompt, and more than 32 tokens, was cached: a chat
    template's shared beginning is less. More than 5 % such requests taint the phase.
    """
    spared = sum(
        1 for trace in traces if (trace.cached_tokens or 0) > max(_CACHED_AT_LEAST, (trace.prompt_tokens or 0) / 2)
    )
    return spared > _CACHED_REQUESTS * len(traces)


def check(traces: Sequence[Trace], phase: Phase, num_steps: int | None) -> None:
    """Refuse counts that lie.

    Raises:
        LoadFailed: METRIC_INVALID, with the rule and the value.
    """
    for trace in traces:
        # sglang#24254: counts that stay at the maximum although generation stopped early.
        if trace.tokens != phase.output_tokens or trace.finish not in ("", "length"):
            raise _invalid(
                phase,
                f"every request must generate {phase.output_tokens} tokens under `ignore_eos`, but {trace.prompt_id} "
                f"ended after {trace.tokens} with finish reason `{trace.finish}`",
            )
        if tpot_ms(trace) is None:
            raise _invalid(
                phase,
                f"an answer must arrive in several records, but all {trace.tokens} tokens of {trace.prompt_id} came at once",
            )
    untold = sum(1 for trace in traces if not trace.verify_count)
    if num_steps is None:
        if untold < len(traces):
            raise _invalid(phase, "a launch without speculation must not report verify passes, but it does")
        return
    if untold:
        raise _invalid(
            phase, f"speculation must report verify passes, but {untold} of {len(traces)} requests tell none"
        )
    passes = sum(trace.verify_count or 0 for trace in traces)
    tokens = sum(trace.tokens for trace in traces)
    # The prefill's token of each request needs no pass: perfect drafts may exceed the bound by it.
    if (tokens - len(traces)) / passes > num_steps + 1 or tokens < passes:
        raise _invalid(phase, f"accept length must lie in [1, {num_steps + 1}], but got {tokens / passes:.3f}")


def summarise(
    traces: Sequence[Trace],
    phase: Phase,
    repeat: int,
    *,
    num_steps: int | None,
    warmup_s: float = 0.0,
    notes: Sequence[Note] = (),
) -> PhaseResult:
    """All numbers of one repeat of a phase.

    Args:
        traces: Every measured request, in any order.
        num_steps: Depth of the draft tree; None without speculation.
        notes: Found so far; NO_DRAFT_GAIN and CACHE_TAINTED are added here.

    Raises:
        LoadFailed: METRIC_INVALID for counts that lie, and for a phase too short for a steady window.
    """
    check(traces, phase, num_steps)
    traces = sorted(traces, key=lambda trace: trace.index)
    window = steady_window(traces)
    if window is None:
        raise _invalid(
            phase,
            f"all {phase.concurrency} workers must be busy at once, but one was idle before the last got a token; "
            f"raise `requests` above {phase.requests}, or check the server's limit of running requests",
        )
    rates = window_rates(traces, window)
    tokens = sum(trace.tokens for trace in traces)
    duration_s = max(trace.last for trace in traces) - min(trace.started for trace in traces)
    prompt_tpot_ms = tuple(value for trace in traces if (value := tpot_ms(trace)) is not None)
    accepted = accept_length(traces)
    found = list(notes)
    if accepted is not None and accepted <= DRAFTS_HELP_ABOVE:
        found.append(Note.NO_DRAFT_GAIN)
    if served_from_cache(traces):
        found.append(Note.CACHE_TAINTED)
    return PhaseResult(
        concurrency=phase.concurrency,
        repeat=repeat,
        requests=len(traces),
        output_tokens=tokens,
        duration_s=duration_s,
        output_tps=sum(rates) / len(rates),
        whole_run_tps=tokens / duration_s,
        tpot_ms=sum(prompt_tpot_ms) / len(prompt_tpot_ms),
        ttft_ms=sum(map(ttft_ms, traces)) / len(traces),
        accept_length=accepted,
        accept_histogram=histogram_sum(traces),
        prompt_tpot_ms=prompt_tpot_ms,
        window_tps=rates,
        warmup_s=warmup_s,
        notes=tuple(found),
    )


def _invalid(phase: Phase, rule: str) -> LoadFailed:
    return LoadFailed(Reason.METRIC_INVALID, Evidence(rule, f"c={phase.concurrency}"))
