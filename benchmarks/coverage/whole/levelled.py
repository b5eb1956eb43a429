"""Computed servers on which every config is as fast as `off`, but for the one that may be better."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from benchmarks.coverage.whole.worlds import AT, BETTER, OFF, World, shipped
from search.config import SpecConfig
from search.contracts import LaunchPaths, OneConfigSession, Phase, PhaseResult, Session, Slot, StopReport
from search.engines import SimulatedEngine
from search.physics.cost import predict
from search.physics.files import load_physics
from search.physics.model import CostModel, Physics


def levelled(world: World, seed: int) -> LevelEngine:
    """Of the shipped study's cost model, with the scatter of a world."""
    spec = shipped()[0]
    physics = _physics(world)
    inner = SimulatedEngine(physics, seed=seed, deployment=spec.deployment)
    return LevelEngine(inner, physics, limit=spec.engine.max_running_requests, gain=world.gain)


class LevelEngine:
    """The simulator with all configs made as fast as `off` at every load; `BETTER` by a gain more at C=100."""

    def __init__(self, inner: SimulatedEngine, physics: Physics, *, limit: int, gain: float) -> None:
        self._inner, self._physics, self._limit, self._gain = inner, physics, limit, gain

    def launch(
        self,
        config: SpecConfig,
        *,
        slot: Slot,
        paths: LaunchPaths,
        holds: tuple[SpecConfig, ...] = (),  # noqa: ARG002
    ) -> LevelSession:
        """See `Engine`."""
        return LevelSession(self._inner.launch(config, slot=slot, paths=paths), self, config)

    def level(self, config: SpecConfig, phase: Phase) -> tuple[float, float]:
        """Factors that make a config's time per token and rate those of `off`."""
        mine, plain = (
            _expected(self._physics.model, one, phase.concurrency, phase.output_tokens, self._limit)
            for one in (config, OFF)
        )
        better = 1.0 + (self._gain if config == BETTER and phase.concurrency == AT else 0.0)
        return plain[0] / mine[0] / better, plain[1] / mine[1] * better


class LevelSession(OneConfigSession):
    """One of its servers."""

    def __init__(self, inner: Session, engine: LevelEngine, config: SpecConfig) -> None:
        self._inner, self._engine, self._config = inner, engine, config
        self.effective, self.boot_s = inner.effective, inner.boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        result = self._inner.measure(phase, repeat)
        slower, faster = self._engine.level(self._config, phase)
        assert result.tpot_ms is not None and result.duration_s is not None
        return replace(
            result,
            tpot_ms=result.tpot_ms * slower,
            # Prompts are paired where there is one stream; elsewhere a thousand of them only take room.
            prompt_tpot_ms=tuple(value * slower for value in result.prompt_tpot_ms) if phase.concurrency == 1 else (),
            prompt_ids=result.prompt_ids if phase.concurrency == 1 else (),
            output_tps=result.output_tps * faster,
            window_tps=tuple(value * faster for value in result.window_tps),
            duration_s=result.duration_s / faster,
            extrapolated=False,
        )

    def close(self) -> StopReport:
        """See `Session`."""
        return self._inner.close()


@lru_cache(maxsize=8)
def _physics(world: World) -> Physics:
    physics = load_physics(shipped()[0].simulation.physics)
    model = replace(physics.model, start_spread=world.between, repeat_spread=world.within)
    return replace(physics, model=model)


@lru_cache(maxsize=65536)
def _expected(
    model: CostModel, config: SpecConfig, concurrency: int, output_tokens: int, limit: int
) -> tuple[float, float]:
    prediction = predict(model, config, concurrency, output_tokens=output_tokens, running_limit=limit)
    return prediction.tpot_ms, prediction.output_tps
