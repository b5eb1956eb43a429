"""Searches for the one config that serves a day's traffic in the least time, under the belief of `FrontierSampler`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, sqrt
from typing import Any, Final

import numpy as np
from optuna.study import Study
from optuna.trial import FrozenTrial
from scipy.special import ndtri
from scipy.stats import qmc

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.metrics import DEFAULTS, Objectives, Traffic
from search.samplers.frontier import FrontierSampler
from search.samplers.matching import EarlierTable
from search.samplers.outlook import Floats, Forecast, LaunchCost, Outlook

_DRAWS: Final = 256
"""Points of the integral over what is not known of a config's paces; a power of two, as Sobol's points want."""
_CAUTION: Final = 2.0
"""As of the front: a failure costs a launch and brings nothing."""


@dataclass(frozen=True, slots=True)
class TrafficForecast(Forecast):
    """A forecast whose `gain` is the expected cut of the best time for the traffic, as a share of it."""

    @property
    def why(self) -> str:
        """One line for people: why this config is launched."""
        return f"expected to cut the time for the traffic by {self.gain:.1%}, feasible {self.feasible:.0%}"


class TrafficOutlook(Outlook):
    """The belief about a space, seen through a day's traffic: what matters is the time for it, not a front.

    The time is a weighted sum of log-normal paces at several loads; its expected cut below the best one so far is taken
    over quasi-random draws, the same for every config. Errors of one config at two loads are alike as far as the belief
    says of its first and last load.

    Args:
        traffic: Shares of the day; the belief has to know its loads.
        parts: As for `Outlook`.
        named: Likewise.
    """

    def __init__(self, traffic: Traffic, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._traffic = traffic
        self._times = self._drawn()
        expected = self.belief.weights @ self._times.mean(axis=2)
        places = [self.prior.index[config] for config in self._measured]
        self.best_time = float(expected[places].min()) if places else float("inf")
        self.expected_times = expected
        cut = np.maximum(0.0, self.best_time - self._times).mean(axis=2)
        growth = self.belief.weights @ cut / self.best_time if places else np.zeros(len(expected))
        self.gains = growth * self.feasible
        # Where nothing is expected to cut it, what surely starts is tried first.
        self._worth = (growth + 0.1 * self._noise_of_best()) * self.feasible**_CAUTION

    @property
    def noise_gain(self) -> float:
        """The share by which the best time would seem to fall if its config were launched again, by noise alone."""
        return self._noise_of_best()

    def noise_gain_of(self, noise: Sequence[float]) -> float:
        """The same where a start's values lie so far from the truth, relative, one for each objective."""
        return max(noise) / sqrt(2 * pi)

    def expected_gain(self, candidates: Sequence[SpecConfig]) -> float:
        """Expected cut by the best next launch, as a share of the best time."""
        return max((float(self.gains[self.prior.index[config]]) for config in candidates), default=0.0)

    def may_enter(self, config: SpecConfig, probability: float = 0.05) -> bool:
        """Whether the config could still be the best for the traffic at the good end of its band."""
        times = self._times[:, self.prior.index[config]]
        chance = float(self.belief.weights @ (times < self.best_time).mean(axis=1))
        return chance > max(probability, 1 / _DRAWS)

    def forecast(self, config: SpecConfig) -> TrafficForecast:
        """What `config` would measure, and how much it is expected to cut the time by."""
        expected = super().forecast(config)
        fields = {name: getattr(expected, name) for name in Forecast.__slots__}
        return TrafficForecast(**fields | {"gain": float(self.gains[self.prior.index[config]])})

    def _noise_of_best(self) -> float:
        at = [self.prior.load_index(load) for load in self._traffic.loads]
        return float(max(self.belief.noise[place] for place in at)) / sqrt(2 * pi)

    def _drawn(self) -> Floats:
        """Time for the traffic of every config in every draw, shape (components, configs, draws)."""
        belief, loads = self.belief, self._traffic.loads
        at = [belief.prior.load_index(load) for load in loads]
        plain = [config for config in self._measured if not config.speculates] or [
            config for config in self.prior.configs if not config.speculates
        ]
        expected = np.stack([belief.expected(load) for load in loads], axis=1)
        places = [self.prior.index[config] for config in plain] or list(range(len(self.prior.configs)))
        reference = expected[places].min(axis=0)
        points = qmc.Sobol(len(loads) + 1, scramble=True, seed=0).random(_DRAWS)
        normal = ndtri(np.clip(points, 1e-6, 1 - 1e-6))
        alike = np.clip(belief.correlation, 0.0, 1.0)
        shares = np.array([share for _, share in self._traffic.shares])
        total = np.zeros((*belief.mean.shape[:2], _DRAWS))
        for place, load in enumerate(at):
            common = np.sqrt(alike)[:, :, None] * normal[:, 0] + np.sqrt(1 - alike)[:, :, None] * normal[:, place + 1]
            log_pace = belief.mean[:, :, load, None] + belief.sd[:, :, load, None] * common
            total += shares[place] * np.exp(log_pace - reference[place])
        return total


class TrafficSampler(FrontierSampler):
    """Chooses by the expected cut of the time for a study's traffic, per GPU second.

    The study keeps its two objectives: Optuna's values, the front and the report are as ever. Loads of the traffic that
    are none of the objectives' are watch loads, and the belief learns from them too.

    Args:
        traffic: Shares of the day.
        configs: As for `FrontierSampler`, like all that follow.
        seed: Of the study.
        objectives: The axes of the front.
        cost: Of a launch.
        tables: Of earlier studies.
    """

    goal = "cut the time for the traffic"

    def __init__(
        self,
        traffic: Traffic,
        *,
        configs: Sequence[SpecConfig],
        seed: int,
        objectives: Objectives = DEFAULTS,
        cost: LaunchCost | None = None,
        tables: Sequence[EarlierTable] = (),
    ) -> None:
        super().__init__(configs=configs, seed=seed, objectives=objectives, cost=cost, tables=tables)
        self._loads = tuple(sorted({*self._loads, *traffic.loads}))
        self._outlook_of = partial(TrafficOutlook, traffic)

    def why_skipped(self, study: Study, trial: FrozenTrial, first: Sequence[PhaseResult]) -> str | None:
        """See `FrontierSampler`; no hope is no hope for the traffic."""
        reason = super().why_skipped(study, trial, first)
        return reason and reason.replace(
            "it cannot enter the front", "it cannot serve the traffic faster than the best"
        )
