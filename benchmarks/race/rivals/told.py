"""A stock sampler as a script of one's own would use it: invalid and repeated proposals are reported as infeasible."""

from __future__ import annotations

from collections.abc import Callable

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import Trial, create_trial

from benchmarks.race.rivals.listed import ListedEntrant
from benchmarks.race.rivals.optuna_side import directions_of
from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.outcomes import Outcome
from search.samplers.knobs import key_of, nearest, view_distributions_of
from search.storage.optuna_side import quiet_optuna
from search.storage.records import LaunchRecord
from search.study.trials import CONSTRAINT, failed_values, objective_values

PATIENCE = 300
"""Useless proposals in a row before the nearest free config is taken."""


class ToldEntrant(ListedEntrant):
    """Asks over the raw knobs; a proposal that is no free config costs no launch and is reported with the worst values.

    Unlike the adapter of `--sampler`, which never shows such proposals to the sampler. They count as
    trials here, so a sampler that begins at random (TPE and its first ten) is sooner done with that.
    The baseline lacks the tree knobs and is not reported.
    """

    def __init__(self, table: Table, stock: Callable[[int], BaseSampler], *, seed: int) -> None:
        super().__init__(table)
        trees = [config for config in table.space.configs if config.speculates]
        self._space = view_distributions_of(trees)
        with quiet_optuna():
            self._study = optuna.create_study(directions=directions_of(table), sampler=stock(seed))
        self._open: Trial | None = None

    def choose(self) -> SpecConfig | None:
        """The first proposal that is a free config."""
        free = {key_of(config.params): config for config in self.free if config.speculates}
        proposal: dict[str, str | int | bool] = {}
        with quiet_optuna():
            for _ in range(PATIENCE if free else 0):
                trial = self._study.ask(dict(self._space))
                proposal = {name: value for name, value in trial.params.items() if value is not None}
                if config := free.get(key_of(proposal)):
                    self._open = trial
                    return config
                trial.set_constraint(CONSTRAINT, 1.0)
                self._study.tell(trial, self._worst())
        return nearest(proposal, self.free)

    def tell(self, launch: LaunchRecord) -> None:
        """See `Entrant`."""
        super().tell(launch)
        good = launch.outcome is Outcome.MEASURED
        values = (objective_values(launch, self.spec) if good else None) or self._worst()
        trial, self._open = self._open, None
        with quiet_optuna():
            if trial is not None:
                trial.set_constraint(CONSTRAINT, 0.0 if good else 1.0)
                self._study.tell(trial, values)
            elif launch.config.speculates:
                params = {name: launch.config.params.get(name) for name in self._space}
                constraints = {CONSTRAINT: 0.0 if good else 1.0}
                self._study.add_trial(
                    create_trial(values=values, params=params, distributions=dict(self._space), constraints=constraints)
                )

    def _worst(self) -> tuple[float, float]:
        worst = failed_values(self.launches, self.spec)
        assert worst is not None, "the baseline is measured first"
        return worst
