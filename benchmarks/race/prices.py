"""What a race in GPU hours pays: starts, switches, and the phases of a study at each config's own pace."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from statistics import fmean

from benchmarks.race.tables import Table, results_of
from search.config import SpecConfig
from search.spec.study import StudySpec


@dataclass(frozen=True, slots=True)
class Prices:
    """What things take, in seconds."""

    start: float = 780.0
    stop: float = 20.0
    switch: float = 40.0


def beyond_shape(config: SpecConfig) -> tuple[Hashable, ...]:
    """What configs have in common that one start can hold."""
    return config.spec_version, config.allreduce_fusion, config.extra


def tokens_at(spec: StudySpec, load: int) -> float:
    """What the study measures at a load, warm-up included, were it an objective's."""
    phase = spec.measure.phase(load, warm=False)
    once = phase.requests * phase.output_tokens
    return float(spec.tokens_at(load) + (0 if load in spec.objective_loads else (spec.measure.repeats - 1) * once))


def phases_s(table: Table, spec: StudySpec) -> dict[SpecConfig, float]:
    """Seconds of the objectives' phases of each config that can be measured, at the mean pace of its repeats.

    Args:
        table: What is measured.
        spec: Names what its phases measure.
    """
    tokens = [(load, tokens_at(spec, load)) for load in table.spec.objective_loads]
    return {
        config: sum(
            count / fmean(one.output_tps for one in results_of(table.repeats[config, load])) for load, count in tokens
        )
        for config in table.truth
    }
