"""The study loop: baselines, known configs, then whatever the sampler proposes, until something ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from optuna.storages import BaseStorage

from search.cluster.executor import Executor
from search.config import SpecConfig
from search.contracts import Clock
from search.errors import UsageError
from search.samplers import make_sampler
from search.space import Space
from search.storage import Store, StudyKind, quiet_optuna
from search.study.budget import Breaker, Budget
from search.study.earlier import earlier_evidence
from search.study.events import Ending, Listener
from search.study.launching import Launcher, Recorded
from search.study.owner import heartbeat
from search.study.prospects import launch_cost, prospects_of
from search.study.resume import open_study
from search.study.running import Loop
from search.study.spec import StudySpec
from search.study.trials import Trials

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
        loads=(spec.objectives.latency, spec.objectives.throughput),
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
