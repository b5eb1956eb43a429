"""Which phases a launch measures: probe, objectives in turn, repeats out of doubt, gates, watch loads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias

from search.config import SpecConfig
from search.contracts import Phase, PhaseResult, Session
from search.errors import Interrupted, NotRecorded
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.outcomes import Evidence
from search.stats.estimates import repeat_doubt
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.context import Recorded, StudyContext
from search.study.course import Course
from search.study.lossless_gate import LosslessGate, refuse_garbage
from search.study.stages import ladder_loads

SkipRule: TypeAlias = Callable[[int, Sequence[PhaseResult]], Evidence | None]
"""Of a trial and what was measured at the first objective's load: why nothing more need be, or None."""

Turn: TypeAlias = threading.Lock
"""Held while a phase is measured: the slots of one host take turns."""

PROBE = Phase(concurrency=1, requests=4, output_tokens=64, staggered=False)
"""Sent right after ready to a server that speculates: some 256 tokens, a few seconds, no warm-up. The
accept length of a wrong draft is 1.00 to the digit, and it does not depend on warmth."""
PROBE_REPEAT = 0
"""Marks the probe among the repeats, which count from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What a launch measures beyond the plan of its study file, and what it may leave out.

    Attributes:
        watch_all: Take every watch phase, not only cheap ones: in a replay all are free. And repeat
            nothing out of doubt: what is not recorded cannot be had.
        probe: End the launch right after ready when a short probe shows that the drafts never help.
            For real servers: a recorded or computed boot cannot be spared.
        gate: Asked on launches of the search, with their trial and the phases of its first objective: why nothing
            more need be measured, or None. Called from the thread of the launch.
        recorded: How many repeats a recorded launch of a config holds at a concurrency, so that a replay takes
            as many; without it, and with `watch_all`, none beyond the plan.
    """

    watch_all: bool = False
    probe: bool = False
    gate: SkipRule | None = None
    recorded: Recorded | None = None


class Measurer:
    """Measures on sessions of one study and stores each phase as it comes. For several threads.

    Args:
        context: The study.
        store: Where phases go.
        measuring: Beyond the plan, and short of it.
        writes: Held while our tables are written.
        stopped: Whether no further phase may be begun.
    """

    def __init__(
        self,
        context: StudyContext,
        *,
        store: Store,
        measuring: Measuring,
        writes: threading.Lock,
        stopped: Callable[[], bool],
    ) -> None:
        self._context = context
        self._spec = context.spec
        self._store = store
        self._measuring = measuring
        self._writes = writes
        self._stopped = stopped
        self._lossless: dict[bool, LosslessGate] = {}

    def measure(self, session: Session, record: LaunchRecord, course: Course, turn: Turn) -> None:
        """Probe; objective phases interleaved, so that a drift of the host meets both; gate; cheap watch phases.

        On the ladder, each rung once instead.
        """
        if self._measuring.probe and session.effective.config.speculates and self._is_hopeless(session, course, turn):
            return
        if record.stage == "ladder":
            for concurrency in ladder_loads(self._spec.loads):
                self._phase(session, record, course, turn, concurrency, 1)
            self._check_outputs(session.effective.config, course)
            return
        loads = self._spec.objective_loads
        for repeat in range(1, self._spec.measure.repeats + 1):
            for concurrency in loads:
                if concurrency != loads[0] and (course.gated or self._skips(record, course)):
                    continue
                try:
                    self._phase(session, record, course, turn, concurrency, repeat)
                except NotRecorded:
                    if concurrency == loads[0]:
                        raise
                    course.gated = True
        if not course.gated:
            self._repeat_what_is_in_doubt(session, record, course, turn)
        self._check_outputs(session.effective.config, course, held_out=record.stage == "confirm")
        if course.skipped:
            return
        for concurrency in self._spec.loads:
            if concurrency in loads:
                continue
            if not self._measuring.watch_all and not self._is_cheap(concurrency, course):
                continue
            for repeat in range(1, self._spec.measure.watch_repeats + 1):
                try:
                    self._phase(session, record, course, turn, concurrency, repeat)
                except NotRecorded:
                    break

    def _repeat_what_is_in_doubt(self, session: Session, record: LaunchRecord, course: Course, turn: Turn) -> None:
        """Measure objectives again, in turn, until they are sure enough or were repeated as often as they may be."""
        measure = self._spec.measure
        for repeat in range(measure.repeats + 1, measure.repeats_at_most + 1):
            for concurrency in self._spec.objective_loads:
                repeats = [result for result in course.phases if result.concurrency == concurrency]
                if len(repeats) == repeat - 1 and self._wants_another(record.asked, repeats):
                    self._phase(session, record, course, turn, concurrency, repeat)

    def _wants_another(self, config: SpecConfig, repeats: Sequence[PhaseResult]) -> bool:
        if self._measuring.recorded is not None:
            return len(repeats) < self._measuring.recorded(config, repeats[0].concurrency)
        return not self._measuring.watch_all and (repeat_doubt(repeats) or 0.0) > self._spec.measure.doubt

    def _skips(self, record: LaunchRecord, course: Course) -> bool:
        """Whether the second objective of a proposal need not be measured; asked once, after the first phase of the first."""
        if self._measuring.gate is None or record.stage != "search" or record.trial is None:
            return False
        if any(phase.concurrency == self._spec.axes[1].concurrency for phase in course.phases):
            return False
        effective = course.effective
        if effective is not None and effective.config != record.asked:
            return False  # what runs is not what the belief was asked about
        course.skipped = self._measuring.gate(record.trial, course.phases)
        course.gated = course.skipped is not None
        return course.gated

    def _is_hopeless(self, session: Session, course: Course, turn: Turn) -> bool:
        """Whether a short probe shows that the drafts never help; the launch is then over."""
        result = self._in_turn(session, PROBE, PROBE_REPEAT, turn)
        course.clock.spend(result.warmup_s + (result.duration_s or 0.0))
        if result.accept_length is None or result.accept_length > DRAFTS_HELP_ABOVE:
            return False
        course.gated = True
        course.hopeless = Evidence(
            f"accept length {result.accept_length:.2f} over {result.output_tokens} tokens right after ready: the drafts "
            f"never help (they do above {DRAFTS_HELP_ABOVE})",
            phase="probe",
        )
        return True

    def _check_outputs(self, config: SpecConfig, course: Course, *, held_out: bool = False) -> None:
        """Compare the answers with the baseline's to the same prompts.

        Raises:
            LoadFailed: BAD_OUTPUT, however fast they came.
        """
        if any(result.outputs for result in course.phases):
            course.lossless = self._losslessness(held_out=held_out).judge(config, course.phases)
            refuse_garbage(course.lossless)

    def _losslessness(self, *, held_out: bool) -> LosslessGate:
        """The study's gate for these prompts; made when a server first tells tokens, since earlier baselines are read for it."""
        with self._writes:
            if held_out not in self._lossless:
                gate = LosslessGate(self._context.reports, self._spec.objective_loads)
                launches = self._store.launches(self._context.name)
                gate.remember([launch for launch in launches if (launch.stage == "confirm") is held_out])
                self._lossless[held_out] = gate
            return self._lossless[held_out]

    def _phase(
        self,
        session: Session,
        record: LaunchRecord,
        course: Course,
        turn: Turn,
        concurrency: int,
        repeat: int,
    ) -> None:
        """Measure and store one repeat."""
        warm = any(result.concurrency == concurrency for result in course.phases)
        phase = replace(self._spec.measure.phase(concurrency, warm=warm), held_out=record.stage == "confirm")
        result = self._in_turn(session, phase, repeat, turn)
        course.clock.spend(result.warmup_s + (result.duration_s or 0.0))
        with self._writes:
            self._store.add_phase(self._context.name, record.number, result)
        course.phases.append(result)

    def _in_turn(self, session: Session, phase: Phase, repeat: int, turn: Turn) -> PhaseResult:
        """Measure in turn with the other slots of the host."""
        with nullcontext() if self._spec.measure.parallel_loads else turn:
            if self._stopped():
                raise Interrupted(f"The phase at concurrency {phase.concurrency} was not begun, because the run ends.")
            return replace(session.measure(phase, repeat), gpus=self._spec.model.tp)

    def _is_cheap(self, concurrency: int, course: Course) -> bool:
        """Whether a watch phase should take no longer than the boot did, at the throughput just seen.

        Throughput between measured loads is taken from the nearest one, scaled down (never up)
        in proportion to the concurrency.
        """
        near = min(
            course.phases,
            key=lambda result: max(concurrency, result.concurrency) / min(concurrency, result.concurrency),
        )
        rate = near.output_tps * min(1.0, concurrency / near.concurrency)
        phase = self._spec.measure.phase(concurrency, warm=False)
        return phase.requests * phase.output_tokens <= rate * (course.boot_s or 0.0)
