"""The two axes of the front, as a study file names them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from search.metrics import DEFAULTS, METRICS, Objective, Objectives
from search.spec.part import Part
from search.spec.types import Concurrency, MetricName


class ObjectiveSpec(Part):
    """A metric at a concurrency; the names are those of `search.metrics.METRICS`."""

    metric: MetricName
    at: Concurrency

    @property
    def objective(self) -> Objective:
        """As everything but the study file takes it."""
        return Objective(METRICS[self.metric], self.at)


class DefaultObjectivesSpec(Part):
    """The concurrencies of the two usual objectives: time per output token, and output throughput."""

    latency: Concurrency = DEFAULTS[0].concurrency
    throughput: Concurrency = DEFAULTS[1].concurrency

    @model_validator(mode="after")
    def _ordered(self) -> DefaultObjectivesSpec:
        if self.latency >= self.throughput:
            raise ValueError(
                f"`latency < throughput` must hold, but got {self.latency} and {self.throughput}; "
                "both are concurrencies"
            )
        return self

    @property
    def pair(self) -> Objectives:
        """The usual metrics at these concurrencies."""
        return Objective(DEFAULTS[0].metric, self.latency), Objective(DEFAULTS[1].metric, self.throughput)


def _form_of_objectives(data: object) -> str:
    return "chosen" if isinstance(data, list | tuple) else "usual"


ObjectivesSpec: TypeAlias = Annotated[
    Annotated[DefaultObjectivesSpec, Tag("usual")]
    | Annotated[tuple[ObjectiveSpec, ObjectiveSpec], Field(strict=False), Tag("chosen")],
    Discriminator(_form_of_objectives),
]
"""The two axes of the front: `{latency: 1, throughput: 100}` for the usual ones, or a list of two metrics, each `at` a
concurrency. What stands first is measured first, and may spare the second."""
