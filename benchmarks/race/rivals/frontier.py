"""The product's own sampler in a race."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import fmean
from typing import TypeAlias

from benchmarks.race.rivals.optuna_side import OptunaEntrant
from benchmarks.race.tables import Table
from search.errors import UsageError
from search.metrics import loads_of
from search.samplers.evidence import EVIDENCE, evidence_of
from search.samplers.frontier import FrontierSampler, Parts
from search.samplers.matching import EarlierTable
from search.samplers.outlook import LaunchCost
from search.storage.records import LaunchRecord

Options: TypeAlias = Mapping[str, bool | int | float | str]


class FrontierEntrant(OptunaEntrant):
    """`FrontierSampler` over the table's configs and loads; what launches cost it learns from them, as in a study.

    Args:
        table: Names configs and loads.
        seed: Of the sampler.
        tables: Of earlier studies.
        options: Parts of it to turn off, such as `gating=no`; see `Parts`.

    Raises:
        UsageError: It has no such part.
    """

    def __init__(
        self, table: Table, *, seed: int, tables: Sequence[EarlierTable] = (), options: Options | None = None
    ) -> None:
        options = options or {}
        known = {part.name for part in fields(Parts)}
        if unknown := sorted(options.keys() - known):
            raise UsageError(f"`frontier` takes {', '.join(sorted(known))}, but got {', '.join(unknown)}.")
        parts = Parts(**{name: bool(value) for name, value in options.items()})
        axes = table.spec.axes
        self._sampler = FrontierSampler(
            configs=table.space.configs, seed=seed, objectives=axes, parts=parts, tables=tables
        )
        super().__init__(table, self._sampler, gate=self._sampler)
        self._axes = axes
        self._boots: list[float] = []
        self._tokens: tuple[float, ...] | None = None

    def dropped(self) -> tuple[str, ...]:
        """Earlier tables that what was measured so far contradicts, one line each."""
        return self._sampler.dropped(self._study)

    def tell(self, launch: LaunchRecord) -> None:
        """See `Entrant`; repeats and histograms go along, as the two values alone lack them."""
        assert self._open is not None
        self._open.set_user_attr(EVIDENCE, evidence_of(launch.phases, self._axes).dumped())
        super().tell(launch)
        if launch.boot_s:
            self._boots.append(launch.boot_s)
        loads = list(dict.fromkeys(phase.concurrency for phase in launch.phases))
        if self._tokens is None and len(loads) == len(loads_of(self._axes)):
            self._tokens = tuple(
                sum(
                    (phase.duration_s or 0.0) * phase.output_tps for phase in launch.phases if phase.concurrency == load
                )
                for load in loads
            )
        if self._boots and self._tokens:
            self._sampler.expect_cost(LaunchCost(fmean(self._boots), self._tokens))
