"""What a config would measure, what that is worth, and what unlocking it would bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtri

from search.config import TREE_KNOBS, SpecConfig, SpecVersion
from search.model.belief import DRAWS, Belief, Prior
from search.model.feasibility import Feasibility
from search.model.mechanisms import knob_values
from search.model.observations import Observation
from search.physics.bands import rate_band
from search.physics.cost import predict
from search.physics.model import Physics
from search.samplers.outlook import LaunchCost, Outlook
from search.space import Space
from search.spec.study import StudySpec
from search.whatif.answer import AtLoad, Cost, Expectation, Threshold, Unlocking
from search.whatif.evidence import Basis

_BAND = (0.95, 0.5, 0.05)
"""Of time per token: the slow end of the band is the low end of the rate."""
_HALVINGS = 7
_SMALL_SPACE = 400
"""Configs up to which as many draws as for a few are a matter of a second: one config then gets one forecast, whatever
else is asked."""


class Predictor:
    """A belief about a study's space with the asked configs in it, made once per question.

    Args:
        asked: Canonical; locked ones too.
        basis: The evidence.
        physics: The study's cost model, shown beside the belief and used for the cost of a start.
    """

    def __init__(
        self, spec: StudySpec, space: Space, asked: Sequence[SpecConfig], basis: Basis, physics: Physics
    ) -> None:
        model = physics.model
        seen = [item.config for item in basis.observations]
        configs = tuple(dict.fromkeys([*space.configs, *asked, *seen]))
        self.spec, self.space, self.basis, self.physics = spec, space, basis, physics
        self.boot_s = (model.boot_s if basis.boot_s is None else basis.boot_s) + model.stop_s
        self.outlook = Outlook(
            Prior.of(configs, spec.loads, seed=spec.seed, draws=DRAWS if len(configs) <= _SMALL_SPACE else None),
            Feasibility(configs, seed=spec.seed),
            observations=basis.believed,
            starts=(*basis.earlier.starts, *basis.starts),
            measured=basis.measured,
            objectives=spec.axes,
            cost=LaunchCost(self.boot_s, tuple(spec.tokens_at(load) for load in spec.objective_loads)),
        )

    @property
    def untried(self) -> list[SpecConfig]:
        """Configs that may be launched and were not."""
        tried = {item.config for item in self.basis.observations if self.basis.kind != "prior"}
        tried |= {start.config for start in self.basis.starts}
        return [config for config in self.space.configs if config not in tried]

    def expectation(self, config: SpecConfig) -> Expectation:
        """Bands at every load of the study, and the value of a launch."""
        forecast = self.outlook.forecast(config)
        return Expectation(
            loads=tuple(self._at(config, load) for load in self.spec.loads),
            starts=forecast.feasible,
            enters_front=forecast.enters_front,
            gain=forecast.gain,
            nearest=tuple(other.config_id for other in forecast.nearest if other != config),
            gaps=tuple(self._gaps(config)),
        )

    def cost(self, config: SpecConfig) -> Cost:
        """GPU time at the expected rates."""
        seconds = sum(self.spec.tokens_at(load) / self._rates(config, load)[1] for load in self.spec.loads)
        timed = self.basis.boot_s is not None
        source = f"cost model {self.spec.simulation.physics}"
        if timed:
            source = "the median start of the launches behind it, and the cost model's stop"
        return Cost(self.boot_s, seconds, self.spec.model.tp, source, self._memory(config))

    def unlocking(self, config: SpecConfig) -> Unlocking | None:
        """What the same tree on the other worker would say; None without a legal, untried twin."""
        twin = next((other for other in self.untried if _is_twin(config, other)), None)
        if twin is None:
            return None
        loads = self.spec.objective_loads
        found = (self._threshold(config, twin, load) for load in loads)
        return Unlocking(twin.config_id, tuple(item for item in found if item is not None))

    def _rates(self, config: SpecConfig, load: int) -> tuple[float, float, float]:
        """5%, 50% and 95% of output tokens per second."""
        place = self.outlook.prior.index[config]
        low, middle, high = (
            1000.0 * load / np.exp(self.outlook.belief.quantile(q, load, of_launch=True)[place]) for q in _BAND
        )
        return float(low), float(middle), float(high)

    def _at(self, config: SpecConfig, load: int) -> AtLoad:
        low, expected, high = self._rates(config, load)
        best = self.basis.best_at(load)
        limit = self.spec.engine.max_running_requests
        place = self.outlook.prior.index[config]
        own = best is not None and best.config == config
        band = rate_band(self.physics, config, load, running_limit=limit)
        return AtLoad(
            concurrency=load,
            low=low,
            expected=expected,
            high=high,
            measured=self.basis.kind != "prior"
            and any(item.config == config and item.load == load for item in self.basis.observations),
            best=best.config.config_id if best else "",
            best_tps=best.output_tps if best else None,
            beats=None
            if best is None or own
            else float(self.outlook.belief.probability_below(np.log(best.pace_ms), load, of_launch=True)[place]),
            model_tps=predict(self.physics.model, config, load, running_limit=limit).output_tps,
            model_band=None if band is None else (band.low, band.high),
        )

    def _memory(self, config: SpecConfig) -> str:
        tokens = config.verify_tokens
        rows = f"{tokens} x {self.spec.engine.max_running_requests} tokens in the largest pass"
        if any(start.config == config and start.started for start in self.basis.starts):
            return f"{rows}; it has started"
        failed = [start.config for start in self.basis.starts if not start.started and start.of_memory]
        worse = [other for other in failed if other.verify_tokens <= tokens]
        if worse:
            return f"{rows}; {worse[0]} ran out of memory with {worse[0].verify_tokens} per request"
        started = {start.config for start in self.basis.starts if start.started and start.config != config}
        above = min((o for o in started if o.verify_tokens >= tokens), key=lambda o: o.verify_tokens, default=None)
        if above is not None:
            return f"{rows}; {above}, which started, has {above.verify_tokens} per request"
        most = max(started, key=lambda o: o.verify_tokens, default=None)
        if most is None:
            return f"{rows}; nothing is known to start"
        return f"{rows}; more than anything that started ({most}: {most.verify_tokens} per request)"

    def _gaps(self, config: SpecConfig) -> Iterator[str]:
        """What of a config no measurement shows."""
        if self.basis.kind == "prior":
            yield "anything."
            return
        seen = list(dict.fromkeys(item.config for item in self.basis.observations))
        if config in seen:
            return
        drafting = [other for other in seen if other.speculates]
        if config.speculates and not drafting:
            yield "anything that speculates."
            return
        if config.speculates:
            yield from _unseen_numbers(config, drafting)
        if config.speculates:
            worker = [other for other in drafting if other.spec_version == config.spec_version]
            if not worker:
                yield f"{config.spec_version.value} at all."
            elif all(other.topk != config.topk for other in worker):
                widths = " and ".join(map(str, sorted({other.topk or 0 for other in worker})))
                yield f"{config.spec_version.value} with topk {config.topk} (only with {widths})."
        met = {knob for other in seen for knob in knob_values(other)}
        for name, value in knob_values(config):
            if (name, value) not in met:
                yield f"{name} {value} with anything: its effect is a prior."

    def _threshold(self, config: SpecConfig, twin: SpecConfig, load: int) -> Threshold | None:
        best = self.basis.best_at(load)
        if best is None:
            return None
        prior = self.outlook.prior.part((config, twin, *(item.config for item in self.basis.believed)))
        index, belief = prior.index, Belief.given(prior, self.basis.believed)
        goal = float(np.log(best.pace_ms))
        middle, sd = float(belief.expected(load)[index[twin]]), float(belief.std(load)[index[twin]])

        def even(log_ms: float) -> bool:
            given = [*self.basis.believed, Observation(twin, load, float(np.exp(log_ms)))]
            return bool(Belief.given(prior, given).expected(load)[index[config]] <= goal)

        slow, fast = middle, middle + sd * float(ndtri(0.001))
        if even(slow):
            slow = middle - sd * float(ndtri(0.001))
            fast = middle
        if not even(fast):
            return Threshold(load, best.config.config_id, best.output_tps, None, 0.0)
        for _ in range(_HALVINGS):
            between = 0.5 * (slow + fast)
            slow, fast = (slow, between) if even(between) else (between, fast)
        chance = float(belief.probability_below(fast, load)[index[twin]])
        return Threshold(load, best.config.config_id, best.output_tps, 1000.0 * load / float(np.exp(fast)), chance)


def _unseen_numbers(config: SpecConfig, drafting: Sequence[SpecConfig]) -> Iterator[str]:
    """Numbers of a tree that no measured tree has: between measured ones, or beyond them."""
    unseen = []
    for name in TREE_KNOBS:
        value, known = getattr(config, name), sorted({getattr(other, name) for other in drafting})
        if value not in known:
            where = "between" if known[0] < value < known[-1] else "beyond"
            unseen.append(f"{name} {value} ({where} the measured {', '.join(map(str, known))})")
    if unseen:
        yield f"{', '.join(unseen)}."


def _is_twin(config: SpecConfig, other: SpecConfig) -> bool:
    """The same but for the worker."""
    workers = {config.spec_version, other.spec_version}
    mine, theirs = ({**c.params, "spec_version": ""} for c in (config, other))
    return workers == {SpecVersion.V1, SpecVersion.V2} and mine == theirs
