"""The study loop: baselines, known configs, then whatever the sampler proposes, until something ends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from optuna.storages import BaseStorage
from optuna.trial import Trial

from search.cluster.executor import Executor
from search.config import SpecConfig
from search.contracts import Clock
from search.errors import BreakerOpen, Interrupted, UsageError
from search.outcomes import Blame, Note, Outcome, Reason
from search.samplers import SpaceExhausted, make_sampler
from search.space import Space
from search.storage import LaunchRecord, Stage, Store, StudyKind, quiet_optuna
from search.study.budget import Breaker, Budget, is_static_fault
from search.study.events import Ending, Launching, Listener, RunStart
from search.study.interrupts import shielded
from search.study.judge import judge
from search.study.judgement import Judgement
from search.study.launching import Launched, Launcher
from search.study.owner import this_process
from search.study.resume import open_study, settle
from search.study.spec import StudySpec
from search.study.trials import Trials


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

    Raises:
        UsageError: A known config is not in the space, or the stored study is another one. Nothing
            was launched then.
        BreakerOpen: The study stopped itself; the text says what to do.
        Interrupted: Ctrl-C; what was running is stopped and what was measured is stored.
        StorageFault: The database failed.
    """
    known = _known(spec, space)
    sampler = sampler or spec.sampler
    finite = make_sampler(sampler, configs=space.configs, seed=spec.seed if seed is None else seed)
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
    with quiet_optuna():
        loop = _Loop(
            spec=spec,
            name=name,
            kind=kind,
            space=space,
            trials=Trials(study, finite, spec, kind),
            sampler=sampler,
            give_up=finite.give_up,
            launcher=Launcher(
                spec,
                study=name,
                executor=executor,
                store=store,
                clock=clock,
                reports=reports,
                watch_all=kind == "replay",
            ),
            store=store,
            listener=listener,
            budget=Budget(
                launches=spec.budget.launches if launches is None else launches,
                hours=spec.budget.hours if hours is None else hours,
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


class _BudgetSpent(Exception):
    """Unwinds to `run`; carries the ending."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@dataclass
class _Loop:
    spec: StudySpec
    name: str
    kind: StudyKind
    space: Space
    trials: Trials
    sampler: str
    give_up: Callable[[SpecConfig], None]
    launcher: Launcher
    store: Store
    listener: Listener
    budget: Budget
    breaker: Breaker
    launches: list[LaunchRecord] = field(default_factory=list)

    def run(self, known: list[SpecConfig], resume_command: str) -> Ending:
        self.launches = list(settle(self.trials, name=self.name, store=self.store))
        self.listener.started(self._start())
        try:
            ending = self._stages(known)
        except KeyboardInterrupt:
            with shielded():
                self._close_open_trials()
                self.listener.ended(Ending.INTERRUPTED, self._judgement())
            raise Interrupted(self._interrupted_text(resume_command)) from None
        except BreakerOpen:
            self._close_open_trials()
            self.listener.ended(Ending.BREAKER, self._judgement())
            raise
        self.listener.ended(ending, self._judgement())
        return ending

    def _stages(self, known: list[SpecConfig]) -> Ending:
        try:
            self._fixed_stage(list(self.space.baselines), "baseline", "what speculation is compared with")
            self._check_baseline()
            self._fixed_stage(known, "known", "named in the study file")
            self._search_stage()
        except _BudgetSpent as spent:
            self._close_open_trials()
            return spent.ending
        return Ending.EXHAUSTED

    def _fixed_stage(self, configs: list[SpecConfig], stage: Stage, why: str) -> None:
        again: list[tuple[Trial, SpecConfig]] = []
        for config in configs:
            if self.trials.is_taken(config):
                continue
            self._check_budget()
            trial, _ = self.trials.ask(config, stage=stage)
            if not self._try(trial, config, stage, why):
                again.append((trial, config))
        for trial, config in again:
            self._retry(trial, config, stage)

    def _search_stage(self) -> None:
        """Asks the sampler; a launch that the host spoiled is repeated after the next one."""
        again: tuple[Trial, SpecConfig] | None = None
        while not self.trials.nothing_left():
            self._check_budget()
            try:
                trial, config = self.trials.ask(None, stage="search")
            except SpaceExhausted:
                # Another driver took the last one meanwhile.
                self._close_open_trials()
                return
            spoiled = not self._try(trial, config, "search", f"proposed by {self.sampler}")
            if again is not None:
                self._retry(*again, "search")
            again = (trial, config) if spoiled else None
        if again is not None:
            self._retry(*again, "search")

    def _try(self, trial: Trial, config: SpecConfig, stage: Stage, why: str) -> bool:
        """Launch a trial's config; repeat a flake at once. False when the host spoiled it: try again later."""
        record = self._launch(trial, config, stage, why)
        if _is_flake(record):
            self._check_budget()
            record = self._launch(trial, config, stage, f"once more after {_reason(record)}", notes=(Note.UNSTABLE,))
        elif record.blame is Blame.HOST and not is_static_fault(record):
            return False
        self._end(trial, record)
        return True

    def _retry(self, trial: Trial, config: SpecConfig, stage: Stage) -> None:
        self._check_budget()
        last = next(launch for launch in reversed(self.launches) if launch.trial == trial.number)
        self._end(trial, self._launch(trial, config, stage, f"once more after {_reason(last)}"))

    def _launch(
        self, trial: Trial, config: SpecConfig, stage: Stage, why: str, *, notes: tuple[Note, ...] = ()
    ) -> LaunchRecord:
        self.listener.launching(Launching(len(self.launches) + 1, self.budget.launches, stage, config, why))
        launched = self.launcher.run(config, stage=stage, why=why, trial=trial.number, notes=notes)
        record = launched.record
        self.launches.append(record)
        self.listener.launched(record, self._judgement())
        self._stop_if_needed(launched, trial)
        return record

    def _stop_if_needed(self, launched: Launched, trial: Trial) -> None:
        if (stop := self._stop(launched)) is not None:
            self._end(trial, launched.record)
            raise stop

    def _stop(self, launched: Launched) -> BreakerOpen | KeyboardInterrupt | None:
        record = launched.record
        if launched.leftovers:
            return BreakerOpen(
                f"Launch {record.number} ({record.asked}) left something behind, so its GPUs must not be used again: "
                f"{'; '.join(launched.leftovers)}. Stop them by hand, make sure that GPU memory is free, then run the same command again."
            )
        if launched.interrupted:
            return KeyboardInterrupt()
        try:
            self.breaker.saw(record)
        except BreakerOpen as error:
            return error
        return None

    def _end(self, trial: Trial, record: LaunchRecord) -> None:
        self.trials.end(trial, record, self.launches)
        if record.outcome is Outcome.LOST:
            self.give_up(record.asked)

    def _check_budget(self) -> None:
        if ending := self.budget.ending(self.launches):
            raise _BudgetSpent(ending)

    def _check_baseline(self) -> None:
        baselines = [launch for launch in self.launches if not launch.config.speculates]
        if baselines and not any(launch.outcome is Outcome.MEASURED for launch in baselines):
            last = baselines[-1]
            raise BreakerOpen(
                f"No baseline could be measured, so nothing can be compared; the last: {_reason(last)}"
                f"{f': {last.evidence.root_line}' if last.evidence else ''}. Make `off` start on this host first "
                "(`python -m search try` launches it alone), then run the same command again."
            )

    def _close_open_trials(self) -> None:
        me = this_process()
        self.launches = list(settle(self.trials, name=self.name, store=self.store, is_live=lambda owner: owner != me))

    def _judgement(self) -> Judgement:
        return judge(self.spec, self.launches)

    def _start(self) -> RunStart:
        to_do = sum(not self.trials.is_taken(config) for config in self.space.configs)
        return RunStart(
            study=self.name,
            kind=self.kind,
            valid=len(self.space.configs),
            locked=len(self.space.locked),
            dropped=len(self.space.dropped),
            already=len(self.launches),
            budget_launches=self.budget.launches,
            expected_hours=self.budget.expected_hours(self.launches, to_do=to_do),
        )

    def _interrupted_text(self, resume_command: str) -> str:
        measured = sum(launch.outcome is Outcome.MEASURED for launch in self.launches)
        return (
            f"Interrupted: the server is stopped; {measured} of {len(self.launches)} launches are measured, and all are "
            f"stored.\nResume with: {resume_command}"
        )


def _is_flake(record: LaunchRecord) -> bool:
    return record.blame is Blame.FLAKE or record.reason is Reason.UNKNOWN


def _reason(record: LaunchRecord) -> str:
    return record.reason.value if record.reason else str(record.outcome)
