"""Phases with numbers of a test's choosing."""

from search.contracts import PhaseResult


def phase(concurrency, rate, *, repeat=1, **more):
    return PhaseResult(
        concurrency=concurrency,
        repeat=repeat,
        requests=16,
        output_tokens=4096,
        duration_s=10.0,
        output_tps=rate,
        whole_run_tps=rate,
        tpot_ms=1000 * concurrency / rate,
        ttft_ms=50.0,
        **more,
    )
