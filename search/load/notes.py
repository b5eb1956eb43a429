"""What travels with a phase's numbers because of how they came about; one rule per function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import hypot

import numpy as np

from search.contracts import GpuState, Phase
from search.errors import LoadFailed
from search.load.metrics import DRAFTS_HELP_ABOVE, accept_length
from search.load.trace import Trace
from search.outcomes import Evidence, Note, Reason

_CACHED_AT_LEAST = 32
_CACHED_REQUESTS = 0.05
_DRIFT = 0.15
_DRIFT_ERRORS = 4.0
_DRIFT_REQUESTS = 8
_DRIFT_PASSES = 200
_BUSY_NEAR = 0.8
_BUSY_LIMIT = 0.97
_BUSY_JUDGED_S = 1.0
_THROTTLED = 0.1


def notes_of(traces: Sequence[Trace], *, client_busy: float | None, duration_s: float) -> Iterator[Note]:
    """Notes that the measured requests and the client's own load give.

    Args:
        traces: The measured requests in prompt order.
        client_busy: See `PhaseResult`.
        duration_s: Of the measured part.
    """
    accepted = accept_length(traces)
    if accepted is not None and accepted <= DRAFTS_HELP_ABOVE:
        yield Note.NO_DRAFT_GAIN
    if served_from_cache(traces):
        yield Note.CACHE_TAINTED
    if accept_drifted(traces):
        yield Note.ACCEPT_DRIFT
    if client_busy is not None and duration_s >= _BUSY_JUDGED_S and client_busy > _BUSY_NEAR:
        yield Note.CLIENT_NEAR_LIMIT


def served_from_cache(traces: Sequence[Trace]) -> bool:
    """Whether the radix cache spared prefill work that other configs may have had to do.

    A request counts when over half its prompt, and more than 32 tokens, was cached: a chat
    template's shared beginning is less. More than 5 % such requests taint the phase.
    """
    spared = sum(
        1 for trace in traces if (trace.cached_tokens or 0) > max(_CACHED_AT_LEAST, (trace.prompt_tokens or 0) / 2)
    )
    return spared > _CACHED_REQUESTS * len(traces)


def accept_drifted(traces: Sequence[Trace]) -> bool:
    """Whether accept length moved between the first and the second half of the requests by more than chance.

    A correct server has no reason to: the kinds of prompts alternate, so both halves are alike.
    More than chance means by over 15 %, by over four standard errors of the difference of the halves'
    mean accept lengths (prompts differ much), with 8 requests and 200 verify passes in each half.
    """
    counted = [trace for trace in traces if trace.verify_count]
    halves = counted[: len(counted) // 2], counted[len(counted) // 2 :]
    if any(
        len(half) < _DRIFT_REQUESTS or sum(trace.verify_count or 0 for trace in half) < _DRIFT_PASSES for half in halves
    ):
        return False
    early, late = (np.array([trace.tokens / (trace.verify_count or 1) for trace in half]) for half in halves)
    error = hypot(*(float(half.std(ddof=1)) / len(half) ** 0.5 for half in (early, late)))
    moved = abs(float(late.mean() - early.mean()))
    return moved > _DRIFT * float(early.mean()) and moved > _DRIFT_ERRORS * error


def throttled(gpu: GpuState | None) -> bool:
    """Whether the driver slowed a GPU in over a tenth of the samples: fewer are the odd spike of a prefill."""
    return gpu is not None and gpu.throttled > _THROTTLED


def refuse_limited(client_busy: float, duration_s: float, phase: Phase) -> None:
    """Refuse a phase whose bottleneck was the client. A phase under a second is mostly set-up and not judged.

    Raises:
        LoadFailed: CLIENT_LIMITED; the measured rate is the client's, not the server's.
    """
    if duration_s >= _BUSY_JUDGED_S and client_busy > _BUSY_LIMIT:
        line = (
            f"the client must be idle at times, but its loop used {client_busy:.0%} of a processor over "
            f"{duration_s:.0f} s; give it a core of its own, or measure a lower concurrency"
        )
        raise LoadFailed(Reason.CLIENT_LIMITED, Evidence(line, f"c={phase.concurrency}"))
