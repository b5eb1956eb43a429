"""The run itself: which job goes on which slot, what a landed launch means, and how it all ends."""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from optuna.storages import BaseStorage
from optuna.trial import Trial

from search.analysis.analyse import judge
from search.analysis.findings import Judgement
from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import Clock, Slot
from search.errors import BreakerOpen, Interrupted, UsageError
from search.outcomes import Outcome
from search.samplers.factory import make_sampler
from search.samplers.warm_start import earlier_evidence
from search.space import Space
from search.spec.study import StudySpec
from search.storage.heartbeat import heartbeat
from search.storage.optuna_side import quiet_optuna
from search.storage.owner import this_process
from search.storage.records import LaunchRecord, StudyKind
from search.storage.store import LaunchesSpent, Store
from search.study.budget import Breaker, Budget, BudgetSpent
from search.study.events import Ending, Launching, Listener, RunStart
from search.study.forecasts import Prospects, launch_cost, prospects_of
from search.study.launch import Launched, Launcher, Recorded
from search.study.quarantine import REST_MINUTES, Quarantine
from search.study.resume import open_study, settle
from search.study.scheduler import Agenda, Job
from search.study.signals import shielded
from search.study.stages import StageBudgets
from search.study.trials import Trials
from search.study.workers import Crew, Landed, crew_for

_log = logging.getLogger(__name__)


@dataclass
class Loop:
    """One run of a study: keeps every usable slot busy, ends trials as their launches end, stops in order.

    All of Optuna is asked and told here, in this one thread.
    """

    spec: StudySpec
    name: str
    kind: StudyKind
    space: Space
    trials: Trials
    prospects: Prospects
    give_up: Callable[[SpecConfig], None]
    executor: Executor
    launcher: Launcher
    store: Store
    listener: Listener
    notice: Callable[[str], None]
    clock: Clock
    budget: Budget
    breaker: Breaker
    launches: list[LaunchRecord] = field(default_factory=list)
    _under_way: dict[int, tuple[Job, LaunchRecord]] = field(default_factory=dict)
    _ending: Ending | None = None
    crew: Crew = field(init=False)
    quarantine: Quarantine = field(init=False)
    agenda: Agenda = field(init=False)

    def run(self, known: list[SpecConfig], resume_command: str) -> Ending:
        """Work until something ends it; see `run_study` for what it raises.

        Args:
            known: Configs to launch after the baselines.
            resume_command: For the text of an interrupt.
        """
        self.launches = list(settle(self.trials, name=self.name, store=self.store))
        self.crew = crew_for(self.executor, self.clock)
        self.quarantine = Quarantine(self.executor.slots, self.clock, is_clean=self.executor.slot_is_clean)
        self.agenda = Agenda(
            self.trials,
            self.space.baselines,
            known,
            self.prospects,
            stages=self._stages(known),
            check_budget=self._check_budget,
            check_baseline=self._check_baseline,
            may_retry=lambda: self.budget.may_retry(self._all_launches()),
            launches=self._all_launches,
            judgement=self._judgement_of_all,
            under_way=lambda: {job.stage for job, _ in self._under_way.values()},
            unmeasured_slots=self._unmeasured_slots(),
        )
        self.listener.started(self._start())
        for line in self.executor.notices:
            self.notice(line)
        if self.kind == "measured" and self.spec.budget.closing and not self.agenda.stages.closing:
            self.notice(
                f"the baseline is not measured again at the end: {self.budget.launches} launches leave none for it"
            )
        try:
            ending = self._work()
            self._close_open_trials()
        except KeyboardInterrupt:
            with shielded():
                self._stop_all()
                self._close_open_trials()
                self.listener.ended(Ending.INTERRUPTED, self._judgement())
            raise Interrupted(self._interrupted_text(resume_command)) from None
        except BreakerOpen:
            with shielded():
                self._stop_all()
                self._close_open_trials()
                self.listener.ended(Ending.BREAKER, self._judgement())
            raise
        except BaseException:
            with shielded():
                self._stop_all()
            raise
        self.listener.ended(ending, self._judgement())
        return ending

    def _work(self) -> Ending:
        while True:
            self._fill_slots()
            if not self.crew.busy:
                return self._how_it_ended()
            self._land(self.crew.wait())

    def _how_it_ended(self) -> Ending:
        """What ended the search, whatever later stages did after it."""
        ending = self.agenda.spent or self._ending
        if ending is None and self.agenda.settled is not None:
            self.notice(str(self.agenda.settled))
            return Ending.SETTLED
        return ending or Ending.EXHAUSTED

    def _fill_slots(self) -> None:
        """Give every idle slot a job, until a budget is spent or nothing is left to do."""
        usable = self.quarantine.usable()
        if not usable and not self.crew.busy:
            if self.agenda.search_is_over:
                return  # what is left is not worth waiting for
            raise BreakerOpen(self._all_rest_text())
        for slot in usable:
            if self._ending or self.crew.interrupted:
                return
            if slot.index in self.crew.busy:
                continue
            try:
                job = self._job_for(slot, usable)
            except BudgetSpent as spent:
                self._ending = spent.ending
                return
            if job is not None:
                self._start_launch(slot, job)

    def _job_for(self, slot: Slot, usable: list[Slot]) -> Job | None:
        if self.quarantine.is_on_trial(slot):
            # Not for the sake of a fit slot alone: its launch must leave something to be searched.
            if self.trials.nothing_left() or self.agenda.search_is_over:
                return None
            self._check_budget()
            return self.agenda.own_baseline(slot.index)
        self.prospects.learn(self.launches)
        return self.agenda.next(slot.index, [other.index for other in usable])

    def _start_launch(self, slot: Slot, job: Job) -> None:
        trial = job.trial.number if job.trial else None
        try:
            record = self.launcher.plan(
                job.config,
                slot,
                stage=job.stage,
                why=job.why,
                trial=trial,
                expected=job.expected,
                at_most=self.budget.launches,
            )
        except LaunchesSpent:
            # Another driver had the last one. The trial is settled at the end, as its earlier launches say.
            self._ending = Ending.LAUNCHES
            return
        self._under_way[slot.index] = (job, record)
        several = len(self.executor.slots) > 1
        self.listener.launching(
            Launching(
                record.number, self.budget.launches, job.stage, job.config, job.why, slot.index if several else None
            )
        )
        self.crew.start(slot, lambda clock: self.launcher.carry_out(record, slot, notes=job.notes, clock=clock))

    def _land(self, landed: Landed) -> None:
        """Judge and tell a launch that ended; repeat it, end its trial, or stop the study."""
        job, record = self._under_way.pop(landed.slot.index)
        if landed.launched is None:
            assert landed.error is not None
            raise landed.error
        record = landed.launched.record
        self._keep(record)
        self.listener.launched(record, self._judgement())
        rests = self.quarantine.saw(landed.slot, landed.launched)
        stop = self._stop(job, landed.launched)
        if stop is not None or not self.agenda.again(job, record):
            if job.trial is not None:
                self._end(job.trial, record)
            elif job.stage == "baseline" and record.reason is not None and stop is None and rests is None:
                rests = self.quarantine.rest(landed.slot, f"its baseline cannot be measured: {_cause(record)}")
        if stop is not None:
            raise stop
        if rests is not None:
            self.agenda.forget(landed.slot.index)
            self.notice(f"slot {landed.slot.index} is not used for {REST_MINUTES:g} minutes: {rests}")

    def _stop(self, job: Job, launched: Launched) -> BreakerOpen | KeyboardInterrupt | None:
        record = launched.record
        if launched.leftovers and len(self.executor.slots) == 1:
            return BreakerOpen(
                f"Launch {record.number} ({record.asked}) left something behind, so its GPUs must not be used again: "
                f"{'; '.join(launched.leftovers)}. Run `python -m search clean`, make sure that GPU memory is free, then run the same command again."
            )
        if launched.interrupted:
            return KeyboardInterrupt()
        if job.trial is None:
            return None  # the slot is to blame, and the quarantine watches it
        try:
            self.breaker.saw(record)
        except BreakerOpen as error:
            return error
        return None

    def _end(self, trial: Trial, record: LaunchRecord) -> None:
        self._catch_up()
        self.trials.end(trial, record, self.launches)
        if record.outcome is Outcome.LOST:
            self.give_up(record.asked)

    def _keep(self, record: LaunchRecord) -> None:
        """Launches stay in the order of their numbers, as a report that is rebuilt has them."""
        insort(self.launches, record, key=lambda launch: launch.number)

    def _stop_all(self) -> None:
        """Stop what still runs and take note of it; for the end, so it raises nothing."""
        self.launcher.stop()
        self.crew.stop()
        while self.crew.busy:
            landed = self.crew.wait()
            self._under_way.pop(landed.slot.index, None)
            if landed.launched is not None:
                self._keep(landed.launched.record)
                for line in landed.launched.leftovers:
                    self.notice(f"slot {landed.slot.index}: {line}")
            else:
                _log.error("the launch on slot %d could not be stored", landed.slot.index, exc_info=landed.error)

    def _all_launches(self) -> list[LaunchRecord]:
        """Those that ended and those under way: both cost a start."""
        return [*self.launches, *(record for _, record in self._under_way.values())]

    def _check_budget(self, keep: int = 0) -> None:
        if ending := self.budget.ending(self._all_launches(), keep=keep):
            raise BudgetSpent(ending)

    def _check_baseline(self) -> bool:
        """Whether the search may go on to speculating configs; not while the first baselines are under way."""
        self._catch_up()
        baselines = [launch for launch in self.launches if launch.outcome and not launch.config.speculates]
        if any(launch.outcome is Outcome.MEASURED for launch in baselines):
            return True
        if any(job.stage == "baseline" for job, _ in self._under_way.values()):
            return False
        if baselines:
            raise BreakerOpen(
                f"No baseline could be measured, so nothing can be compared; the last: {_cause(baselines[-1])}. "
                "Make `off` start on this host first (`python -m search try` launches it alone), then run the same "
                "command again."
            )
        return True

    def _catch_up(self) -> None:
        """While no baseline of this run is measured, one that another driver has measured counts."""
        if any(launch.outcome is Outcome.MEASURED and not launch.config.speculates for launch in self.launches):
            return
        self._reread()

    def _reread(self) -> None:
        """Take note of what other drivers have launched."""
        here = {record.number for _, record in self._under_way.values()}
        self.launches = [launch for launch in self.store.launches(self.name) if launch.number not in here]

    def _unmeasured_slots(self) -> set[int]:
        """Slots besides the first that have no baseline of their own yet."""
        if not self.space.baselines:
            return set()
        measured = {
            launch.slot
            for launch in self.launches
            if not launch.config.speculates and launch.outcome is Outcome.MEASURED
        }
        return {slot.index for slot in self.executor.slots[1:]} - measured

    def _close_open_trials(self) -> None:
        me = this_process()
        self.launches = list(settle(self.trials, name=self.name, store=self.store, is_live=lambda owner: owner != me))

    def _judgement(self) -> Judgement:
        return judge(self.spec, self.launches)

    def _judgement_of_all(self) -> Judgement:
        self._reread()
        return self._judgement()

    def _stages(self, known: list[SpecConfig]) -> StageBudgets:
        return StageBudgets.of(
            self.spec.budget,
            kind=self.kind,
            launches=self.budget.launches,
            baselines=len(self.space.baselines),
            known=len(set(known) - set(self.space.baselines)),
            slots=len(self.executor.slots),
        )

    def _start(self) -> RunStart:
        to_do = self.trials.left()
        return RunStart(
            study=self.name,
            kind=self.kind,
            valid=len(self.space.configs),
            locked=len(self.space.locked),
            dropped=len(self.space.dropped),
            already=len(self.launches),
            budget_launches=self.budget.launches,
            expected_hours=self.budget.expected_hours(self.launches, to_do=to_do, slots=len(self.executor.slots)),
        )

    def _interrupted_text(self, resume_command: str) -> str:
        measured = sum(launch.outcome is Outcome.MEASURED for launch in self.launches)
        stopped = "the server is stopped" if len(self.executor.slots) == 1 else "all servers are stopped"
        return (
            f"Interrupted: {stopped}; {measured} of {len(self.launches)} launches are measured, and all are "
            f"stored.\nResume with: {resume_command}"
        )

    def _all_rest_text(self) -> str:
        return (
            "No slot can be used any more:\n"
            + "".join(f"  {line}\n" for line in self.quarantine.reasons())
            + "Make sure that no server is left and GPU memory is free, mend the host, then run the same command again; "
            "what was measured is kept."
        )


def _cause(record: LaunchRecord) -> str:
    reason = record.reason.value if record.reason else str(record.outcome)
    return f"{reason}: {record.evidence.root_line}" if record.evidence else reason


_log = logging.getLogger(__name__)


def run_study(
    spec: StudySpec,
    *,
    name: str,
    kind: StudyKind,
    space: Space,
    fingerprint: Mapping[str, str],
    executor: Executor,
    store: Store,
    storage: BaseStorage,
    listener: Listener,
    clock: Clock,
    reports: Path,
    resume_command: str,
    launches: int | None = None,
    hours: float | None = None,
    seed: int | None = None,
    sampler: str | None = None,
    notice: Callable[[str], None] = _log.warning,
    recorded: Recorded | None = None,
) -> Ending:
    """Run or continue a study until a budget ends or every valid config is launched.

    Args:
        spec: The study file, command line applied.
        name: The stored name, see `study_name`.
        kind: How its numbers come about.
        space: Its valid configs.
        fingerprint: What must not change over the study's life, see `fingerprint`.
        executor: Holds the GPUs. The caller closes it.
        store: Our tables.
        storage: Optuna's tables, in the same database.
        listener: Is told what happens.
        clock: Virtual in simulation.
        reports: The study's own report folder.
        resume_command: What the user types to go on after an interrupt.
        launches: Server starts of the study's whole life; the study file's without it.
        hours: Of launches, over the study's whole life; the study file's without it.
        seed: Of the sampler; the study file's without it.
        sampler: Its name; the study file's without it.
        recorded: For a replay of a study's own recording, see `Launcher`.
        notice: Told one line when something happens that is no launch, such as a slot that rests.

    Raises:
        UsageError: A known config is not in the space, or the stored study is another one. Nothing
            was launched then.
        BreakerOpen: The study stopped itself; the text says what to do.
        Interrupted: Ctrl-C; what was running is stopped and what was measured is stored.
        StorageFault: The database failed.
    """
    known = _known(spec, space)
    sampler = sampler or spec.sampler
    earlier = earlier_evidence(spec, space)
    finite = make_sampler(
        sampler,
        configs=space.configs,
        seed=spec.seed if seed is None else seed,
        objectives=spec.axes,
        cost=launch_cost(spec),
        earlier=earlier.observations,
        earlier_starts=earlier.starts,
    )
    for line in earlier.words:
        notice(line if sampler == "frontier" else f"{line}; only `frontier` learns from it, and this is `{sampler}`")
    study = open_study(
        spec,
        name=name,
        kind=kind,
        configs=space.configs,
        fingerprint=fingerprint,
        store=store,
        storage=storage,
        sampler=finite,
        clock=clock,
    )
    prospects = prospects_of(sampler, finite, study, spec, free=kind == "replay")
    with quiet_optuna(), heartbeat(store):
        loop = Loop(
            spec=spec,
            name=name,
            kind=kind,
            space=space,
            trials=Trials(study, finite, spec, kind, claim=partial(store.claim, name)),
            prospects=prospects,
            give_up=finite.give_up,
            executor=executor,
            notice=notice,
            clock=clock,
            launcher=Launcher(
                spec,
                study=name,
                executor=executor,
                store=store,
                clock=clock,
                reports=reports,
                watch_all=kind == "replay",
                probe=kind == "measured",
                gate=prospects.skip,
                recorded=recorded,
            ),
            store=store,
            listener=listener,
            budget=Budget(
                launches=spec.budget.launches if launches is None else launches,
                hours=spec.budget.hours if hours is None else hours,
                retries=spec.budget.retries,
            ),
            breaker=Breaker(spec.budget.failures_in_a_row),
        )
        return loop.run(known, resume_command)


def _known(spec: StudySpec, space: Space) -> list[SpecConfig]:
    """The known configs as the space has them.

    Raises:
        UsageError: One of them cannot be launched here; each is named with its reasons.
    """
    found: list[SpecConfig] = []
    wrong: list[str] = []
    for config in spec.known_configs:
        if (valid := space.find(config)) is not None:
            found.append(valid)
        else:
            wrong.append(f"  {config}: {' '.join(space.explain(config).lines)}")
    if wrong:
        raise UsageError(
            "Configs under `known` or `questions` cannot be launched in this study:\n"
            + "\n".join(wrong)
            + "\nTake them out of the study file, open the knobs they need, or name the patch that lifts the rule."
        )
    return list(dict.fromkeys(found))
