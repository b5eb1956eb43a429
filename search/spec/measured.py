"""How a study measures: prompts, lengths, repeats and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from search.contracts import Phase
from search.spec.types import Count, Positive

if TYPE_CHECKING:
    from search.load.target import Limits
from search.spec.part import Part

WARMUP_ROUNDS = 2
"""Until two rounds agree."""


_WARMUP_SHARE = 8
"""Tokens of a measured request / those of a warm-up request, above concurrency 1."""


_LEAST_WARMUP_TOKENS = 16


class PromptsSpec(Part):
    """Where prompts come from: a JSONL or ShareGPT file, or the packaged set without one.

    `template` wraps each prompt, such as a chat format; `{prompt}` marks its place.
    """

    file: str = ""
    template: str = "{prompt}"

    @field_validator("template")
    @classmethod
    def _has_place(cls, template: str) -> str:
        if "{prompt}" not in template:
            raise ValueError(f"`{{prompt}}` must stand in the template, but got {template!r}")
        return template


class LimitsSpec(Part):
    """What a request must keep to count as good, for goodput; without a limit there is none.

    Part of what makes measurements comparable only where goodput is an objective: it changes no other number.
    """

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None

    @property
    def load_limits(self) -> Limits | None:
        """As the client takes them; None without any."""
        if self.ttft_ms is None and self.tpot_ms is None:
            return None
        from search.load.target import Limits

        return Limits(ttft_ms=self.ttft_ms, tpot_ms=self.tpot_ms)


class MeasureSpec(Part):
    """How phases are measured; part of what makes two measurements comparable.

    An objective is repeated `repeats` times in every start. Repeating until a value seemed sure made intervals
    that hold too rarely (issue 12): `doubt` and `repeats_at_most` of older files are read and not followed.
    `requests_at_latency` is a floor at low loads, where prompts are what makes one run differ from
    another; above it each worker gets `requests_per_worker` requests. `parallel_loads` lets the
    servers of one host be measured at the same time; without it they take turns, because they share
    processors, memory and links.
    """

    output_tokens: Annotated[int, Field(ge=16)] = 256
    output_spread: Annotated[float, Field(ge=0, le=0.9)] = 0.5
    requests_at_latency: Count = 16
    requests_per_worker: Count = 4
    repeats: Annotated[int, Field(ge=1, le=20)] = 2
    doubt: Annotated[float, Field(gt=0, lt=1)] | None = None
    repeats_at_most: Annotated[int, Field(ge=1, le=20)] | None = None
    watch_repeats: Annotated[int, Field(ge=1, le=20)] = 1
    parallel_loads: bool = False
    prompts: PromptsSpec = PromptsSpec()
    limits: LimitsSpec = LimitsSpec()

    def phase(self, concurrency: int, *, warm: bool) -> Phase:
        """The phase at `concurrency`: each worker gets the same number of requests.

        Args:
            warm: This concurrency was warmed up on this launch before.
        """
        requests = max(self.requests_at_latency if concurrency <= 4 else 0, self.requests_per_worker * concurrency)
        return Phase(
            concurrency,
            requests=requests,
            output_tokens=self.output_tokens,
            spread=self.output_spread,
            warmup_requests=0 if warm else max(concurrency, 2),
            # Above one stream a round of short answers has every worker busy at once, and rounds go on until two agree.
            warmup_tokens=0 if concurrency == 1 else max(_LEAST_WARMUP_TOKENS, self.output_tokens // _WARMUP_SHARE),
        )
