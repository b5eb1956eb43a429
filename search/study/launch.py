"""One launch from its row to the proof of its stop; phases are stored as they come."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from search.analysis.results import ordered
from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import Clock, EffectiveSettings, LaunchPaths, Phase, PhaseResult, Session, Slot
from search.errors import Interrupted, LaunchFailed, NotRecorded, SearchError
from search.load.metrics import DRAFTS_HELP_ABOVE
from search.outcomes import Evidence, Note, Outcome, Reason
from search.spec.study import StudySpec
from search.stats.acceptance import accept_drift
from search.stats.estimates import repeat_doubt
from search.stats.losslessness import OutputCheck
from search.stats.repeats import repeat_notes
from search.storage.records import Expected, LaunchRecord, Stage
from search.storage.store import Store
from search.study.lossless_gate import LosslessGate, refuse_garbage
from search.study.signals import shielded
from search.study.stages import ladder_loads

_log = logging.getLogger(__name__)

SkipRule: TypeAlias = Callable[[int, Sequence[PhaseResult]], Evidence | None]
"""Of a trial and what was measured at the first objective's load: why nothing more need be, or None."""

Recorded: TypeAlias = Callable[[SpecConfig, int], int]
"""Of a config and a concurrency."""

PROBE = Phase(concurrency=1, requests=4, output_tokens=64, staggered=False)
"""Sent right after ready to a server that speculates: some 256 tokens, a few seconds, no warm-up. The
accept length of a wrong draft is 1.00 to the digit, and it does not depend on warmth."""
PROBE_REPEAT = 0
"""Marks the probe among the repeats, which count from 1."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A finished launch.

    Attributes:
        record: As stored.
        leftovers: What the stop left behind, one line each; its GPUs must not be used again.
        interrupted: Ctrl-C was pressed; the record may be a measurement all the same.
    """

    record: LaunchRecord
    leftovers: tuple[str, ...] = ()
    interrupted: bool = False


class Launcher:
    """Launches configs of one study on the slots of an executor.

    Several slots may launch at the same time, each in a thread of its own. Rows of ours are
    written under one lock: SQLite has a single writer anyway, and waiting here is fair, while
    waiting there is a race against its time-out. Optuna's rows are none of this class's business.

    Args:
        spec: How to measure.
        study: Name under which launches are stored.
        executor: Gives the engine.
        store: Where rows go.
        clock: Virtual in simulation; moved by what sessions report to have taken.
        reports: The study's own report folder; `launches/` is made inside it.
        watch_all: Take every watch phase, not only cheap ones: in a replay all are free. And repeat
            nothing out of doubt: what is not recorded cannot be had.
        probe: End the launch right after ready when a short probe shows that the drafts never help.
            For real servers: a recorded or computed boot cannot be spared.
        gate: Asked on launches of the search, with their trial and its latency phases: why nothing
            more need be measured, or None. Called from the thread of the launch.
        recorded: How many repeats a recorded launch of a config holds at a concurrency, so that a replay takes
            as many; without it, and with `watch_all`, none beyond the plan.
    """

    def __init__(
        self,
        spec: StudySpec,
        *,
        study: str,
        executor: Executor,
        store: Store,
        clock: Clock,
        reports: Path,
        watch_all: bool = False,
        probe: bool = False,
        gate: SkipRule | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        self._spec = spec
        self._study = study
        self._executor = executor
        self._store = store
        self._clock = clock
        self._reports = reports
        self._watch_all = watch_all
        self._probe = probe
        self._gate = gate
        self._recorded = recorded
        self._lossless: dict[bool, LosslessGate] = {}
        self._writes = threading.Lock()
        self._loads: dict[str, threading.Lock] = {}
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make launches that run in other threads begin no further phase."""
        self._stopped.set()

    def run(
        self, config: SpecConfig, *, stage: Stage, why: str, trial: int | None = None, notes: tuple[Note, ...] = ()
    ) -> Launched:
        """Launch, measure, stop, store. Failures and Ctrl-C become the record's outcome, not exceptions.

        Args:
            config: What to launch.
            stage: Of the study.
            why: One line for people.
            trial: Number of the Optuna trial it belongs to.
            notes: What is known before, such as UNSTABLE on a retry.

        Raises:
            SearchError: Storage cannot be written, or another fault that is no outcome of a launch.
        """
        slot = self._executor.slots[0]
        return self.carry_out(self.plan(config, slot, stage=stage, why=why, trial=trial), slot, notes=notes)

    def plan(
        self,
        config: SpecConfig,
        slot: Slot,
        *,
        stage: Stage,
        why: str,
        trial: int | None = None,
        expected: Expected | None = None,
        at_most: int | None = None,
    ) -> LaunchRecord:
        """The row of a launch that is about to start on `slot`; `carry_out` completes it. See `run`.

        Raises:
            LaunchesSpent: The study has `at_most` launches, those of other drivers included.
        """
        with self._writes:
            return self._store.begin_launch(
                self._study,
                lambda number: self._planned(number, config, stage, why, trial, slot, expected),
                at_most=at_most,
            )

    def carry_out(
        self, record: LaunchRecord, slot: Slot, *, notes: tuple[Note, ...] = (), clock: Clock | None = None
    ) -> Launched:
        """What `run` does after its row is written. For any thread.

        Args:
            record: From `plan`.
            slot: The one it was planned for.
            notes: See `run`.
            clock: Of the slot; the study's own without it.
        """
        clock = clock or self._clock
        paths = LaunchPaths(self._reports / record.folder)
        started = clock.monotonic()
        course = Course(clock)
        failure: LaunchFailed | None = None
        try:
            paths.root.mkdir(parents=True, exist_ok=True)
            with self._session(record.asked, slot, paths, course) as session:
                self._measure(session, record, course, self._turn_of(slot))
        except LaunchFailed as error:
            failure = error
            course.leftovers = course.leftovers or tuple(getattr(error, "leftovers", ()))
            # A played launch tells what its failing would have taken; a real clock has moved by itself.
            clock.spend(error.spent_s)
        except (KeyboardInterrupt, Interrupted):
            course.interrupted = True
            failure = LaunchFailed(Reason.STOPPED, Evidence("interrupted by the user"))
        except NotRecorded as error:
            failure = LaunchFailed(Reason.TOOL_ERROR, Evidence(str(error)))
        except SearchError:
            raise
        except Exception as error:  # noqa: BLE001
            # Ours to fix, yet no reason to lose the night: this launch is lost, loudly.
            _log.exception("launch %d of %s broke in our own code", record.number, self._study)
            failure = LaunchFailed(Reason.TOOL_ERROR, Evidence(f"{type(error).__name__}: {error}"))
        with shielded() as shield:
            record = course.closed(
                record,
                failure,
                notes=notes,
                duration_s=clock.monotonic() - started,
                first=self._spec.axes[0].concurrency,
            )
            with self._writes:
                self._store.finish_launch(self._study, record)
        return Launched(record, course.leftovers, course.interrupted or shield.pressed)

    def _turn_of(self, slot: Slot) -> threading.Lock:
        """The lock of the host that a slot is on now: a lost slot may come back elsewhere."""
        hosts = {held.index: held.host for held in self._executor.slots}
        with self._writes:
            return self._loads.setdefault(hosts.get(slot.index, slot.host), threading.Lock())

    def _planned(
        self,
        number: int,
        config: SpecConfig,
        stage: Stage,
        why: str,
        trial: int | None,
        slot: Slot,
        expected: Expected | None,
    ) -> LaunchRecord:
        name = re.sub(r"[^A-Za-z0-9._+=-]", "_", config.config_id)
        return LaunchRecord(
            number=number,
            stage=stage,
            asked=config,
            config=config,
            started_at=self._clock.now(),
            trial=trial,
            why=why,
            folder=f"launches/{number:04d}-{name}",
            slot=slot.index,
            expected=expected,
        )

    @contextmanager
    def _session(self, config: SpecConfig, slot: Slot, paths: LaunchPaths, course: Course) -> Iterator[Session]:
        """A session whose end is proven, whatever happens and however often Ctrl-C is pressed."""
        session = self._executor.engine(slot).launch(config, slot=slot, paths=paths)
        try:
            course.boot_s, course.effective = session.boot_s, session.effective
            course.clock.spend(session.boot_s)
            yield session
        finally:
            with shielded() as shield:
                try:
                    report = session.close()
                except LaunchFailed:
                    # The worker is gone, and whoever lends its GPUs next waits for its server to be gone too.
                    raise
                except Exception as error:
                    course.leftovers = (f"the stop could not be proven: {type(error).__name__}: {error}",)
                    raise
                course.clock.spend(report.duration_s)
                if not report.clean:
                    course.leftovers = report.leftovers or ("the stop was not clean, and nothing says why",)
            course.interrupted |= shield.pressed

    def _measure(self, session: Session, record: LaunchRecord, course: Course, turn: threading.Lock) -> None:
        """Probe; objective phases interleaved, so that a drift of the host meets both; gate; cheap watch phases.

        On the ladder, each rung once instead.
        """
        if self._probe and session.effective.config.speculates and self._is_hopeless(session, course, turn):
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
            if not self._watch_all and not self._is_cheap(concurrency, course):
                continue
            for repeat in range(1, self._spec.measure.watch_repeats + 1):
                try:
                    self._phase(session, record, course, turn, concurrency, repeat)
                except NotRecorded:
                    break

    def _repeat_what_is_in_doubt(
        self, session: Session, record: LaunchRecord, course: Course, turn: threading.Lock
    ) -> None:
        """Measure objectives again, in turn, until they are sure enough or were repeated as often as they may be."""
        measure = self._spec.measure
        for repeat in range(measure.repeats + 1, measure.repeats_at_most + 1):
            for concurrency in self._spec.objective_loads:
                repeats = [result for result in course.phases if result.concurrency == concurrency]
                if len(repeats) == repeat - 1 and self._wants_another(record.asked, repeats):
                    self._phase(session, record, course, turn, concurrency, repeat)

    def _wants_another(self, config: SpecConfig, repeats: Sequence[PhaseResult]) -> bool:
        if self._recorded is not None:
            return len(repeats) < self._recorded(config, repeats[0].concurrency)
        return not self._watch_all and (repeat_doubt(repeats) or 0.0) > self._spec.measure.doubt

    def _skips(self, record: LaunchRecord, course: Course) -> bool:
        """Whether the second objective of a proposal need not be measured; asked once, after the first phase of the first."""
        if self._gate is None or record.stage != "search" or record.trial is None:
            return False
        if any(phase.concurrency == self._spec.axes[1].concurrency for phase in course.phases):
            return False
        effective = course.effective
        if effective is not None and effective.config != record.asked:
            return False  # what runs is not what the belief was asked about
        course.skipped = self._gate(record.trial, course.phases)
        course.gated = course.skipped is not None
        return course.gated

    def _is_hopeless(self, session: Session, course: Course, turn: threading.Lock) -> bool:
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
                gate = LosslessGate(self._reports, self._spec.objective_loads)
                launches = self._store.launches(self._study)
                gate.remember([launch for launch in launches if (launch.stage == "confirm") is held_out])
                self._lossless[held_out] = gate
            return self._lossless[held_out]

    def _phase(
        self,
        session: Session,
        record: LaunchRecord,
        course: Course,
        turn: threading.Lock,
        concurrency: int,
        repeat: int,
    ) -> None:
        """Measure and store one repeat."""
        warm = any(result.concurrency == concurrency for result in course.phases)
        phase = replace(self._spec.measure.phase(concurrency, warm=warm), held_out=record.stage == "confirm")
        result = self._in_turn(session, phase, repeat, turn)
        with shielded() as shield:
            course.clock.spend(result.warmup_s + (result.duration_s or 0.0))
            with self._writes:
                self._store.add_phase(self._study, record.number, result)
            course.phases.append(result)
        if shield.pressed:
            raise KeyboardInterrupt

    def _in_turn(self, session: Session, phase: Phase, repeat: int, turn: threading.Lock) -> PhaseResult:
        """Measure in turn with the other slots of the host."""
        with nullcontext() if self._spec.measure.parallel_loads else turn:
            if self._stopped.is_set():
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


@dataclass(slots=True)
class Course:
    """One launch, filled in as it goes.

    Attributes:
        clock: Of its slot.
        boot_s: None before the server was ready.
        effective: What really runs; None before it was asked.
        phases: Measured so far, in that order.
        leftovers: What its stop left behind.
        gated: Not everything was measured, on purpose.
        interrupted: Ctrl-C was pressed.
        hopeless: Why the drafts never help, by the probe.
        skipped: Why the second objective was not measured.
        lossless: How its answers compare with the baseline's.
    """

    clock: Clock
    boot_s: float | None = None
    effective: EffectiveSettings | None = None
    phases: list[PhaseResult] = field(default_factory=list)
    leftovers: tuple[str, ...] = ()
    gated: bool = False
    interrupted: bool = False
    hopeless: Evidence | None = None
    skipped: Evidence | None = None
    lossless: tuple[OutputCheck, ...] = ()

    def closed(
        self,
        record: LaunchRecord,
        failure: LaunchFailed | None,
        *,
        notes: tuple[Note, ...],
        duration_s: float,
        first: int,
    ) -> LaunchRecord:
        """The row of a launch that is over.

        Args:
            record: As planned.
            failure: What ended it early, if anything did.
            notes: Known before it began.
            duration_s: From its start to the proof of its stop.
            first: Concurrency of the first objective.
        """
        ran = self.effective.config if self.effective else record.asked
        found = {*notes, *(note for phase in self.phases for note in phase.notes), *self._notes(first)}
        if ran.config_id != record.asked.config_id:
            found.add(Note.EFFECTIVE_DIFFERS)
        if failure:
            # Two attempts that fail do not differ.
            found.discard(Note.UNSTABLE)
        outcome = failure.reason.outcome if failure else Outcome.GATED if self.gated else Outcome.MEASURED
        return replace(
            record,
            config=ran,
            outcome=outcome,
            reason=failure.reason if failure else None,
            evidence=failure.evidence if failure else self.hopeless or self.skipped,
            notes=ordered(found),
            boot_s=self.boot_s,
            duration_s=duration_s,
            effective=self.effective,
            # Answers are many, and their verdict is known by now.
            phases=tuple(replace(phase, outputs=()) for phase in self.phases),
            lossless=self.lossless,
        )

    def _notes(self, first: int) -> Iterator[Note]:
        """What only several phases of a launch tell."""
        for concurrency in {result.concurrency for result in self.phases}:
            yield from repeat_notes([result for result in self.phases if result.concurrency == concurrency])
        low = [result for result in self.phases if result.concurrency == first]
        if any(accept_drift(alone, loaded) for alone in low[:1] for loaded in self.phases if loaded not in low):
            yield Note.ACCEPT_DRIFT
        if self.hopeless or any(
            result.accept_length is not None and result.accept_length <= DRAFTS_HELP_ABOVE for result in low
        ):
            yield Note.NO_DRAFT_GAIN
