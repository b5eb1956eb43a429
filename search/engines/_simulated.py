"""The calibrated cost model behind the engine contract."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, PhaseResult, Slot
from search.deployment import Deployment
from search.engines._noise import Noise, mean_one
from search.engines._played import PlayedSession
from search.errors import LaunchFailed
from search.load.metrics import DRAFTS_HELP_ABOVE, mean, p50, p99
from search.load.target import Limits
from search.outcomes import Evidence, Note, Reason
from search.physics.acceptance import accept_length
from search.physics.cost import CostPrediction, predict, running_requests, tree_survival
from search.physics.model import CostModel, Physics
from search.shape import Switched, SwitchRefused

WINDOWS = 10
"""Slices of the steady window."""

WINDOW_SPREAD = 0.01
"""Relative standard deviation between slices."""

PLAIN_PROMPT_SPREAD = 0.004
"""Relative standard deviation between prompts that has nothing to do with drafts."""

PREFILL_SPREAD = 0.3
"""Relative standard deviation of the prompts' lengths, and so of their prefills; assumed, in no parameter file."""

_GOLDEN = (5**0.5 - 1) / 2

DRIFT = 0.1
"""Fall of the accept length from one request on that counts as a drift."""


class SimulatedEngine:
    """Launches nothing and answers from a cost model.

    It moves no clock. What things would take stands in the values it returns, for whoever holds
    the clock to spend: `Session.boot_s`, `PhaseResult.warmup_s` and `duration_s`,
    `StopReport.duration_s`, and `spent_s` of a failed launch.

    Noise is a function of seed, config, launch (the name of its folder), concurrency, repeat and
    prompt set. The same launch gives the same numbers in any process and in any order of its
    phases; another launch of the same config gives others.
    """

    def __init__(
        self,
        physics: Physics,
        *,
        seed: int,
        deployment: Deployment,
        noise: bool = True,
        limits: Limits | None = None,
        acceptance: Mapping[str, float] | None = None,
    ) -> None:
        """Keep what every launch shares.

        Args:
            physics: The cost model and what it was fitted to.
            seed: Of all noise.
            deployment: Its release and its `max_running_requests` apply to every launch.
            noise: Off for the model's bare expectation.
            limits: Of the study, for goodput; there is none without.
            acceptance: Factor on the chance that a first draft is accepted, by workload; 1 where none is named.
        """
        self._physics = physics
        self._deployment = deployment
        self._noise = Noise(seed, enabled=noise)
        self._limits = limits
        self._acceptance = dict(acceptance or {})

    def launch(
        self,
        config: SpecConfig,
        *,
        slot: Slot,  # noqa: ARG002
        paths: LaunchPaths,
        holds: tuple[SpecConfig, ...] = (),
    ) -> SimulatedSession:
        """See `Engine`; writes no file.

        Raises:
            LaunchFailed: The tree is larger than the model's memory allows.
        """
        model = self._physics.model
        launch = paths.root.name
        boot_s = model.boot_s * self._noise.factor(model.boot_spread, "boot", config, launch)
        most = model.draft_token_limit
        if most is not None and config.verify_tokens > most:
            line = f"Simulated: {config.verify_tokens} draft tokens need more memory than graphs of {most} leave."
            raise LaunchFailed(Reason.OOM_GRAPH, Evidence(line, phase="graph capture"), boot_s)
        return SimulatedSession(
            self._physics,
            self._noise,
            self._deployment,
            config,
            launch,
            boot_s,
            self._limits,
            self._acceptance,
            holds=holds,
        )


class SimulatedSession(PlayedSession):
    """One simulated server."""

    def __init__(
        self,
        physics: Physics,
        noise: Noise,
        deployment: Deployment,
        config: SpecConfig,
        launch: str,
        boot_s: float,
        limits: Limits | None = None,
        acceptance: Mapping[str, float] | None = None,
        holds: tuple[SpecConfig, ...] = (),
    ) -> None:
        limit = running_requests(physics.model, config, deployment.max_running_requests)
        super().__init__(
            effective=EffectiveSettings(config, release=deployment.release, max_running_requests=limit),
            boot_s=boot_s,
            stop_s=physics.model.stop_s,
        )
        self._physics = physics
        self._noise = noise
        self._config = config
        self._deployment = deployment
        self._reachable = (config, *holds) if holds else ()
        self._start = launch
        self._launch = launch
        self._limit = limit
        self._limits = limits
        self._acceptance = dict(acceptance or {})

    @property
    def holds(self) -> tuple[SpecConfig, ...]:
        """See `Session`."""
        return self._reachable[1:]

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:
        """See `Session`; writes no file. What the start drew stays, what a place draws is new.

        Raises:
            SwitchRefused: The start was not made to hold the config, or the model has no memory for its tree.
        """
        model = self._physics.model
        if config not in self._reachable:
            raise SwitchRefused(f"this start was not made to hold {config}")
        if model.draft_token_limit is not None and config.verify_tokens > model.draft_token_limit:
            raise SwitchRefused(f"{config.verify_tokens} draft tokens need more memory than the model has")
        self._config, self._launch = config, paths.root.name
        self._limit = running_requests(model, config, self._deployment.max_running_requests)
        self._effective = EffectiveSettings(config, release=self._deployment.release, max_running_requests=self._limit)
        seconds = model.switch_s * self._noise.factor(model.boot_spread, "switch", config, self._launch)
        return Switched(seconds=seconds, built=True, memory_gb=0.0)

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        self._require_open(phase.concurrency)
        model, config = self._model_of(phase.workload), self._config
        expected = predict(
            model, config, phase.concurrency, output_tokens=phase.output_tokens, running_limit=self._limit
        )
        prompts = "held-out" if phase.held_out else "own"
        prompts = f"{phase.workload} {prompts}" if phase.workload else prompts
        keys = (config, self._launch, phase.concurrency, repeat, prompts)
        slower = self._start_factor(phase.concurrency) * self._noise.factor(model.repeat_spread, "repeat", *keys)
        tpot_ms = expected.tpot_ms * slower
        output_tps = expected.output_tps / slower
        ttft_ms = expected.ttft_ms * self._noise.factor(5 * model.repeat_spread, "ttft", *keys)
        duration_s = _duration_s(expected, phase.requests, phase.output_tokens, tpot_ms, model.prefill_ms)
        warmup_s = _duration_s(expected, phase.warmup_requests, phase.warm_up.output_tokens, tpot_ms, model.prefill_ms)
        output_tokens = phase.requests * phase.output_tokens
        histogram = self._histogram(expected, output_tokens, *keys)
        prompt_tpot_ms = self._per_prompt(tpot_ms, phase.requests, prompts, *keys)
        waits = self._first_tokens(expected, ttft_ms, phase.requests, prompts)
        lasts = [
            first + (phase.tokens_of(place) - 1) * each
            for place, (first, each) in enumerate(zip(waits, prompt_tpot_ms, strict=True))
        ]
        goodput = self._goodput(waits, prompt_tpot_ms)
        return PhaseResult(
            concurrency=phase.concurrency,
            repeat=repeat,
            requests=phase.requests,
            output_tokens=output_tokens,
            duration_s=duration_s,
            output_tps=output_tps,
            whole_run_tps=output_tokens / duration_s,
            tpot_ms=tpot_ms,
            ttft_ms=ttft_ms,
            accept_length=_mean_accept(histogram) if histogram else None,
            accept_histogram=histogram,
            ttft_p50_ms=p50(waits),
            ttft_p99_ms=p99(waits),
            e2e_ms=mean(lasts),
            e2e_p99_ms=p99(lasts),
            goodput=goodput,
            goodput_rps=None if goodput is None else goodput * output_tps / phase.output_tokens,
            prompt_tpot_ms=prompt_tpot_ms,
            prompt_ids=tuple(f"{prompts}-{place}" for place in range(phase.requests)),
            window_tps=tuple(
                output_tps * factor for factor in self._noise.factors(WINDOW_SPREAD, WINDOWS, "window", *keys)
            ),
            # Two rounds agree at once: nothing is cold here.
            warmup_s=min(2, phase.warmup_rounds) * warmup_s,
            notes=self._notes(expected),
            extrapolated=not self._physics.covers(config, phase.concurrency),
            held_out=phase.held_out,
            workload=phase.workload or None,
        )

    def _model_of(self, workload: str) -> CostModel:
        """The cost model, with the acceptance that the study file claims for a workload."""
        model, factor = self._physics.model, self._acceptance.get(workload, 1.0)
        return model if factor == 1.0 else replace(model, first_accept=min(1.0, model.first_accept * factor))

    def _start_factor(self, concurrency: int) -> float:
        """What this start drew: half of its variance at all loads alike, half at each load anew."""
        each = self._physics.model.start_spread / math.sqrt(2)
        # A start that holds several configs draws once for all of them.
        keys = ("start", self._config if not self._reachable else self._reachable[0], self._start)
        return self._noise.factor(each, *keys) * self._noise.factor(each, *keys, concurrency)

    def _histogram(self, expected: CostPrediction, output_tokens: int, *keys: object) -> tuple[int, ...]:
        if not expected.accept_histogram:
            return ()
        passes = max(1, round(output_tokens / expected.accept_length))
        return self._noise.counts(passes, expected.accept_histogram, "accept", *keys)

    def _per_prompt(self, tpot_ms: float, requests: int, prompts: str, *keys: object) -> tuple[float, ...]:
        """One value per request, `tpot_ms` in the mean; a prompt that drafts badly does so for every config."""
        spread = self._physics.model.prompt_spread if self._config.speculates else PLAIN_PROMPT_SPREAD
        shared = self._noise.factors(spread, requests, "prompts", prompts)
        own = self._noise.factors(PLAIN_PROMPT_SPREAD, requests, "prompt", *keys)
        return tuple(tpot_ms * factor for factor in mean_one([a * b for a, b in zip(shared, own, strict=True)]))

    def _first_tokens(self, expected: CostPrediction, ttft_ms: float, requests: int, prompts: str) -> list[float]:
        """Time to first token of each request, `ttft_ms` in the mean.

        By the cost model's own parts: the wait for admission, a prefill as long as the prompt, and the cycle
        that is under way when the request comes, of which it meets anything from the end to the beginning.
        """
        prefill = self._physics.model.prefill_ms
        waiting = expected.ttft_ms - prefill - expected.cycle_ms
        lengths = self._noise.factors(PREFILL_SPREAD, requests, "lengths", prompts)
        # Places in a cycle fill it evenly, the same for every config.
        shares = [0.5 + (0.5 + place * _GOLDEN) % 1.0 for place in range(requests)]
        raw = [waiting + prefill * a + expected.cycle_ms * b for a, b in zip(lengths, shares, strict=True)]
        return [ttft_ms * value for value in mean_one(raw)]

    def _goodput(self, ttft_ms: Sequence[float], tpot_ms: Sequence[float]) -> float | None:
        """Share of the requests that keep both limits; None without limits."""
        limits = self._limits
        if limits is None:
            return None
        ttft, tpot = limits.ttft_ms or math.inf, limits.tpot_ms or math.inf
        good = sum(first <= ttft and each <= tpot for first, each in zip(ttft_ms, tpot_ms, strict=True))
        return good / len(ttft_ms)

    def _notes(self, expected: CostPrediction) -> tuple[Note, ...]:
        notes = [Note.SYNTHETIC]
        if expected.admission_limited:
            notes.append(Note.ADMISSION_LIMITED)
        if self._config.speculates:
            if expected.accept_length <= DRAFTS_HELP_ABOVE:
                notes.append(Note.NO_DRAFT_GAIN)
            alone = accept_length(tree_survival(self._physics.model, self._config))
            if alone - expected.accept_length > DRIFT:
                notes.append(Note.ACCEPT_DRIFT)
        return tuple(notes)


def _duration_s(
    expected: CostPrediction, requests: int, output_tokens: int, tpot_ms: float, prefill_ms: float
) -> float:
    """Waves of as many requests as run at once; the last wave takes as long as a full one."""
    waves = math.ceil(requests / expected.running)
    return waves * (prefill_ms + output_tokens * tpot_ms) / 1000.0


def _mean_accept(histogram: tuple[int, ...]) -> float:
    return 1.0 + sum(drafts * passes for drafts, passes in enumerate(histogram)) / sum(histogram)
