"""What a launch of each config is expected to bring: growth of the front, by chance and by cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from search.config import SpecConfig, simplicity
from search.model.belief import Belief, Prior
from search.model.feasibility import Feasibility, Start
from search.model.observations import Observation
from search.samplers.hypervolume import expected_improvement_lognormal, front_of, hypervolume

Floats: TypeAlias = NDArray[np.float64]

_WORSE: Final = 0.10
"""The reference point lies this share beyond the baseline and the worst of the front."""
_BAND: Final = (0.05, 0.95)
_CAUTION: Final = 2.0
"""Power of the probability to start: a failure costs a launch and brings neither growth nor numbers."""
_BENEATH: Final = 0.1
"""This share of the measuring doubt is credited to every launch: among gains far beneath what measuring can tell,
the launch that surely starts goes first. Without it the doubtful are launched as soon as nothing else would grow."""


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """What one launch costs in seconds of GPU time; the defaults are a middling deployment's.

    Attributes:
        boot_s: Start and stop of a server.
        latency_tokens: Output tokens measured one request at a time, all repeats.
        throughput_tokens: Output tokens measured at the high concurrency, all repeats.
    """

    boot_s: float = 300.0
    latency_tokens: float = 2 * 16 * 256
    throughput_tokens: float = 2 * 300 * 256

    def seconds(self, latency_ms: Floats, throughput_tps: Floats) -> Floats:
        """Of configs with these speeds."""
        return self.boot_s + self.latency_tokens * latency_ms / 1000.0 + self.throughput_tokens / throughput_tps


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a launch of one config would measure, noise and all, with 90% bands, and whether it is worth it.

    Attributes:
        latency_ms: 5%, 50% and 95% of time per token at the low concurrency.
        output_tps: The same of throughput at the high concurrency.
        feasible: Probability that it starts.
        enters_front: Probability that it starts and no measured config dominates it.
        gain: Expected growth of the front's hypervolume, as a share of it; failure counted as 0.
        cost_s: Expected GPU seconds of a launch.
        nearest: The measured configs most like it, the likest first.
        measured: Whether it was measured itself.
    """

    config: SpecConfig
    latency_ms: tuple[float, float, float]
    output_tps: tuple[float, float, float]
    feasible: float
    enters_front: float
    gain: float
    cost_s: float
    nearest: tuple[SpecConfig, ...]
    measured: bool

    @property
    def why(self) -> str:
        """One line for people: why this config is launched."""
        return (
            f"expected front gain {self.gain:.1%}, feasible {self.feasible:.0%}, enters the front {self.enters_front:.0%}; "
            f"expects {self.latency_ms[1]:.3g} ms ({self.latency_ms[0]:.3g} to {self.latency_ms[2]:.3g}) and "
            f"{self.output_tps[1]:.0f} tok/s ({self.output_tps[0]:.0f} to {self.output_tps[2]:.0f})"
        )


class Outlook:
    """The belief about a space, seen through its front. Made anew after each launch; cheap for hundreds of configs.

    The belief is Gaussian in logarithms; the hypervolume is that of people's units, milliseconds times
    tokens per second, so both axes are log-normal and the expected growth is still exact. (Growth of the
    logarithms' hypervolume pays as much for the last percent at either end of the front as for its
    middle, and needed more launches.) The two objectives of a config are taken as independent given the
    mixture's component: both draw on one accept length, but taking that into account (a quadrature over
    what they share) changed no figure of the race. Widening the doubt, to reward learning, needed more launches.

    Args:
        prior: Of the space; locked configs may be in it, to be predicted.
        feasibility: Of the same configs.
        observations: Numbers so far.
        starts: What started and what failed.
        measured: Configs with both objectives, the candidates for the front.
        pending: Configs that run now: they count as if they ended as expected.
        loads: The low and the high objective concurrency.
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
        loads: tuple[int, int] = (1, 100),
        cost: LaunchCost | None = None,
    ) -> None:
        self.prior, self.loads, self.cost = prior, loads, cost or LaunchCost()
        index = prior.index
        self._measured = [config for config in dict.fromkeys(measured) if config in index]
        self.feasible = feasibility.probability(starts)
        belief = Belief.given(prior, observations)
        running = [config for config in dict.fromkeys(pending) if config in index and config not in self._measured]
        if running:
            belief = Belief.given(prior, [*observations, *_as_expected(belief, running, loads)])
        self.belief = belief
        points = self._points()
        hoped = [config for config in running if self.feasible[index[config]] > 0.5]
        in_play = np.array([index[config] for config in [*self._measured, *hoped]], dtype=int)
        self.reference = self._reference(points, in_play)
        seen = points[in_play].reshape(-1, 2)
        self._front = seen[front_of(seen)]
        growth = self._growth()
        self.gains = growth * self.feasible
        self._worth = (growth + _BENEATH * self._growth_by_noise()) * self.feasible**_CAUTION
        self.seconds = self.cost.seconds(-points[:, 0], points[:, 1])

    @property
    def front(self) -> tuple[SpecConfig, ...]:
        """Measured configs on the front of their denoised values, the lowest latency first."""
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
    def measuring_doubt(self) -> float:
        """The share by which the front would seem to grow if a front config were launched again, by noise alone.

        A search whose best expected gain lies below this cannot tell its next find from luck.
        """
        return self._share(self._growth_by_noise())

    def expected_gain(self, candidates: Sequence[SpecConfig]) -> float:
        """Of the best next launch, as a share of the front's hypervolume."""
        return max((self._share(float(self.gains[self.prior.index[config]])) for config in candidates), default=0.0)

    def optimistic_output_tps(self, config: SpecConfig, probability: float = 0.05) -> float:
        """Throughput that `config` exceeds with no more than `probability`; after its low phase was observed, a gate."""
        place = self.prior.index[config]
        log_ms = float(self.belief.quantile(probability, self.loads[1])[place])
        return 1000.0 * self.loads[1] / float(np.exp(log_ms))

    def share_of_high_phase(self, config: SpecConfig) -> float:
        """Share of a launch's expected time that its high concurrency takes."""
        place = self.prior.index[config]
        rate = float(np.exp(np.log(1000.0 * self.loads[1]) - self.belief.expected(self.loads[1])[place]))
        return float(self.cost.throughput_tokens / rate / self.seconds[place])

    def may_enter(self, config: SpecConfig, probability: float = 0.05) -> bool:
        """Whether the config could still grow the front if it met its optimistic bounds on both axes."""
        place = self.prior.index[config]
        hope = _natural(
            np.array([[self.belief.quantile(probability, load)[place] for load in self.loads]]), self.loads[1]
        )
        others = [other for other in self._measured if other != config]
        points = self._points()[[self.prior.index[other] for other in others]].reshape(-1, 2)
        return hypervolume(np.vstack([points, hope]), self.reference) > hypervolume(points, self.reference)

    def forecast(self, config: SpecConfig) -> Forecast:
        """What `config` would measure."""
        place = self.prior.index[config]
        low, high = (
            [float(np.exp(self.belief.quantile(q, load, told=True)[place])) for q in (_BAND[0], 0.5, _BAND[1])]
            for load in self.loads
        )
        likeness = self.prior.kernel(
            np.array([place]), np.array([self.prior.index[c] for c in self._measured], dtype=int)
        )
        nearest = np.argsort(-likeness[0], kind="stable")[:3]
        return Forecast(
            config=config,
            latency_ms=(low[0], low[1], low[2]),
            output_tps=tuple(1000.0 * self.loads[1] / ms for ms in reversed(high)),  # type: ignore[arg-type]
            feasible=float(self.feasible[place]),
            enters_front=float(self.feasible[place]) * self._chance_to_enter(place),
            gain=self._share(float(self.gains[place])),
            cost_s=float(self.seconds[place]),
            nearest=tuple(self._measured[at] for at in nearest),
            measured=config in self._measured,
        )

    def _points(self) -> Floats:
        """Middle values of all configs as (-milliseconds, tokens per second), shape (configs, 2)."""
        return _natural(np.stack([self.belief.expected(load) for load in self.loads], axis=1), self.loads[1])

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
            best = plain[int(np.argmax(points[plain, 1] / -points[plain, 0]))]
            corners.append(points[[best]])
        worst = np.vstack(corners).min(axis=0)
        return np.array([worst[0] * (1.0 + _WORSE), worst[1] * (1.0 - _WORSE)])

    def _growth(self) -> Floats:
        """Expected growth of the hypervolume by each config if it starts."""
        total = np.zeros(len(self.prior.configs))
        for weight, mean, sd in self._components():
            total += weight * expected_improvement_lognormal(self._front, self.reference, mean, sd)
        return total

    def _growth_by_noise(self) -> float:
        """Growth of the hypervolume that a front config seems to bring when it is launched again, the largest."""
        if not len(self._front):
            return 0.0
        logs = np.log(np.abs(self._front))
        noise = self.belief.noise[[self.prior.load_index(load) for load in self.loads]]
        again = expected_improvement_lognormal(self._front, self.reference, logs, np.broadcast_to(noise, logs.shape))
        return float(again.max())

    def _components(self) -> Iterator[tuple[float, Floats, Floats]]:
        """Weight of each component, mean and deviation of (log milliseconds, log tokens per second)."""
        places = [self.prior.load_index(load) for load in self.loads]
        for weight, mean, sd in zip(self.belief.weights, self.belief.mean, self.belief.sd, strict=True):
            rate = np.log(1000.0 * self.loads[1]) - mean[:, places[1]]
            yield float(weight), np.stack([mean[:, places[0]], rate], axis=1), sd[:, places]

    def _chance_to_enter(self, place: int) -> float:
        """Probability of not being dominated by the measured front, exact for independent axes."""
        # Walking up the front: between two points on the second axis, what beats the upper one on the first is free.
        floors = np.concatenate([[0.0], self._front[:, 1], [np.inf]])
        edges = np.concatenate([-self._front[:, 0], [np.inf]])
        total = 0.0
        with np.errstate(divide="ignore"):
            log_floors, log_edges = np.log(floors), np.log(edges)
        for weight, mean, sd in self._components():
            above = 1.0 - ndtr((log_floors - mean[place, 1]) / sd[place, 1])
            faster = ndtr((log_edges - mean[place, 0]) / sd[place, 0])
            total += weight * float(((above[:-1] - above[1:]) * faster).sum())
        return total

    def _share(self, growth: float) -> float:
        return growth / max(hypervolume(self._front, self.reference), 1e-12) if len(self._front) else growth


def _natural(log_ms: Floats, load: int) -> Floats:
    """Log milliseconds at both loads as points (-milliseconds, tokens per second)."""
    return np.stack([-np.exp(log_ms[:, 0]), 1000.0 * load / np.exp(log_ms[:, 1])], axis=1)


def _as_expected(belief: Belief, configs: Sequence[SpecConfig], loads: tuple[int, int]) -> list[Observation]:
    """Running configs as if measured at what is expected of them: others then look elsewhere."""
    return [
        Observation(config, load, float(np.exp(belief.expected(load)[belief.prior.index[config]])))
        for config in configs
        for load in loads
    ]
