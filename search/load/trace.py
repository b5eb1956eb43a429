"""What one request left behind: the moments its tokens arrived, and the server's counters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """One finished request. Times are seconds of the phase's clock.

    Attributes:
        index: Place in the phase's prompt order.
        prompt_id: Of the prompt that was sent.
        worker: Which of the `concurrency` workers sent it.
        started: When the request was sent.
        times: When tokens arrived, never falling; at least one entry.
        counts: Output tokens received up to and including each entry of `times`, rising.
        tokens: The server's count in the last record.
        verify_count: Verify passes of this request; None where the server does not report it.
        histogram: Verify passes that accepted 0, 1, 2, … drafts; empty where not reported.
        prompt_tokens: Tokens of the prompt; None where not reported.
        cached_tokens: Prompt tokens served from the radix cache; None where not reported.
        finish: Type of the finish reason, such as `length`; empty where not reported.
        output_ids: Token ids of the answer; empty where not reported.
    """

    index: int
    prompt_id: str
    worker: int
    started: float
    times: tuple[float, ...]
    counts: tuple[float, ...]
    tokens: int
    verify_count: int | None = None
    histogram: tuple[int, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish: str = ""
    output_ids: tuple[int, ...] = ()

    @property
    def first(self) -> float:
        """Time of the first token."""
        return self.times[0]

    @property
    def last(self) -> float:
        """Time of the last token."""
        return self.times[-1]
