"""Which phases a launch measures: probe, objectives in turn on one prompt set or both, gates, other loads, ladder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeAlias

from search.config import SpecConfig
from search.contracts import Phase, PhaseResult, Session
from search.errors import Interrupted, NotRecorded
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.metrics import mean_rate
from search.outcomes import Evidence
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.context import Recorded, StudyContext
from search.study.course import Course
from search.study.events import Step, Steps, unheard
from search.study.greedy import greedy_phases
from search.study.lossless_gate import LosslessGate, refuse_garbage
from search.study.scatter import Kept, is_behind_everywhere, is_held_out
from search.study.stages import climbed_families, ladder_loads

SkipRule: TypeAlias = Callable[[int, Sequence[PhaseResult]], Evidence | None]
"""Of a trial and what was measured at the first objective's load: why nothing more need be, or None."""

Turn: TypeAlias = threading.Lock
"""Held while a phase is measured: the slots of one host take turns."""

PROBE = Phase(concurrency=1, requests=4, output_tokens=64, staggered=False)
"""Sent right after ready to a server that speculates: some 256 tokens, a few seconds, no warm-up. The
accept length of a wrong draft is 1.00 to the digit, and it does not depend on warmth."""
PROBE_REPEAT = 0
"""Marks the probe among the repeats, which count from 1."""

_COMPARED = 2
"""Least repeats of what is compared in the end, so that it shows how far repeats differ."""
_CHEAP = 0.2
"""A watch phase may take this share of its boot (after a switch: of the measurement so far); the first baseline's may take as
long as the boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """What a launch measures beyond the plan of its study file, and what it may leave out.

    Attributes:
        watch_all: Of a replay: take every watch phase, for all are free, and send one set of prompts.
        probe: End the launch right after ready when a short probe shows that the drafts never help.
            For real servers: a recorded or computed boot cannot be spared.
        gate: Asked on launches of the search, with their trial and the phases of its first objective: why nothing
            more need be measured, or None. Called from the thread of the launch.
        recorded: What a recording holds of a config, so that a replay takes as many repeats of each of its starts.
        ladders: Families that climb the ladder on a confirmed start.
        both_prompt_sets: Baselines measure the objectives with the held-out prompts too: there are confirmations to
            be compared with them.
        launches: Of the study so far. For any thread.
    """

    watch_all: bool = False
    probe: bool = False
    gate: SkipRule | None = None
    recorded: Recorded | None = None
    ladders: int = 0
    both_prompt_sets: bool = False
    launches: Callable[[], Sequence[LaunchRecord]] = tuple


class Measurer:
    """Measures on sessions of one study and stores each phase as it comes. For several threads.

    Args:
        context: The study.
        store: Where phases go.
        measuring: Beyond the plan, and short of it.
        writes: Held while our tables are written.
        stopped: Whether no further phase may be begun.
        step: Told of phases that begin and end.
    """

    def __init__(
        self,
        context: StudyContext,
        *,
        store: Store,
        measuring: Measuring,
        writes: threading.Lock,
        stopped: Callable[[], bool],
        step: Steps = unheard,
    ) -> None:
        self._step = step
        self._context = context
        self._spec = context.spec
        self._store = store
        self._measuring = measuring
        self._writes = writes
        self._stopped = stopped
        self._lossless: dict[bool, LosslessGate] = {}
        self._kept: Kept = {}

    def measure(self, session: Session, record: LaunchRecord, course: Course, turn: Turn) -> None:
        """Probe; objective phases interleaved, so that a drift of the host meets both; gate; then other loads.

        A ladder takes each rung once instead.

        Args:
            session: A server that is ready.
            record: The launch's row, completed here.
            course: Which phases, in which order.
            turn: Where people watch.
        """
        if self._measuring.probe and session.effective.config.speculates and self._is_hopeless(session, course, turn):
            return
        if record.stage == "ladder":
            # On the prompts of the families that climb on confirmed starts.
            held_out = self._has_held_out and self._measuring.both_prompt_sets
            for concurrency in ladder_loads(self._spec.loads):
                self._phase(session, record, course, turn, concurrency, 1, held_out=held_out)
            self._check_outputs(session.effective.config, course, held_out=held_out)
            return
        loads = self._spec.objective_loads
        for repeat, concurrency, held_out in self._objective_phases(record):
            if concurrency != loads[0] and (course.gated or self._skips(record, course)):
                continue
            try:
                self._phase(session, record, course, turn, concurrency, repeat, held_out=held_out)
            except NotRecorded:
                if concurrency == loads[0]:
                    raise
                course.gated = True
        for held_out in (True, False) if record.stage == "confirm" else (False, True):
            self._check_outputs(session.effective.config, course, held_out=held_out)
        if course.skipped:
            return
        self._check_greedily(session, course, turn)
        for concurrency in self._other_loads(record, course):
            for held_out in self._watch_sets(record, concurrency, course):
                for repeat in range(1, self._spec.measure.watch_repeats + 1):
                    try:
                        self._phase(session, record, course, turn, concurrency, repeat, held_out=held_out)
                    except NotRecorded:
                        break
        self._other_workloads(session, record, course, turn)

    def _check_greedily(self, session: Session, course: Course, turn: Turn) -> None:
        """Where the study samples: greedy answers for the check of losslessness, at the objectives' loads, once a start.

        Their times are no measurements and are not stored. A baseline answers twice, to show how it agrees with itself.

        Raises:
            LoadFailed: BAD_OUTPUT, however fast the sampled ones came.
        """
        if self._spec.measure.sampling.is_greedy or self._measuring.watch_all:
            return
        config = session.effective.config
        results = [
            self._in_turn(session, phase, repeat, turn)
            for phase, repeat in greedy_phases(self._spec, course.phases, repeats=1 if config.speculates else 2)
        ]
        course.clock.spend(sum(result.duration_s or 0.0 for result in results))
        if any(result.outputs for result in results):
            checks = self._losslessness(held_out=False).judge(config, results)
            course.lossless = course.lossless or checks
            refuse_garbage(checks)

    def _other_workloads(self, session: Session, record: LaunchRecord, course: Course, turn: Turn) -> None:
        """Further workloads at the objectives' loads; see `WorkloadSpec`. A recording has none."""
        if self._measuring.watch_all:
            return
        for workload in self._spec.workloads:
            for concurrency in self._spec.objective_loads:
                always = record.stage in ("baseline", "known", "confirm")
                if not always and not self._is_cheap(concurrency, course, share=_CHEAP, workload=workload):
                    continue
                for held_out in self._workload_sets(record):
                    for repeat in range(1, self._spec.measure.watch_repeats + 1):
                        self._phase(
                            session, record, course, turn, concurrency, repeat, held_out=held_out, workload=workload
                        )

    def _workload_sets(self, record: LaunchRecord) -> tuple[bool, ...]:
        """Whether with held-out prompts: what is confirmed compares with a baseline on prompts that chose nothing."""
        if record.stage == "confirm":
            return (True,)
        both = self._measuring.both_prompt_sets and not record.asked.speculates
        return (False, True) if both else (False,)

    @property
    def _has_held_out(self) -> bool:
        """Whether there are held-out prompts: a recording answers for one set of them."""
        return not self._measuring.watch_all

    def _objective_phases(self, record: LaunchRecord) -> Iterator[tuple[int, int, bool]]:
        """Repeat, concurrency and whether with held-out prompts, in the order in which they are measured.

        What is compared in the end is measured with both prompt sets: a baseline, with which searched configs are
        compared on the search's prompts and confirmed ones on the held-out ones; and a confirmation, which beside
        its search start shows the scatter between starts on equal prompts (phases are cheap against a start).
        """
        planned = self._spec.measure.repeats
        most = {load: self._recorded_repeats(record, load, planned) for load in self._spec.objective_loads}
        counts = {False: planned}
        if self._has_held_out and record.stage == "confirm":
            counts = {True: max(_COMPARED, planned), False: planned}
        elif self._has_held_out and self._measuring.both_prompt_sets and not record.asked.speculates:
            counts[True] = max(_COMPARED, planned)
        for repeat in range(1, max(*counts.values(), *most.values()) + 1):
            for held_out, count in counts.items():
                for load in self._spec.objective_loads:
                    if repeat <= (count if self._has_held_out else most[load]):
                        yield repeat, load, held_out

    def _recorded_repeats(self, record: LaunchRecord, load: int, planned: int) -> int:
        recorded = self._measuring.recorded
        if recorded is None or recorded.repeats is None:
            return planned
        before = sum(
            launch.asked == record.asked and launch.number < record.number for launch in self._measuring.launches()
        )
        return max(planned, recorded.repeats(record.asked, load, before))

    def _other_loads(self, record: LaunchRecord, course: Course) -> list[int]:
        """Loads beyond the objectives: all rungs where a confirmed start climbs the ladder, else the study's own.

        The first confirmed start of a config measures all of the study's loads. Other starts measure those of their
        questions and those that are cheap; one that is behind everywhere those of its questions alone.
        """
        objectives = self._spec.objective_loads
        watched = [load for load in self._spec.loads if load not in objectives]
        if self._measuring.watch_all:
            return watched
        earlier = [launch for launch in self._measuring.launches() if launch.number != record.number]
        if record.stage == "confirm" and self._climbs(record, earlier):
            return [load for load in ladder_loads(self._spec.loads) if load not in objectives]
        if record.stage == "confirm" and not any(
            launch.stage == "confirm" and launch.asked == record.asked for launch in earlier
        ):
            return watched
        asked = {
            load
            for question in self._spec.questions.values()
            if record.asked.config_id in question.configs
            for load in question.at
        }
        plain = not record.asked.speculates
        behind = (
            bool(watched)
            and not plain
            and is_behind_everywhere(self._spec.axes, record, course.phases, earlier, self._kept)
        )
        share = (
            1.0 if plain and not any(launch.phases and not launch.asked.speculates for launch in earlier) else _CHEAP
        )
        return [load for load in watched if load in asked or (not behind and self._is_cheap(load, course, share=share))]

    def _watch_sets(self, record: LaunchRecord, concurrency: int, course: Course) -> Iterator[bool]:
        """Whether with held-out prompts, for each set of prompts that a further load is measured with.

        What is compared in the end is sent both sets where that is cheap: only starts on equal prompts show how far
        starts differ, and a phase costs little against a start.
        """
        fresh = record.stage == "confirm"
        yield fresh and self._has_held_out
        compared = fresh or (self._measuring.both_prompt_sets and not record.asked.speculates)
        both = self._has_held_out and compared and concurrency in self._spec.watch
        if both and self._is_cheap(concurrency, course, share=_CHEAP):
            yield not fresh

    def _climbs(self, record: LaunchRecord, earlier: Sequence[LaunchRecord]) -> bool:
        """Whether this confirmed start is its family's ladder, too: the first of the family, within their number."""
        climbed = climbed_families(earlier, self._spec.loads)
        return record.asked.family not in climbed and len(climbed) < self._measuring.ladders

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
        """Compare the answers with the baseline's to the same prompts; the first set that was checked is reported.

        Raises:
            LoadFailed: BAD_OUTPUT, however fast they came.
        """
        phases = [result for result in course.phases if bool(result.held_out) is held_out]
        if self._spec.measure.sampling.is_greedy and any(result.outputs for result in phases):
            checks = self._losslessness(held_out=held_out).judge(config, phases)
            course.lossless = course.lossless or checks
            refuse_garbage(checks)

    def _losslessness(self, *, held_out: bool) -> LosslessGate:
        """The study's gate for these prompts; made when a server first reports tokens, since earlier baselines are read for it."""
        with self._writes:
            if held_out not in self._lossless:
                gate = LosslessGate(self._context.reports, self._spec.objective_loads)
                launches = self._store.launches(self._context.name)
                gate.remember(
                    [
                        launch
                        for launch in launches
                        if any(is_held_out(phase, launch.stage) is held_out for phase in launch.phases)
                    ]
                )
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
        *,
        held_out: bool = False,
        workload: str = "",
    ) -> None:
        """Measure and store one repeat."""
        taken = course.beside if workload else course.phases
        warm = any(result.concurrency == concurrency for result in course.phases)
        phase = self._spec.measure_of(workload).phase(concurrency, warm=warm)
        phase = replace(phase, held_out=held_out, workload=workload)
        tokens = phase.requests * phase.output_tokens + phase.warmup_requests * phase.warm_up.output_tokens
        self._step(Step(record.number, "begins", concurrency, repeat, tokens))
        result = self._in_turn(session, phase, repeat, turn)
        self._step(Step(record.number, "ends", concurrency, repeat, rate=mean_rate((result,))))
        course.clock.spend(result.warmup_s + (result.duration_s or 0.0))
        with self._writes:
            self._store.add_phase(self._context.name, record.number, result)
        taken.append(result)

    def _in_turn(self, session: Session, phase: Phase, repeat: int, turn: Turn) -> PhaseResult:
        """Measure in turn with the other slots of the host."""
        with nullcontext() if self._spec.measure.parallel_loads else turn:
            if self._stopped():
                raise Interrupted(f"The phase at concurrency {phase.concurrency} was not begun, because the run ends.")
            return replace(session.measure(phase, repeat), gpus=self._spec.model.tp)

    def _is_cheap(self, concurrency: int, course: Course, *, share: float, workload: str = "") -> bool:
        """Whether a watch phase should take no longer than a share of the boot did, at the throughput just seen; where
        there was no boot, of the measurement so far.

        Throughput between measured loads is taken from the nearest one, scaled down (never up)
        in proportion to the concurrency.
        """
        near = min(
            course.phases,
            key=lambda result: max(concurrency, result.concurrency) / min(concurrency, result.concurrency),
        )
        rate = near.output_tps * min(1.0, concurrency / near.concurrency)
        phase = self._spec.measure_of(workload).phase(concurrency, warm=False)
        return phase.requests * phase.output_tokens <= rate * share * course.spare_s
