"""How a study measures: prompts, lengths, repeats and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from search.contracts import Phase
from search.spec.part import Part
from search.spec.sampling import SamplingSpec
from search.spec.types import Count, Positive
from search.spec.workloads import CHAT, PromptsSpec, WorkloadSpec

if TYPE_CHECKING:
    from search.load.target import Limits

WARMUP_ROUNDS = 2
"""Until two rounds agree."""


_WARMUP_SHARE = 8
"""Tokens of a measured request / those of a warm-up request, above concurrency 1."""


_LEAST_WARMUP_TOKENS = 16


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


def check_thinking(place: str, prompts: PromptsSpec, sampling: SamplingSpec) -> None:
    """Refuse a switch that nothing carries to the model.

    Raises:
        ValueError: `thinking` without the template that it is told to.
    """
    if sampling.thinking is not None and prompts.template != CHAT:
        raise ValueError(
            f"`{place}.sampling.thinking` is told to the target's chat template, but the template is a text; write "
            "`template: chat`, or put the switch into the text yourself and take `thinking` out"
        )


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
    sampling: SamplingSpec = SamplingSpec()
    limits: LimitsSpec = LimitsSpec()

    @model_validator(mode="after")
    def _thinks_by_template(self) -> MeasureSpec:
        check_thinking("measure", self.prompts, self.sampling)
        return self

    def of_workload(self, workload: WorkloadSpec) -> MeasureSpec:
        """The same, with the prompts, lengths and sampling of another workload."""
        prompts = PromptsSpec.model_validate({name: getattr(workload, name) for name in PromptsSpec.model_fields})
        changes: dict[str, object] = {"prompts": prompts}
        if workload.output_tokens is not None:
            changes["output_tokens"] = workload.output_tokens
        if workload.sampling is not None:
            changes["sampling"] = workload.sampling
        return self.model_copy(update=changes)

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
