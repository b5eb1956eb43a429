"""Counts that cannot be right void the phase: a plausible wrong number would cost more than a lost launch."""

from __future__ import annotations

from collections.abc import Sequence

from search.contracts import Phase
from search.errors import LoadFailed
from search.load.metrics import tpot_ms
from search.load.trace import Trace
from search.outcomes import Evidence, Reason


def check(traces: Sequence[Trace], phase: Phase, num_steps: int | None) -> None:
    """Refuse counts that lie.

    Raises:
        LoadFailed: METRIC_INVALID, with the rule and the value.
    """
    for trace in traces:
        # sglang#24254: counts that stay at the maximum although generation stopped early.
        wanted = phase.tokens_of(trace.index)
        if trace.tokens != wanted or trace.finish not in ("", "length"):
            raise invalid(
                phase,
                f"{trace.prompt_id} must generate {wanted} tokens under `ignore_eos`, but it "
                f"ended after {trace.tokens} with finish reason `{trace.finish}`",
            )
        if tpot_ms(trace) is None:
            raise invalid(
                phase,
                f"an answer must arrive in several records, but all {trace.tokens} tokens of {trace.prompt_id} came at once",
            )
    if not any(map(tpot_ms, traces)):
        raise invalid(
            phase, "tokens must take time, but in every answer all tokens after the first came in one instant"
        )
    untold = sum(1 for trace in traces if not trace.verify_count)
    if num_steps is None:
        if untold < len(traces):
            raise invalid(phase, "a launch without speculation must not report verify passes, but it does")
        return
    if untold:
        raise invalid(
            phase, f"speculation must report verify passes, but {untold} of {len(traces)} requests report none"
        )
    passes = sum(trace.verify_count or 0 for trace in traces)
    tokens = sum(trace.tokens for trace in traces)
    # The prefill's token of each request needs no pass: perfect drafts may exceed the bound by it.
    if (tokens - len(traces)) / passes > num_steps + 1 or tokens < passes:
        raise invalid(phase, f"accept length must lie in [1, {num_steps + 1}], but got {tokens / passes:.3f}")


def invalid(phase: Phase, rule: str) -> LoadFailed:
    """The failure of a phase whose numbers break `rule`."""
    return LoadFailed(Reason.METRIC_INVALID, Evidence(rule, f"c={phase.concurrency}"))
