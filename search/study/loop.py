"""The loop: which job goes on which slot, what a landed launch means, and how it all ends."""

from __future__ import annotations

import logging
from dataclasses import replace

from optuna.trial import Trial

from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import Slot
from search.errors import BreakerOpen, Interrupted, SearchError, StorageFault
from search.outcomes import Outcome
from search.storage.records import LaunchRecord
from search.storage.store import LaunchesSpent
from search.study.blame import settled
from search.study.budget import Breaker, BudgetSpent
from search.study.context import StudyContext, Watch
from search.study.events import Ending, Launching, RunStart
from search.study.launch import Launched, Launcher
from search.study.progress import Progress, cause_of
from search.study.quarantine import REST_MINUTES, Quarantine
from search.study.scheduler import Agenda, Job
from search.study.signals import Interrupts
from search.study.trials import Trials
from search.study.trust import Trust
from search.study.workers import Crew, Landed, crew_for

_log = logging.getLogger(__name__)

_NOT_FOLLOWED = (
    "`measure.doubt` and `measure.repeats_at_most` are no longer followed: every start repeats an objective "
    "`measure.repeats` times, since repeating until a value seems sure makes intervals that do not hold; take them out "
    "of the study file"
)


class Loop:
    """One run of a study: keeps every usable slot busy, ends trials as their launches end, stops in order.

    All of Optuna is called here, in this one thread.

    Args:
        context: The study.
        executor: Holds the slots.
        launcher: Carries launches out.
        trials: Optuna's side.
        progress: Launches so far.
        agenda: Gives out jobs.
        watch: Who hears what happens.
        interrupts: Looked at between launches; a wait for one ends at once.
    """

    def __init__(
        self,
        context: StudyContext,
        *,
        executor: Executor,
        launcher: Launcher,
        trials: Trials,
        progress: Progress,
        agenda: Agenda,
        watch: Watch,
        interrupts: Interrupts,
    ) -> None:
        self._context = context
        self._executor = executor
        self._launcher = launcher
        self._trials = trials
        self._progress = progress
        self._agenda = agenda
        self._listener, self._notice = watch.listener, watch.notice
        self._interrupts = interrupts
        self._crew: Crew = crew_for(executor, context.clock, interrupts)
        self._quarantine = Quarantine(executor.slots, context.clock, is_clean=executor.slot_is_clean)
        self._trust = Trust(
            context.spec.axes, context.reports, notice=watch.notice, amend=self._amend, end=launcher.starts.end
        )
        self._breaker = Breaker(context.spec.budget.failures_in_a_row)
        self._jobs: dict[int, Job] = {}
        self._ending: Ending | None = None
        self._was_closed = False

    def run(self) -> Ending:
        """Work until something ends it; see `run_study` for what it raises."""
        self._listener.started(self._start())
        for line in self._executor.notices:
            self._notice(line)
        spec, budget = self._context.spec, self._progress.budget
        if self._context.kind == "measured" and spec.budget.closing and not self._agenda.stages.closing:
            self._notice(f"the baseline is not measured again at the end: {budget.launches} launches leave none for it")
        for line in self._agenda.stages.shortfalls():
            self._notice(line)
        if self._context.kind != "replay" and (spec.measure.doubt or spec.measure.repeats_at_most):
            self._notice(_NOT_FOLLOWED)
        try:
            with self._interrupts.telling(self._crew.wake):
                ending = self._work()
            self._close_starts()
            self._progress.settle(self._trials)
        except BaseException as error:
            self._stop_all()
            if isinstance(error, (Interrupted, KeyboardInterrupt)) or (
                isinstance(error, SearchError) and self._interrupts.pressed
            ):
                raise Interrupted(self._interrupted_text(stored=self._end_early(Ending.INTERRUPTED))) from None
            if isinstance(error, BreakerOpen):
                self._progress.settle(self._trials)
                self._listener.ended(Ending.BREAKER, self._progress.judgement())
            raise
        self._listener.ended(ending, self._progress.judgement())
        return ending

    def _work(self) -> Ending:
        while True:
            self._fill_slots()
            if not self._crew.busy:
                return self._how_it_ended()
            self._land(self._crew.wait())

    def _how_it_ended(self) -> Ending:
        """What ended the search, whatever later stages did after it."""
        if self._agenda.unfound is not None and not self._agenda.unfound.is_reached:
            self._notice(
                f"the budget ended the search: {self._agenda.unfound.words}; with more `--hours` or `--launches` the same "
                "command goes on"
            )
        if "confirm" in self._agenda.left_out:
            self._notice(f"the budget ended before {self._agenda.left_out['confirm']} could be started again")
        ending = self._agenda.spent or self._ending
        if ending is None and self._agenda.settled is not None:
            self._notice(str(self._agenda.settled))
            return Ending.SETTLED
        return ending or Ending.EXHAUSTED

    def _fill_slots(self) -> None:
        """Give every idle slot a job, until a budget is spent or nothing is left to do."""
        usable = self._quarantine.usable()
        if not usable and not self._crew.busy:
            if self._agenda.search_is_over:
                return  # what is left is not worth waiting for
            raise BreakerOpen(self._all_rest_text())
        for slot in usable:
            if self._interrupts.pressed and not self._crew.busy:
                raise Interrupted("No further launch was begun.")
            if self._interrupts.pressed or self._ending:
                return
            if slot.index in self._crew.busy:
                continue
            try:
                job = self._job_for(slot, usable)
            except BudgetSpent as spent:
                self._ending = spent.ending
                return
            if job is not None:
                self._start_launch(slot, job)

    def _job_for(self, slot: Slot, usable: list[Slot]) -> Job | None:
        if self._quarantine.is_on_trial(slot):
            # Not for the sake of a fit slot alone: its launch must leave something to be searched.
            if self._trials.nothing_left() or self._agenda.search_is_over:
                return None
            self._progress.check_budget()
            return self._agenda.own_baseline(slot.index)
        return self._agenda.next(slot.index, [other.index for other in usable])

    def _start_launch(self, slot: Slot, job: Job) -> None:
        trial = job.trial.number if job.trial else None
        at_most = self._progress.budget.launches
        try:
            record = self._launcher.plan(
                job.config,
                slot,
                stage=job.stage,
                why=job.why,
                trial=trial,
                expected=job.expected,
                at_most=at_most,
                holds=() if job.alone else self._to_hold(slot, job),
            )
        except LaunchesSpent:
            # Another driver had the last one. The trial is settled at the end, as its earlier launches say.
            self._ending = Ending.LAUNCHES
            return
        self._jobs[slot.index] = job
        self._progress.began(record)
        slot_shown = slot.index if len(self._executor.slots) > 1 else None
        self._listener.launching(Launching(record.number, at_most, job.stage, job.config, job.why, slot_shown))
        self._crew.start(slot, lambda clock: self._launcher.carry_out(record, slot, notes=job.notes, clock=clock))

    def _to_hold(self, slot: Slot, job: Job) -> tuple[SpecConfig, ...]:
        """What else a start for a job should be able to hold; empty for a start of its own."""
        starts = self._launcher.starts
        group = starts.beside(job.config, job.stage)
        if not group or starts.serving(slot.index, job.config, job.stage) is not None:
            return group
        return self._agenda.to_hold(job.config, group)

    def _land(self, landed: Landed) -> None:
        """Judge and tell a launch that ended; repeat it, end its trial, or stop the study."""
        job = self._jobs.pop(landed.slot.index)
        del self._progress.under_way[landed.slot.index]
        if landed.launched is None:
            assert landed.error is not None
            raise landed.error
        launched = self._settled(landed.launched)
        record = launched.record
        self._progress.ended(record)
        self._trust.saw(record, self._progress.launches)
        self._listener.launched(record, self._progress.judgements(record))
        rests = self._quarantine.saw(landed.slot, launched)
        stop = self._stop(job, launched)
        if stop is not None or not self._agenda.again(job, record):
            if job.trial is not None:
                self._end(job.trial, record)
            elif job.stage == "baseline" and record.reason is not None and stop is None and rests is None:
                rests = self._quarantine.rest(landed.slot, f"its baseline cannot be measured: {cause_of(record)}")
        if stop is not None:
            raise stop
        if rests is not None:
            self._agenda.forget(landed.slot.index)
            self._notice(f"slot {landed.slot.index} is not used for {REST_MINUTES:g} minutes: {rests}")

    def _amend(self, record: LaunchRecord) -> None:
        self._launcher.amend(record)
        self._progress.amended(record)

    def _settled(self, launched: Launched) -> Launched:
        """The launch with the blame that all launches together show, stored so."""
        record = settled(launched.record, self._progress.launches)
        if record is launched.record:
            return launched
        self._launcher.amend(record)
        return replace(launched, record=record)

    def _stop(self, job: Job, launched: Launched) -> BreakerOpen | Interrupted | None:
        record = launched.record
        if launched.leftovers and len(self._executor.slots) == 1:
            return BreakerOpen(
                f"Launch {record.number} ({record.asked}) left something behind, so its GPUs must not be used again: "
                f"{'; '.join(launched.leftovers)}. Run `python -m search clean`, make sure that GPU memory is free, then run the same command again."
            )
        if launched.interrupted:
            return Interrupted(f"Launch {record.number} was interrupted.")
        if job.trial is None:
            return None  # the slot is to blame, and the quarantine watches it
        try:
            self._breaker.saw(record)
        except BreakerOpen as error:
            return error
        return None

    def _end(self, trial: Trial, record: LaunchRecord) -> None:
        self._progress.catch_up()
        if not self._trials.end(trial, record, self._progress.launches) and not self._was_closed:
            self._was_closed = True
            self._notice(
                f"trial {trial.number} (launch {record.number}) was closed by another driver of this study, which took this one "
                "for dead; this run goes on, and what it measures counts. It is said once"
            )
        if record.outcome is Outcome.LOST:
            self._agenda.give_up(record.asked)

    def _stop_all(self) -> None:
        """Stop what still runs and take note of it; for the end, so it raises nothing."""
        self._launcher.stop()
        self._crew.stop()
        while self._crew.busy:
            try:
                landed = self._crew.wait()
            except (Interrupted, KeyboardInterrupt):
                continue  # pressed again: the servers are stopped all the same
            self._progress.under_way.pop(landed.slot.index, None)
            if landed.launched is not None:
                self._progress.ended(landed.launched.record)
                for line in landed.launched.leftovers:
                    self._notice(f"slot {landed.slot.index}: {line}")
            else:
                _log.error("the launch on slot %d could not be stored", landed.slot.index, exc_info=landed.error)
        self._close_starts()

    def _close_starts(self) -> None:
        """Stop the servers that were kept running for further configs."""
        for line in self._launcher.close_starts():
            self._notice(line)

    def _end_early(self, ending: Ending) -> bool:
        """Settle and tell what there is; whether the database still took it."""
        try:
            self._progress.settle(self._trials)
        except StorageFault as fault:
            _log.warning("the study's open rows are left as they are: %s", fault)
            return False
        self._listener.ended(ending, self._progress.judgement())
        return True

    def _start(self) -> RunStart:
        space, progress = self._context.space, self._progress
        to_do, slots = self._trials.left(), len(self._executor.slots)
        return RunStart(
            study=self._context.name,
            kind=self._context.kind,
            valid=len(space.configs),
            locked=len(space.locked),
            dropped=len(space.dropped),
            already=len(progress.launches),
            budget_launches=progress.budget.launches,
            expected_hours=progress.budget.expected_hours(progress.launches, to_do=to_do, slots=slots),
            budget_hours=progress.budget.hours,
        )

    def _interrupted_text(self, *, stored: bool) -> str:
        launches = self._progress.launches
        measured = sum(launch.outcome is Outcome.MEASURED for launch in launches)
        stopped = "the server is stopped" if len(self._executor.slots) == 1 else "all servers are stopped"
        kept = (
            f"{measured} of {len(launches)} launches are measured, and all are stored"
            if stored
            else "the database did not answer, and what it had not stored by then is lost"
        )
        return f"Interrupted: {stopped}; {kept}.\nResume with: {self._context.resume_command}"

    def _all_rest_text(self) -> str:
        return (
            "No slot can be used any more:\n"
            + "".join(f"  {line}\n" for line in self._quarantine.reasons())
            + "Make sure that no server is left and GPU memory is free, mend the host, then run the same command again; "
            "what was measured is kept."
        )
