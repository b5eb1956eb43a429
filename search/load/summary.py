"""One repeat of a phase: its traces in, its `PhaseResult` out."""

from __future__ import annotations

from collections.abc import Sequence

from search.contracts import Phase, PhaseResult
from search.load import metrics
from search.load.checks import check, invalid
from search.load.notes import notes_of, refuse_limited
from search.load.steady import slice_count, steady_window, window_rates
from search.load.target import Limits
from search.load.trace import Trace
from search.outcomes import Note


def summarise(
    traces: Sequence[Trace],
    phase: Phase,
    repeat: int,
    *,
    num_steps: int | None,
    ramp: Sequence[Trace] = (),
    limits: Limits | None = None,
    warmup_s: float = 0.0,
    client_s: float | None = None,
    prompts_sha256: str = "",
    notes: Sequence[Note] = (),
) -> PhaseResult:
    """All numbers of one repeat of a phase.

    What starts when: the steady window opens when every worker has a token, of the ramp where
    there is one, and counts all tokens inside it. `duration_s`, `whole_run_tps` and everything
    per request are of the measured requests alone; the run of a staggered phase starts with its
    first measured request, and its `whole_run_tps` is low by design, because a part of the server
    works for the ramp meanwhile. To compare with other tools, measure with `staggered=False`.

    Args:
        traces: Every measured request, in any order.
        num_steps: Depth of the draft tree; None without speculation.
        ramp: The unmeasured first requests of a staggered phase.
        limits: For `goodput` and `goodput_rps`.
        client_s: Processor time of the client from the first request to the last token.
        notes: Found so far; those of the traces and the client are added here.

    Raises:
        LoadFailed: METRIC_INVALID for counts that lie, and for a phase too short for a steady
            window; CLIENT_LIMITED when the client was the bottleneck.
    """
    check(traces, phase, num_steps)
    traces = sorted(traces, key=lambda trace: trace.index)
    everything = [*ramp, *traces]
    window = steady_window(everything)
    if window is None:
        raise invalid(
            phase,
            f"all {phase.concurrency} workers must be busy at once, but one was idle before the last got a token; "
            f"raise `requests` above {phase.requests}, or check the server's limit of running requests",
        )
    rates = window_rates(everything, window, slice_count(window, traces))
    tokens = sum(trace.tokens for trace in traces)
    end = max(trace.last for trace in traces)
    duration_s = end - min(trace.started for trace in traces)
    busy = None
    if client_s is not None:
        run_s = max(end, *(trace.last for trace in everything)) - min(trace.started for trace in everything)
        busy = min(1.0, client_s / run_s)
        refuse_limited(busy, run_s, phase)
    prompt_tpot_ms = tuple(value for trace in traces if (value := metrics.tpot_ms(trace)) is not None)
    ttft_ms = [metrics.ttft_ms(trace) for trace in traces]
    itl_ms = metrics.itl_ms(traces)
    e2e_ms = [metrics.e2e_ms(trace) for trace in traces]
    return PhaseResult(
        concurrency=phase.concurrency,
        repeat=repeat,
        requests=len(traces),
        output_tokens=tokens,
        duration_s=duration_s,
        output_tps=sum(rates) / len(rates),
        whole_run_tps=tokens / duration_s,
        tpot_ms=metrics.mean(prompt_tpot_ms),
        ttft_ms=metrics.mean(ttft_ms),
        ttft_p99_ms=metrics.p99(ttft_ms),
        itl_ms=metrics.mean(itl_ms),
        itl_p99_ms=metrics.p99(itl_ms),
        ttft_p50_ms=metrics.p50(ttft_ms),
        e2e_ms=metrics.mean(e2e_ms),
        e2e_p99_ms=metrics.p99(e2e_ms),
        goodput=metrics.goodput(traces, limits),
        goodput_rps=metrics.goodput_rps(traces, window, limits),
        accept_length=metrics.accept_length(traces),
        accept_histogram=metrics.histogram_sum(traces),
        prompt_tpot_ms=prompt_tpot_ms,
        prompt_ids=tuple(trace.prompt_id for trace in traces),
        prompts_sha256=prompts_sha256,
        window_tps=rates,
        warmup_s=warmup_s,
        client_busy=busy,
        outputs=tuple(trace.output_ids for trace in traces) if any(trace.output_ids for trace in traces) else (),
        notes=(*notes, *notes_of(traces, client_busy=busy, duration_s=duration_s)),
    )
