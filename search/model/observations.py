"""What was seen of a config, in the form the belief is fitted to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search.config import SpecConfig
from search.errors import UsageError
from search.metrics import pace_of


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One metric of an observation that is not its pace.

    Attributes:
        metric: Its name.
        value: Mean over repeats, in the metric's unit.
        relative_sd: Standard error of the mean as a share of it; None where nobody repeated.
    """

    metric: str
    value: float
    relative_sd: float | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One config at one load, over all repeats.

    Attributes:
        config: What ran.
        load: Concurrency.
        ms_per_token: Of one request: time per output token at concurrency 1, else
            `1000 * load / output_tps`. None of a published curve, which holds accept lengths alone.
        relative_sd: Standard error of `ms_per_token` as a share of it; None where nobody repeated.
        accept_length: Output tokens per verify pass; None where not reported or without speculation.
        histogram: Verify passes that accepted 0, 1, 2, … drafts; empty where not reported.
        weight: 1 for this study; below 1 for an earlier one (other release, other draft), whose
            numbers count as that share of a measurement and may be off as a whole.
        values: Metrics that do not follow from the pace, as far as objectives ask for them.
    """

    config: SpecConfig
    load: int
    ms_per_token: float | None
    relative_sd: float | None = None
    accept_length: float | None = None
    histogram: tuple[float, ...] = ()
    weight: float = 1.0
    values: tuple[MetricValue, ...] = ()

    def __post_init__(self) -> None:
        if self.ms_per_token is None and self.accept_length is None:
            raise UsageError(
                f"An observation of {self.config} holds a pace or an accept length, but got neither. Leave it out."
            )
        if self.ms_per_token is not None and not (math.isfinite(self.ms_per_token) and self.ms_per_token > 0.0):
            raise UsageError(
                f"`ms_per_token` of {self.config} at concurrency {self.load} is a positive number, but got "
                f"{self.ms_per_token!r}. Leave out what was not measured."
            )
        if self.accept_length is not None and not (1.0 <= self.accept_length < math.inf):
            raise UsageError(
                f"`accept_length >= 1` must hold for {self.config}, but got {self.accept_length!r}. Void the measurement."
            )
        if not 0.0 < self.weight <= 1.0:
            raise UsageError(f"`0 < weight <= 1` must hold, but got {self.weight!r}.")

    @property
    def pace_ms(self) -> float:
        """`ms_per_token` of an observation that is known to have it."""
        assert self.ms_per_token is not None, "only an earlier table holds accept lengths alone"
        return self.ms_per_token

    @property
    def output_tps(self) -> float:
        """Output tokens per second over all requests in flight."""
        return pace_of(self.pace_ms, self.load)

    def value_of(self, metric: str) -> MetricValue | None:
        """The value of a metric that does not follow from the pace; None where it was not measured."""
        return next((value for value in self.values if value.metric == metric), None)


def chain_survival(histogram: Sequence[float]) -> tuple[float, ...]:
    """Share of verify passes that accepted at least 1, 2, … drafts."""
    total = sum(histogram)
    if total <= 0.0:
        return ()
    return tuple(sum(histogram[depth:]) / total for depth in range(1, len(histogram)))
