"""Any Optuna sampler in a race, driven as the study loop drives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import optuna
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial

from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.samplers.finite import FiniteSpaceSampler, SpaceExhausted
from search.storage.optuna_side import quiet_optuna
from search.storage.records import LaunchRecord
from search.study.neighbours import Neighbours
from search.study.trials import Trials


class SkipRule(Protocol):
    """A sampler's say on a phase it may do without; samplers without this method measure everything."""

    def skips_second(self, study: Study, trial: FrozenTrial, first: Sequence[PhaseResult]) -> bool:
        """Whether the second objective of a running trial is not worth its time."""
        ...


class OptunaEntrant:
    """An ask and tell of Optuna in memory, through the study's own `Trials`.

    Args:
        table: Names the objectives.
        sampler: Over the table's configs; fresh.
        gate: Whether phases are skipped.
    """

    def __init__(self, table: Table, sampler: FiniteSpaceSampler, *, gate: SkipRule | None = None) -> None:
        with quiet_optuna():
            self._study = optuna.create_study(directions=directions_of(table), sampler=sampler)
        self._trials = Trials(self._study, sampler, table.spec, "replay")
        self._neighbours = Neighbours(table.space.configs, spare=sampler.spare, notice=lambda _: None)
        self._gate = gate
        self._launches: list[LaunchRecord] = []
        self._open: Trial | None = None

    def ask(self, fixed: SpecConfig | None) -> SpecConfig | None:
        """See `Entrant`; what must fail as an earlier launch did is left out, as in a study."""
        self._neighbours.learn(self._launches)
        with quiet_optuna():
            try:
                asked = self._trials.ask(fixed, stage="search" if fixed is None else "known")
            except SpaceExhausted:
                return None
        assert asked is not None, "one driver alone is never too late"
        self._open, config = asked
        return config

    def skips(self, config: SpecConfig, low: Sequence[PhaseResult]) -> bool:  # noqa: ARG002
        """See `Entrant`."""
        if self._gate is None or self._open is None:
            return False
        trial = self._study.get_trials(deepcopy=False)[self._open.number]
        return self._gate.skips_second(self._study, trial, low)

    def tell(self, launch: LaunchRecord) -> None:
        """See `Entrant`."""
        assert self._open is not None
        self._launches.append(launch)
        with quiet_optuna():
            self._trials.end(self._open, launch, self._launches)
        self._open = None


def stock_entrant(table: Table, stock: Callable[[int], BaseSampler] | None, *, seed: int) -> OptunaEntrant:
    """A stock sampler behind the product's adapter: what `--sampler` gives."""
    return OptunaEntrant(table, FiniteSpaceSampler(stock, configs=table.space.configs, seed=seed))


def directions_of(table: Table) -> list[StudyDirection]:
    """Of both objectives, as Optuna takes them."""
    return [StudyDirection[word.upper()] for word in table.spec.directions]
