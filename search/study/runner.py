"""Runs a study: its sampler, its rows and its loop put together."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from optuna.storages import BaseStorage

from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import LaunchPaths
from search.errors import UsageError
from search.outcomes import Outcome
from search.samplers.factory import make_sampler
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.warm_start import earlier_evidence
from search.server.scrub import scrub
from search.spec.samplers import FRONTIER, TRAFFIC
from search.spec.stored import masker_of
from search.storage.heartbeat import heartbeat
from search.storage.optuna_side import quiet_optuna
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.budget import Budget
from search.study.context import Overrides, StudyContext, Watch
from search.study.events import Ending
from search.study.forecasts import launch_cost, prospects_of
from search.study.launch import Launcher
from search.study.loop import Loop
from search.study.measure import Measuring
from search.study.neighbours import Neighbours
from search.study.progress import Progress
from search.study.resume import open_study, settle
from search.study.scheduler import Agenda
from search.study.sharing import NO_SHARING
from search.study.signals import Interrupts
from search.study.stages import MOST_LADDERS, StageBudgets
from search.study.starts import Starts
from search.study.trials import Trials
from search.study.trust import differs


def run_study(
    context: StudyContext,
    *,
    executor: Executor,
    store: Store,
    storage: BaseStorage,
    watch: Watch,
    overrides: Overrides | None = None,
    interrupts: Interrupts | None = None,
) -> Ending:
    """Run or continue a study until a budget ends or every valid config is launched.

    Args:
        context: The study.
        executor: Holds the GPUs. The caller closes it.
        store: Our tables.
        storage: Optuna's tables, in the same database.
        watch: Who hears what happens.
        overrides: What the command line wants otherwise than the study file.
        interrupts: Looked at between launches and phases; without it, nobody presses Ctrl-C.

    Raises:
        UsageError: A known config is not in the space, or the stored study is another one. Nothing
            was launched then.
        BreakerOpen: The study stopped itself; the text says what to do.
        Interrupted: Ctrl-C; what was running is stopped and what was measured is stored.
        StorageFault: The database failed.
    """
    overrides, interrupts = overrides or Overrides(), interrupts or Interrupts()
    spec, space, kind = context.spec, context.space, context.kind
    known = _known(context)
    name = overrides.sampler or spec.sampler
    sampler = _sampler(context, name, overrides.seed, watch)
    study = open_study(context, store=store, storage=storage, sampler=sampler)
    interrupts.check()
    prospects = prospects_of(name, sampler, study, spec, free=kind == "replay", notice=watch.notice)
    budget = Budget(
        launches=spec.budget.launches if overrides.launches is None else overrides.launches,
        hours=spec.budget.hours if overrides.hours is None else overrides.hours,
        retries=spec.budget.retries,
    )
    stages = StageBudgets.of(
        spec.budget,
        kind=kind,
        launches=budget.launches,
        baselines=len(space.baselines),
        known=len(set(known) - set(space.baselines)),
        slots=len(executor.slots),
        restarts=context.recorded is not None and any(context.recorded.starts(one) > 1 for one in space.configs),
    )

    def pause(seconds: float) -> None:
        interrupts.sleep(seconds)
        interrupts.check()

    with quiet_optuna(), heartbeat(store):
        trials = Trials(study, sampler, spec, kind, claim=partial(store.claim, context.name))
        launches = settle(trials, name=context.name, store=store, wait=pause, notice=watch.notice)
        if kind == "measured":
            _scrub_what_was_cut(context, launches)
        progress = Progress(context, store=store, budget=budget, launches=launches)
        starts = Starts(NO_SHARING if differs(launches) else context.sharing, watch.notice)
        loop = Loop(
            context,
            executor=executor,
            launcher=Launcher(
                context,
                executor=executor,
                store=store,
                measuring=Measuring(
                    watch_all=kind == "replay",
                    probe=kind == "measured",
                    gate=prospects.skip,
                    recorded=context.recorded,
                    ladders=MOST_LADDERS if stages.confirm and spec.budget.ladder != 0 else 0,
                    both_prompt_sets=bool(stages.confirm),
                    launches=progress.all,
                ),
                interrupts=interrupts,
                step=watch.step,
                starts=starts,
            ),
            trials=trials,
            progress=progress,
            agenda=Agenda(
                trials,
                progress,
                prospects,
                stages=stages,
                baselines=space.baselines,
                known=known,
                give_up=sampler.give_up,
                neighbours=Neighbours(_unrecorded(context), spare=sampler.spare, notice=watch.notice),
                # Slots besides the first need a baseline of their own.
                unmeasured_slots={slot.index for slot in executor.slots[1:]} - progress.slots_with_baseline()
                if space.baselines
                else set(),
                held=starts.held,
                anchor=starts.anchor,
            ),
            watch=watch,
            interrupts=interrupts,
        )
        return loop.run()


def _unrecorded(context: StudyContext) -> tuple[SpecConfig, ...]:
    """The configs that a failed neighbour may keep from being launched: a recorded measurement outweighs a lesson."""
    recorded = context.recorded
    return tuple(config for config in context.space.configs if recorded is None or recorded.starts(config) == 0)


def _scrub_what_was_cut(context: StudyContext, launches: Iterable[LaunchRecord]) -> None:
    """Take the secrets out of logs whose driver died before it could."""
    masker = masker_of(context.spec.engine, inherited=os.environ)
    for launch in launches:
        if launch.outcome is Outcome.INTERRUPTED and launch.folder:
            scrub(LaunchPaths(context.reports / launch.folder).server_log, masker)


def _sampler(context: StudyContext, name: str, seed: int | None, watch: Watch) -> FiniteSpaceSampler:
    """The sampler over the study's space, given what earlier studies have measured."""
    spec, space = context.spec, context.space
    earlier = earlier_evidence(spec, space)
    sampler = make_sampler(
        name,
        configs=space.configs,
        seed=spec.seed if seed is None else seed,
        objectives=spec.axes,
        cost=launch_cost(spec),
        tables=earlier.tables,
        traffic=spec.used,
    )
    for line in earlier.words:
        watch.notice(
            line if name in (FRONTIER, TRAFFIC) else f"{line}; only `frontier` learns from it, and this is `{name}`"
        )
    return sampler


def _known(context: StudyContext) -> list[SpecConfig]:
    """The known configs as the space has them.

    Raises:
        UsageError: One of them cannot be launched here; each is named with its reasons.
    """
    space = context.space
    found: list[SpecConfig] = []
    wrong: list[str] = []
    for config in context.spec.known_configs:
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
