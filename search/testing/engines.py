"""A scripted engine: says what each launch does, counts what was asked, needs no GPU and no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from search.config import SpecConfig
from search.contracts import EffectiveSettings, LaunchPaths, Phase, PhaseResult, SelfClosing, Slot, StopReport
from search.errors import Interrupted, NotRecorded
from search.outcomes import Note
from search.shape import Switched, SwitchRefused
from search.stats.losslessness import write_answers

CLEAN = StopReport(clean=True, duration_s=5.0)


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a scripted server is.

    Attributes:
        rates: Output tokens per second by concurrency.
        accept: Accept length by concurrency, or one for all; None without speculation.
        swings: By concurrency, what the rates of repeats 1, 2, … are multiplied by; the last counts for all later.
    """

    rates: Mapping[int, float]
    accept: float | Mapping[int, float] | None = None
    swings: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def rate_at(self, concurrency: int, repeat: int) -> float | None:
        """Of one repeat, from 1; a probe is as fast as the first."""
        rate, swings = self.rates.get(concurrency), self.swings.get(concurrency, (1.0,))
        return None if rate is None else rate * swings[min(max(repeat, 1), len(swings)) - 1]

    def accept_at(self, concurrency: int) -> float | None:
        """Accept length at one concurrency."""
        return self.accept.get(concurrency) if isinstance(self.accept, Mapping) else self.accept


@dataclass(frozen=True, slots=True)
class Script:
    """What one launch does.

    Attributes:
        speed: What phases measure; a concurrency without a rate raises `NotRecorded`.
        held_out_speed: What phases with the held-out prompts measure; None for `speed`.
        workload_speeds: What phases of a further workload measure, by its name; `speed` for others.
        launch_error: Raised instead of becoming ready.
        phase_error: Raised in place of a phase, by concurrency.
        runs: The config that really runs; None for the one that was asked.
        stop: What closing reports.
        on_close: Called while closing, such as to press Ctrl-C then.
        on_phase: Called when a phase begins, such as to wait for another slot.
        answers: Token ids of an answer, given the number of its prompt, the concurrency and the
            repeat; None for a release that reports none.
        hangs: Phases do not end before `ScriptedEngine.abort`, and then raise `Interrupted`.
        keeps_its_shape: A start of this config turns out to be unable to switch, whatever it was asked to hold.
        switch_s: What a switch to this config takes.
        switch_error: Raised by a switch to this config, such as `SwitchFailed`.
    """

    speed: Speed = Speed({1: 100.0, 100: 1000.0})
    held_out_speed: Speed | None = None
    workload_speeds: Mapping[str, Speed] = field(default_factory=dict)
    boot_s: float = 60.0
    launch_error: BaseException | None = None
    phase_error: Mapping[int, BaseException] = field(default_factory=dict)
    runs: SpecConfig | None = None
    stop: StopReport = CLEAN
    notes: tuple[Note, ...] = ()
    on_close: Callable[[], None] | None = None
    on_phase: Callable[[], None] | None = None
    answers: Callable[[int, int, int], Sequence[int]] | None = None
    hangs: bool = False
    keeps_its_shape: bool = False
    switch_s: float = 40.0
    switch_error: BaseException | None = None


class ScriptedEngine:
    """An engine whose launches follow a script. Slots may use it from several threads.

    Args:
        script: What a config does, given the config and how often it was launched or switched to before.

    Attributes:
        launched: Ids of all configs that a server was started for, in order.
        held: What each of those starts was asked to hold, in the same order.
        switched: Ids of all configs that a start was asked to switch to, in order.
        slots: Index of the slot of each launch, in the same order.
        phases: Concurrency and repeat of all phases that were asked, in order.
        held_out: Of each of those phases, whether it asked for the held-out prompts.
        greedy: Concurrency and repeat of those that asked for greedy answers whatever the study samples at.
        probes: Ids of the configs whose launches were probed (a phase as repeat 0), in order.
        open: Sessions that were not closed.
        most_open: The highest `open` has been.
    """

    def __init__(self, script: Callable[[SpecConfig, int], Script]) -> None:
        self._script: Callable[[SpecConfig, int, int], Script] = lambda config, before, _: script(config, before)
        self._lock = threading.Lock()
        self._aborted = threading.Event()
        self.launched: list[str] = []
        self.held: list[tuple[SpecConfig, ...]] = []
        self.switched: list[str] = []
        self.slots: list[int] = []
        self.phases: list[tuple[int, int]] = []
        self.held_out: list[bool] = []
        self.greedy: list[tuple[int, int]] = []
        self.probes: list[str] = []
        self.open = 0
        self.most_open = 0

    @classmethod
    def on_slots(cls, script: Callable[[SpecConfig, int, int], Script]) -> ScriptedEngine:
        """An engine whose script gets the index of the slot too."""
        engine = cls(lambda _config, _before: Script())
        engine._script = script
        return engine

    @classmethod
    def table(cls, speeds: Mapping[str, Speed], *, boot_s: float = 60.0) -> ScriptedEngine:
        """An engine that always gives the same numbers, by config id."""
        return cls(lambda config, _: Script(speeds[config.config_id], boot_s=boot_s))

    @classmethod
    def sequences(cls, scripts: Mapping[str, Sequence[Script]], *, otherwise: Script) -> ScriptedEngine:
        """An engine that goes through a list of scripts per config id, then stays at `otherwise`."""

        def script(config: SpecConfig, before: int) -> Script:
            mine = scripts.get(config.config_id, ())
            return mine[before] if before < len(mine) else otherwise

        return cls(script)

    def abort(self) -> None:
        """End phases that hang, and every later one, with `Interrupted`. For other threads."""
        self._aborted.set()

    def launch(
        self, config: SpecConfig, *, slot: Slot, paths: LaunchPaths, holds: tuple[SpecConfig, ...] = ()
    ) -> ScriptedSession:
        """See `Engine`."""
        with self._lock:
            script = self._next_script(config, slot)
            self.launched.append(config.config_id)
            self.held.append(holds)
            self.slots.append(slot.index)
        if script.launch_error is not None:
            raise script.launch_error
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        held = () if script.keeps_its_shape else holds
        return ScriptedSession(self, script, script.runs or config, paths, slot=slot, holds=held)

    def _next_script(self, config: SpecConfig, slot: Slot) -> Script:
        before = (*self.launched, *self.switched).count(config.config_id)
        return self._script(config, before, slot.index)


class ScriptedSession(SelfClosing):
    """See `Session`. What a start does as a whole (`boot_s`, `stop`, `on_close`) is of the config it was launched for."""

    def __init__(
        self,
        engine: ScriptedEngine,
        script: Script,
        runs: SpecConfig,
        paths: LaunchPaths,
        *,
        slot: Slot,
        holds: tuple[SpecConfig, ...],
    ) -> None:
        self._engine = engine
        self._started = self._script = script
        self._paths = paths
        self._slot = slot
        self._reachable = (runs, *holds) if holds else ()
        self._closed = False
        self.holds = holds
        self.effective = EffectiveSettings(runs, release="scripted")
        self.boot_s = script.boot_s

    def switch(self, config: SpecConfig, *, paths: LaunchPaths) -> Switched:
        """See `Session`; the script of `config` says what becomes of it."""
        if config not in self._reachable:
            raise SwitchRefused(
                f"This start holds {', '.join(map(str, self._reachable)) or 'one shape'}, not {config}."
            )
        if self._engine._aborted.is_set():
            raise Interrupted("The scripted engine was aborted.")
        with self._engine._lock:
            script = self._engine._next_script(config, self._slot)
            self._engine.switched.append(config.config_id)
        if script.switch_error is not None:
            raise script.switch_error
        self._script, self._paths = script, paths
        self.effective = EffectiveSettings(script.runs or config, release="scripted")
        return Switched(seconds=script.switch_s, built=True, memory_gb=0.5)

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`. Repeat 0 is a probe: it is listed apart; `on_phase` and `hangs` are not for it."""
        if repeat == 0:
            self._engine.probes.append(self.effective.config.config_id)
        else:
            self._engine.phases.append((phase.concurrency, repeat))
            self._engine.held_out.append(phase.held_out)
            if phase.greedy:
                self._engine.greedy.append((phase.concurrency, repeat))
        if self._script.on_phase is not None and repeat > 0:
            self._script.on_phase()
        if self._script.hangs and repeat > 0:
            self._engine._aborted.wait()
        if self._engine._aborted.is_set():
            raise Interrupted("The scripted engine was aborted.")
        if (error := self._script.phase_error.get(phase.concurrency)) is not None:
            raise error
        speed = (self._script.held_out_speed if phase.held_out else None) or self._script.speed
        speed = self._script.workload_speeds.get(phase.workload, speed)
        rate = speed.rate_at(phase.concurrency, repeat)
        if rate is None:
            raise NotRecorded(f"The script has no rate at concurrency {phase.concurrency}.")
        tokens = phase.requests * phase.output_tokens
        answers = self._script.answers
        result = PhaseResult(
            concurrency=phase.concurrency,
            repeat=repeat,
            requests=phase.requests,
            output_tokens=tokens,
            duration_s=tokens / rate,
            output_tps=rate,
            whole_run_tps=rate,
            tpot_ms=1000 * phase.concurrency / rate,
            ttft_ms=50.0,
            accept_length=speed.accept_at(phase.concurrency),
            notes=self._script.notes,
            held_out=phase.held_out,
            workload=phase.workload or None,
            prompt_ids=() if answers is None else tuple(f"p{number}" for number in range(phase.requests)),
            outputs=()
            if answers is None
            else tuple(tuple(answers(number, phase.concurrency, repeat)) for number in range(phase.requests)),
        )
        if result.outputs and not phase.workload:
            write_answers(self._paths.outputs(phase.concurrency), result)
        return result

    def close(self) -> StopReport:
        """See `Session`."""
        if not self._closed:
            self._closed = True
            if self._started.on_close is not None:
                self._started.on_close()
            with self._engine._lock:
                self._engine.open -= 1
        return self._started.stop
