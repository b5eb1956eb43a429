"""What a launch of each config is expected to bring: growth of the front, by chance and by cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from search.config import SpecConfig, simplicity
from search.metrics import DEFAULTS, Direction, Objective, Objectives, loads_of
from search.model.belief import Belief, Prior
from search.model.feasibility import Feasibility, Start
from search.model.linked import Axis, axis_of, value_of_pace
from search.model.observations import MetricValue, Observation
from search.samplers.hypervolume import expected_improvement_lognormal, front_of, hypervolume

Floats: TypeAlias = NDArray[np.float64]

Band: TypeAlias = tuple[float, float, float]
"""Quantiles of a value: 5%, 50%, 95%."""

_WORSE: Final = 0.10
"""The reference point lies this share beyond the baseline and the worst of the front."""
_BAND: Final = (0.05, 0.95)
_CAUTION: Final = 2.0
"""Power of the probability to start: a failure costs a launch and brings neither growth nor numbers."""
_BENEATH: Final = 0.1
"""This share of `noise_gain` is credited to every launch: among gains far beneath what measuring can show,
the launch that surely starts goes first. Without it the uncertain are launched as soon as nothing else would grow."""


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """What one launch costs in seconds of GPU time; the defaults are a middling deployment's.

    Attributes:
        boot_s: Start and stop of a server.
        tokens: Output tokens measured at each concurrency of the objectives, all repeats, in their order.
        held: Configs that a running server can be switched to; they need no start.
        switch_s: Of such a switch.
    """

    boot_s: float = 300.0
    tokens: tuple[float, ...] = (2 * 16 * 256, 2 * 300 * 256)
    held: frozenset[SpecConfig] = frozenset()
    switch_s: float = 40.0

    def seconds(self, paces: Floats, loads: Sequence[int], configs: Sequence[SpecConfig]) -> Floats:
        """Of configs with these paces in ms, shape (configs, loads), at these concurrencies.

        Args:
            paces: Milliseconds a token.
            loads: Concurrencies of the objectives.
            configs: In the order of the paces.
        """
        total = np.array([self.switch_s if config in self.held else self.boot_s for config in configs])
        for place, (tokens, load) in enumerate(zip(self.tokens, loads, strict=True)):
            total = total + tokens * paces[:, place] / (1000.0 * load)
        return total


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a launch of one config would measure, noise and all, with 90% bands, and whether it is worth it.

    Attributes:
        objectives: Of the study.
        bands: Of each objective in its own unit, 5%, 50% and 95%, lowest value first.
        feasible: Probability that it starts.
        enters_front: Probability that it starts and no measured config dominates it.
        gain: Expected growth of the front's hypervolume, as a share of it; failure counted as 0.
        nearest: The measured configs most like it, the likest first.
        measured: Whether it was measured itself.
    """

    config: SpecConfig
    objectives: Objectives
    bands: tuple[Band, Band]
    feasible: float
    enters_front: float
    gain: float
    nearest: tuple[SpecConfig, ...]
    measured: bool

    @property
    def why(self) -> str:
        """One line for people: why this config is launched."""
        expects = " and ".join(_band_words(*each) for each in zip(self.objectives, self.bands, strict=True))
        return (
            f"expected front gain {self.gain:.1%}, feasible {self.feasible:.0%}, enters the front {self.enters_front:.0%}; "
            f"expects {expects}"
        )


def _band_words(objective: Objective, band: Band) -> str:
    """Such as `10.8 ms (10.2 to 11.5)`; rates in whole tokens."""
    metric = objective.metric
    if not metric.unit:
        return f"{band[1]:.1%} ({band[0]:.1%} to {band[2]:.1%}) {metric.title}"
    form = ".3g" if metric.direction is Direction.MINIMIZE else ".0f"
    return f"{band[1]:{form}} {metric.unit} ({band[0]:{form}} to {band[2]:{form}})"


class Outlook:
    """The belief about a space, seen through its front. Made anew after each launch; cheap for hundreds of configs.

    The belief is Gaussian in logarithms; the hypervolume is that of people's units, such as milliseconds times
    tokens per second, so both axes are log-normal and the expected growth is still exact. (Growth of the
    logarithms' hypervolume pays as much for the last percent at either end of the front as for its
    middle, and needed more launches.) The two objectives of a config are taken as independent given the
    mixture's component: both draw on one accept length, but taking that into account (a quadrature over
    what they share) changed no figure of the race. Widening the uncertainty, to reward learning, needed more launches.

    Args:
        prior: Of the space; locked configs may be in it, to be predicted.
        feasibility: Of the same configs.
        observations: Numbers so far.
        starts: What started and what failed.
        measured: Configs with both objectives, the candidates for the front.
        pending: Configs that run now: they count as if they ended as expected.
        objectives: The axes of the front.
        cost: Of a launch.
    """

    def __init__(
        self,
        prior: Prior,
        feasibility: Feasibility,
        *,
        observations: Sequence[Observation],
        starts: Sequence[Start],
        measured: Iterable[SpecConfig],
        pending: Iterable[SpecConfig] = (),
        objectives: Objectives = DEFAULTS,
        cost: LaunchCost | None = None,
    ) -> None:
        self.prior, self.objectives, self.cost = prior, objectives, cost or LaunchCost()
        self.loads = loads_of(objectives)
        index = prior.index
        self._measured = [config for config in dict.fromkeys(measured) if config in index]
        self.feasible = feasibility.probability(starts)
        belief = Belief.given(prior, observations)
        running = [config for config in dict.fromkeys(pending) if config in index and config not in self._measured]
        seen_too = list(observations)
        if running:
            axes = [axis_of(objective, belief, observations) for objective in objectives]
            seen_too += _as_expected(belief, axes, running, objectives)
            belief = Belief.given(prior, seen_too)
        self.belief = belief
        self._axes = [axis_of(objective, belief, seen_too) for objective in objectives]
        points = self._points()
        hoped = [config for config in running if self.feasible[index[config]] > 0.5]
        in_play = np.array([index[config] for config in [*self._measured, *hoped]], dtype=int)
        self.reference = self._reference(points, in_play)
        seen = points[in_play].reshape(-1, 2)
        self._front = seen[front_of(seen)]
        growth = self._growth()
        self.gains = growth * self.feasible
        self._worth = (growth + _BENEATH * self._growth_by_noise()) * self.feasible**_CAUTION
        paces = np.stack([np.exp(belief.expected(load)) for load in self.loads], axis=1)
        self.seconds = self.cost.seconds(paces, self.loads, prior.configs)

    @property
    def measured_count(self) -> int:
        """How many configs of the space were measured at both objectives."""
        return len(self._measured)

    @property
    def front(self) -> tuple[SpecConfig, ...]:
        """Measured configs on the front of their denoised values, the best at the first objective first."""
        points = self._points()[[self.prior.index[config] for config in self._measured]].reshape(-1, 2)
        return tuple(self._measured[place] for place in front_of(points))

    def best(self, candidates: Sequence[SpecConfig], *, per_second: bool = True) -> SpecConfig:
        """The candidate with the most expected gain, per expected GPU second or at all; of equals the simpler one."""
        worth = {
            config: self.worth(config) * (1.0 if per_second else float(self.seconds[self.prior.index[config]]))
            for config in candidates
        }
        top = max(worth.values())
        return min((config for config in candidates if worth[config] >= top * (1.0 - 1e-9)), key=simplicity)

    def worth(self, config: SpecConfig) -> float:
        """What choices go by: expected growth per GPU second, failure weighed as `_CAUTION` says."""
        place = self.prior.index[config]
        return float(self._worth[place] / self.seconds[place])

    @property
    def noise_gain(self) -> float:
        """The share by which the front would seem to grow if a front config were launched again, by noise alone.

        A search whose best expected gain lies below this cannot distinguish its next find from luck.
        """
        return self.noise_gain_of(tuple(axis.noise for axis in self._axes))

    def noise_gain_of(self, noise: Sequence[float]) -> float:
        """What `noise_gain` is where a launch's values lie so far from the truth, relative, one for each objective."""
        return self._share(self._growth_by_noise(noise))

    def expected_gain(self, candidates: Sequence[SpecConfig]) -> float:
        """Of the best next launch, as a share of the front's hypervolume."""
        return max((self._share(float(self.gains[self.prior.index[config]])) for config in candidates), default=0.0)

    def optimistic(self, config: SpecConfig, probability: float = 0.05) -> float:
        """What `config` betters at the second objective with no more than `probability`; a gate, once its first was seen."""
        return abs(float(self._hope(config, probability)[1]))

    def share_of_second_phase(self, config: SpecConfig) -> float:
        """Share of a launch's expected time that the second objective's concurrency takes; 0 where it is the first's."""
        if len(self.loads) < 2:
            return 0.0
        place = self.prior.index[config]
        rate = float(np.exp(np.log(1000.0 * self.loads[1]) - self.belief.expected(self.loads[1])[place]))
        return float(self.cost.tokens[1] / rate / self.seconds[place])

    def may_enter(self, config: SpecConfig, probability: float = 0.05) -> bool:
        """Whether the config could still grow the front if it met its optimistic bounds on both axes."""
        hope = self._hope(config, probability)[None, :]
        others = [other for other in self._measured if other != config]
        points = self._points()[[self.prior.index[other] for other in others]].reshape(-1, 2)
        return hypervolume(np.vstack([points, hope]), self.reference) > hypervolume(points, self.reference)

    def _hope(self, config: SpecConfig, probability: float) -> Floats:
        """The good ends of a config's bands, as a point."""
        place = self.prior.index[config]
        return np.array(
            [
                sign * self._quantile(axis, place, probability if sign < 0 else 1.0 - probability)
                for axis, sign in enumerate(self._signs)
            ]
        )

    def _quantile(self, axis: int, place: int, probability: float, *, of_launch: bool = False) -> float:
        """A quantile of one config's value on an axis, in its unit; `of_launch` as for `Belief.quantile`."""
        objective = self.objectives[axis]
        if objective.link is not None:
            falls = objective.link[1] < 0  # the longer the pace, the lower the rate
            log_pace = self.belief.quantile(
                1.0 - probability if falls else probability, objective.concurrency, of_launch=of_launch
            )
            return float(value_of_pace(objective, log_pace[place : place + 1])[0])
        own, weights = self._axes[axis], self.belief.weights
        mean, sd = own.mean[:, place], own.sd[:, place]
        sd = np.hypot(sd, own.noise) if of_launch else sd
        low, high = float((mean - 8 * sd).min()), float((mean + 8 * sd).max())
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = float(weights @ ndtr((middle - mean) / sd)) < probability
            low, high = (middle, high) if below else (low, middle)
        value, ceiling = float(np.exp(0.5 * (low + high))), objective.metric.ceiling
        return value if ceiling is None else min(value, ceiling)

    def forecast(self, config: SpecConfig) -> Forecast:
        """What `config` would measure."""
        place = self.prior.index[config]
        first, second = (self._band(axis, place) for axis in (0, 1))
        likeness = self.prior.kernel(
            np.array([place]), np.array([self.prior.index[c] for c in self._measured], dtype=int)
        )
        nearest = np.argsort(-likeness[0], kind="stable")[:3]
        return Forecast(
            config=config,
            objectives=self.objectives,
            bands=(first, second),
            feasible=float(self.feasible[place]),
            enters_front=float(self.feasible[place]) * self._chance_to_enter(place),
            gain=self._share(float(self.gains[place])),
            nearest=tuple(self._measured[at] for at in nearest),
            measured=config in self._measured,
        )

    def _band(self, axis: int, place: int) -> Band:
        low, middle, high = (self._quantile(axis, place, q, of_launch=True) for q in (_BAND[0], 0.5, _BAND[1]))
        return low, middle, high

    @property
    def _signs(self) -> tuple[int, int]:
        """1 for an axis to be made large, -1 for one to be made small, whose points are negative."""
        first, second = (1 if objective.direction is Direction.MAXIMIZE else -1 for objective in self.objectives)
        return first, second

    def _points(self) -> Floats:
        """Middle values of all configs, such as (-milliseconds, tokens per second), shape (configs, 2)."""
        columns = []
        for objective, axis, sign in zip(self.objectives, self._axes, self._signs, strict=True):
            if objective.link is not None:
                value = value_of_pace(objective, self.belief.expected(objective.concurrency))
            else:
                value = np.exp(self.belief.weights @ axis.mean)
            columns.append(sign * value)
        return np.stack(columns, axis=1)

    def _reference(self, points: Floats, in_play: NDArray[np.int_]) -> Floats:
        """The worse of the baseline and the worst front point, worsened; the front is the one that is expected.

        Taking only measured points would call every config worthless that is slower under load
        than all of them, though it may end the front on the other side.
        """
        plain = [place for config, place in self.prior.index.items() if not config.speculates]
        hoped = np.flatnonzero(self.feasible > 0.5)
        shown = points[np.union1d(hoped, in_play)]
        ends = points[in_play].reshape(-1, 2)
        corners = [shown[front_of(shown)], ends[front_of(ends)]] if len(ends) else [shown[front_of(shown)]]
        if plain:
            best = plain[int(np.argmax(self._score(points[plain])))]
            corners.append(points[[best]])
        worst = np.vstack(corners).min(axis=0)
        return np.array([end * (1.0 - sign * _WORSE) for end, sign in zip(worst, self._signs, strict=True)])

    def _score(self, points: Floats) -> Floats:
        """What ranks baselines: both values multiplied, those to be made small as divisors."""
        first, second = (
            points[:, axis] if sign > 0 else 1.0 / -points[:, axis] for axis, sign in enumerate(self._signs)
        )
        return np.asarray(second * first)

    def _growth(self) -> Floats:
        """Expected growth of the hypervolume by each config if it starts."""
        total = np.zeros(len(self.prior.configs))
        for weight, mean, sd in self._components():
            total += weight * self._improvement(mean, sd)
        return total

    def _growth_by_noise(self, noise: Sequence[float] | None = None) -> float:
        """Growth of the hypervolume that a front config seems to bring when it is launched again, the largest."""
        if not len(self._front):
            return 0.0
        logs = np.log(np.abs(self._front))
        spread = np.array([axis.noise for axis in self._axes] if noise is None else noise)
        return float(self._improvement(logs, np.broadcast_to(spread, logs.shape)).max())

    def _improvement(self, log_mean: Floats, log_sd: Floats) -> Floats:
        first, second = (objective.metric.ceiling for objective in self.objectives)
        return expected_improvement_lognormal(
            self._front, self.reference, log_mean, log_sd, signs=self._signs, ceilings=(first, second)
        )

    def _components(self) -> Iterator[tuple[float, Floats, Floats]]:
        """Weight of each component, mean and deviation of the logarithms of both values."""
        first, second = self._axes
        for place, weight in enumerate(self.belief.weights):
            yield (
                float(weight),
                np.stack([first.mean[place], second.mean[place]], axis=1),
                np.stack([first.sd[place], second.sd[place]], axis=1),
            )

    def _chance_to_enter(self, place: int) -> float:
        """Probability of not being dominated by the measured front, exact for independent axes."""
        # Walking up the front: between two points on the second axis, what beats the upper one on the first is free.
        floors = np.concatenate([[-np.inf], self._front[:, 1], [np.inf]])
        edges = np.concatenate([self._front[:, 0], [-np.inf]])
        first, second = self._signs
        total = 0.0
        for weight, mean, sd in self._components():
            above = _exceeds(floors, second, mean[place, 1], sd[place, 1])
            faster = _exceeds(edges, first, mean[place, 0], sd[place, 0])
            total += weight * float(((above[:-1] - above[1:]) * faster).sum())
        return total

    def _share(self, growth: float) -> float:
        return growth / max(hypervolume(self._front, self.reference), 1e-12) if len(self._front) else growth


def _exceeds(edges: Floats, sign: int, mean: float, sd: float) -> Floats:
    """Chance that a log-normal value lies beyond each edge, on the good side; edges as points have them, negative for times."""
    with np.errstate(divide="ignore"):
        if sign > 0:
            return np.asarray(1.0 - ndtr((np.log(np.maximum(edges, 0.0)) - mean) / sd))
        return np.asarray(ndtr((np.log(np.maximum(-edges, 0.0)) - mean) / sd))


def _as_expected(
    belief: Belief, axes: Sequence[Axis], configs: Sequence[SpecConfig], objectives: Objectives
) -> list[Observation]:
    """Running configs as if measured at what is expected of them: others then look elsewhere."""

    def values(place: int, load: int) -> Iterator[MetricValue]:
        for objective, axis in zip(objectives, axes, strict=True):
            if objective.link is None and objective.concurrency == load:
                yield MetricValue(objective.metric.name, float(np.exp(belief.weights @ axis.mean[:, place])))

    return [
        Observation(
            config,
            load,
            float(np.exp(belief.expected(load)[belief.prior.index[config]])),
            values=tuple(values(belief.prior.index[config], load)),
        )
        for config in configs
        for load in loads_of(objectives)
    ]
