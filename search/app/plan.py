"""What a study would do: its space, its first launches, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from search.app.planned import FirstLaunch, Plan
from search.app.sharing import start_plan
from search.config import SpecConfig
from search.dialects import for_release
from search.physics.cost import predict
from search.physics.files import load_physics
from search.physics.model import CostModel
from search.report.text import duration
from search.samplers.warm_start import earlier_evidence
from search.space import Space, SpaceSummary
from search.spec.calibrated import is_calibrated
from search.spec.study import StudySpec
from search.study.stages import StageBudgets


def plan_of(spec: StudySpec, *, launches: int, hours: float | None = None) -> Plan:
    """Plan a study.

    Args:
        spec: The study file.
        launches: Of the study's whole life.
        hours: Of its whole life; those of the study file without it.

    Raises:
        UsageError: Release, patches, choices or cost model are not known.
    """
    hours = spec.budget.hours if hours is None else hours
    dialect = for_release(spec.engine.release)
    space = spec.space_of(dialect)
    physics = load_physics(spec.simulation.physics)
    known, impossible = _known(spec, space)
    shared = start_plan(spec, space, dialect)
    stages = dict.fromkeys(space.baselines, "baseline")
    stages |= {config: "known" for config in known if config not in stages}
    spared_s = max(0.0, physics.model.boot_s + physics.model.stop_s - physics.model.switch_s)
    first = tuple(
        FirstLaunch(
            config.config_id,
            stage,
            expected_launch_s(spec, physics.model, config)
            - spared_s * any(other in list(stages)[:place] for other in shared.sharing.beside(config)),
        )
        for place, (config, stage) in enumerate(stages.items())
    )[:launches]
    stages_of = StageBudgets.of(
        spec.budget,
        kind="measured",
        launches=launches,
        baselines=len(space.baselines),
        known=len(stages) - len(space.baselines),
        slots=spec.slots,
    )
    # Each config is launched once but for the stages that launch one again.
    again = stages_of.confirm + stages_of.ladder + stages_of.closing + spec.slots - 1
    count = min(launches, len(space.configs) + again)
    rest = [config for config in space.configs if config not in stages]
    several = rest or list(stages)
    mean = sum(expected_launch_s(spec, physics.model, config) for config in several) / len(several)
    held = sum(config in members for members in shared.sharing.groups for config in rest)
    proposed_s = mean - spared_s * held / max(len(rest), 1)
    proposals = max(0, count - len(first) - again)
    first_s = sum(launch.expected_s for launch in first)
    budget_s = hours * 3600 * spec.slots
    stages_of = replace(stages_of, search=min(stages_of.search, proposals))
    within, left_out = _within(first, mean, proposed_s, budget_s, stages_of)
    expected_s = first_s + mean * again + proposed_s * proposals
    within_s = (
        first_s + mean * (within.confirm + within.ladder + within.closing + spec.slots - 1) + proposed_s * within.search
    )
    return Plan(
        study=spec.study,
        summary=SpaceSummary.of(space),
        first=first,
        impossible=impossible,
        stages=stages_of,
        launches=count,
        expected_s=min(within_s, budget_s) / spec.slots,
        within=within,
        hours=hours,
        wanted_s=expected_s,
        left_out=tuple(left_out),
        slots=spec.slots,
        calibrated=is_calibrated(spec),
        physics=physics.name,
        ceiling_s=spec.deployment.boot_ceiling_s,
        earlier=earlier_evidence(spec, space).words,
        starts=shared,
        then=_then(spec),
    )


def _then(spec: StudySpec) -> str:
    """What follows in another engine."""
    if spec.escalation is None:
        return ""
    second, when = spec.escalated(), spec.escalation.when
    return (
        f"then, if question {when.question} ends {' or '.join(when.ends)}: SGLang {second.engine.release}, up to "
        f"{second.budget.launches} launches and {second.budget.hours:g} hours more (`plan --study {second.study}`)"
    )


def _within(
    first: Sequence[FirstLaunch], each_s: float, proposed_s: float, budget_s: float, stages: StageBudgets
) -> tuple[StageBudgets, list[str]]:
    """What the hours have room for, and what does not fit, a line each, in the order in which stages yield to one another.

    Args:
        first: Baselines and known configs, which come first.
        each_s: Of a launch that has a start of its own.
        proposed_s: Of one that the sampler proposes, whose start others may share.
        budget_s: Of all slots together.
        stages: Launches of each stage, were there no limit of hours.
    """
    left_out: list[str] = []
    spent = 0.0
    for launch in first:
        spent += launch.expected_s
        if spent > budget_s:
            left_out.append(f"{launch.config_id} ({launch.stage}), from {duration(spent - launch.expected_s)} on")
    fits = {"baseline": stages.baseline, "known": stages.known}
    for stage in ("known", "baseline"):
        late = sum(f"({stage})" in line for line in left_out)
        fits[stage] = max(0, fits[stage] - late)
    for stage, count, cost_s, what in (
        ("closing", stages.closing, each_s, "closing baselines"),
        ("confirm", stages.confirm, each_s, "confirmations"),
        ("ladder", stages.ladder, each_s, "ladder starts"),
        ("search", stages.search, proposed_s, "launches that the sampler could propose"),
    ):
        fits[stage] = max(0, min(count, int((budget_s - spent) / cost_s))) if cost_s else count
        spent += fits[stage] * cost_s
        if fits[stage] < count:
            left_out.append(f"{count - fits[stage]} of {count} {what}")
    return replace(stages, **fits), left_out


def expected_launch_s(spec: StudySpec, model: CostModel, config: SpecConfig) -> float:
    """Start, every phase with its warm-up, and stop, by the cost model."""
    total = model.boot_s + model.stop_s
    for load in spec.loads:
        expected = predict(
            model,
            config,
            load,
            output_tokens=spec.measure.output_tokens,
            running_limit=spec.engine.max_running_requests,
        )
        total += spec.tokens_at(load) / expected.output_tps
    return total


@dataclass(frozen=True, slots=True)
class Estimates:
    """What a study may take before it says so by itself, by its cost model.

    Attributes:
        launch_s: Of a config: its start, all of its phases, and its stop.
        rate: Of a config and a concurrency: output tokens per second.
        hours: Of the budget.
    """

    launch_s: Callable[[SpecConfig], float]
    rate: Callable[[SpecConfig, int], float]
    hours: float


def estimates_of(spec: StudySpec, *, hours: float | None = None) -> Estimates:
    """Estimates by the study's cost model; `hours` in place of the study file's.

    Raises:
        UsageError: The cost model is not known.
    """
    model, limit = load_physics(spec.simulation.physics).model, spec.engine.max_running_requests
    return Estimates(
        launch_s=lambda config: expected_launch_s(spec, model, config),
        rate=lambda config, load: predict(model, config, load, running_limit=limit).output_tps,
        hours=spec.budget.hours if hours is None else hours,
    )


def _known(spec: StudySpec, space: Space) -> tuple[list[SpecConfig], tuple[str, ...]]:
    found, impossible = [], []
    for config in spec.known_configs:
        if (valid := space.find(config)) is not None:
            found.append(valid)
        else:
            impossible.append(f"{config}: {' '.join(space.explain(config).lines)}")
    return found, tuple(impossible)
