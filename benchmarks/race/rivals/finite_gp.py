"""The plain rival: a Gaussian process per objective over the finite list, exact expected improvement, no physics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks.race.hypervolume import WORSE, Point, point_of
from benchmarks.race.rivals.expected import Array, expected_improvement, nondominated
from benchmarks.race.rivals.gaussian import GaussianProcess, fit
from benchmarks.race.rivals.listed import ListedEntrant
from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Outcome

LABEL_DOUBT = 0.2
"""Of the border between launches that go well and those that fail, in units of a label."""

OPTIMISM = 0.95
"""Quantile of the throughput that a gate believes possible."""


def features(configs: Sequence[SpecConfig]) -> Array:
    """The raw knobs, numbers in doublings, words one-hot; shape (configs, features)."""
    words = sorted({(name, str(value)) for config in configs for name, value in _words(config)})
    rows = [
        [
            math.log2(config.topk or 1),
            float(config.num_steps or 0) / 2.0,
            math.log2(config.verify_tokens),
            *(1.0 if word in {(name, str(value)) for name, value in _words(config)} else 0.0 for word in words),
        ]
        for config in configs
    ]
    return np.array(rows)


def _words(config: SpecConfig) -> list[tuple[str, object]]:
    return [
        ("spec_version", config.spec_version.value),
        ("allreduce_fusion", config.allreduce_fusion),
        *config.extra,
    ]


class FiniteGp(ListedEntrant):
    """Fits anew for each launch and takes the largest expected gain in logarithmic hypervolume.

    Args:
        table: Names configs and objectives.
        seed: Breaks ties, nothing else.
        feasibility: Whether failures teach it where launches fail.
        gating: Whether it skips the throughput phase where its optimistic bound cannot enter the front.
    """

    def __init__(self, table: Table, *, seed: int, feasibility: bool = True, gating: bool = False) -> None:
        super().__init__(table)
        configs = table.space.configs
        self._rows = dict(zip(configs, features(configs), strict=True))
        self._baseline = table.baseline
        self._tie = dict(zip(configs, np.random.default_rng(seed).random(len(configs)), strict=True))
        self._feasibility = feasibility
        self._gating = gating

    def choose(self) -> SpecConfig | None:
        """The best of the free ones; in the seed's order while nothing is measured."""
        if self._baseline not in (measured := self.measured()) or len(measured) < 2:
            return max(self.free, key=lambda config: self._tie[config])
        at = self.at(self.free)
        gain = self.gain(at)
        if self._feasibility:
            gain = gain * self._feasible(at)
        order = [(float(value), self._tie[config]) for value, config in zip(gain, self.free, strict=True)]
        return self.free[max(range(len(order)), key=order.__getitem__)]

    def at(self, configs: Iterable[SpecConfig]) -> Array:
        """The features of some configs, one row each."""
        return np.array([self._rows[config] for config in configs])

    def gain(self, at: Array) -> Array:
        """Expected gain of a launch at each row."""
        predicted = [model.predict(at) for model in self._models()]
        mean = np.column_stack([value for value, _ in predicted])
        spread = np.column_stack([sd for _, sd in predicted])
        return expected_improvement(mean, spread, logs(self.measured().values()), self.reference())

    def skips(self, config: SpecConfig, low: Sequence[PhaseResult]) -> bool:
        """Whether even an optimistic throughput leaves the launch behind the front."""
        if not self._gating or not config.speculates or len(self.measured()) < 4 or not low:
            return False
        latency = self._first(low)
        mean, spread = self._models()[1].predict(self.at([config]))
        hopeful = float(mean[0] - ndtri(OPTIMISM) * spread[0])  # minus throughput: small is good
        edge = nondominated(logs(self.measured().values()))
        reference = self.reference()
        beaten = bool(((edge[:, 0] <= latency) & (edge[:, 1] <= hopeful)).any())
        return beaten or latency >= reference[0] or hopeful >= reference[1]

    def _models(self) -> tuple[GaussianProcess, GaussianProcess]:
        measured = self.measured()
        values = logs(measured.values())
        lows = dict(zip(measured, values[:, 0], strict=True)) | {
            launch.config: self._first(launch.phases) for launch in self.launches if launch.outcome is Outcome.GATED
        }
        return fit(self.at(lows), np.array(list(lows.values()))), fit(self.at(measured), values[:, 1])

    def _first(self, phases: Sequence[PhaseResult]) -> float:
        """Logarithm of the first objective, of the first phases of a launch; small is good."""
        axis, other = self.spec.axes
        value = axis.mean(phases)
        assert value is not None, "a table holds what its study searches"
        return math.log(point_of((axis, other), (value, 1.0))[0])

    def reference(self) -> Array:
        """As the judge's, from what was measured."""
        measured = self.measured()
        edge = nondominated(logs(measured.values()))
        (baseline,) = logs([measured[self._baseline]])
        worse = np.array([math.log(1 + WORSE), -math.log(1 - WORSE)])
        reference: Array = np.maximum(baseline, edge.max(axis=0)) + worse
        return reference

    def _feasible(self, at: Array) -> Array:
        """Probability that a launch goes well, from a process over 1 for those that did and 0 for those that failed."""
        seen = [launch for launch in self.launches if launch.config.speculates]
        went_well = np.array([0.0 if launch.reason is not None else 1.0 for launch in seen])
        if went_well.all():
            return np.ones(len(at))
        mean, spread = fit(self.at(launch.config for launch in seen), went_well).predict(at)
        chance: Array = ndtr((mean - 0.5) / np.sqrt(spread**2 + LABEL_DOUBT**2))
        return chance


def logs(points: Iterable[Point]) -> Array:
    """Latency and throughput so that both are minimised."""
    return np.array([(math.log(latency), -math.log(throughput)) for latency, throughput in points])
