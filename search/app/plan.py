"""What a study would do: its space, its first launches, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from search.app.sharing import StartPlan, start_plan
from search.config import SpecConfig
from search.dialects import for_release
from search.physics.cost import predict
from search.physics.files import load_physics
from search.physics.model import CostModel
from search.report.text import duration
from search.samplers.warm_start import earlier_evidence
from search.space import Space, SpaceSummary
from search.spec.study import StudySpec
from search.study.stages import StageBudgets


@dataclass(frozen=True, slots=True)
class FirstLaunch:
    """A launch that is planned before any result.

    Attributes:
        expected_s: By the cost model, start and stop included.
    """

    config_id: str
    stage: str
    expected_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A study before its first launch.

    Attributes:
        impossible: Known configs that this study cannot launch, each with its reasons.
        stages: How many launches each stage may use.
        launches: At most, budget and space taken together.
        expected_s: For all of them, by the cost model named `physics`, within the hours of the budget.
        fixed_s: Of it, for baselines and known configs.
        again_s: Of it, for what is started again after the search.
        hours: Of the budget.
        wanted_s: For all launches, were there no limit of hours.
        left_out: What the hours leave no room for, a line each.
        ceiling_s: No start-up may take longer than this.
        starts: Which configs may share a server start.
        earlier: What is believed before the first launch, one line for each recording.
        then: What follows in another engine, and when; empty without an `escalation`.
    """

    study: str
    summary: SpaceSummary
    first: tuple[FirstLaunch, ...]
    impossible: tuple[str, ...]
    stages: StageBudgets
    launches: int
    expected_s: float
    physics: str
    ceiling_s: float
    earlier: tuple[str, ...] = ()
    fixed_s: float = 0.0
    again_s: float = 0.0
    hours: float = 0.0
    wanted_s: float = 0.0
    left_out: tuple[str, ...] = ()
    starts: StartPlan | None = None
    then: str = ""

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "study": self.study,
            "space": self.summary.to_json(),
            "first": [
                {"config_id": launch.config_id, "stage": launch.stage, "expected_s": round(launch.expected_s)}
                for launch in self.first
            ],
            "impossible": list(self.impossible),
            "stages": asdict(self.stages),
            "launches": self.launches,
            "expected_hours": round(self.expected_s / 3600, 2),
            "budget_hours": self.hours,
            "left_out": list(self.left_out),
            "physics": self.physics,
            "starts": self.starts.line if self.starts else "",
            "earlier": list(self.earlier),
            **({"then": self.then} if self.then else {}),
        }

    def lines(self, *, listed: bool) -> Iterator[str]:
        """The plan for people."""
        yield f"study {self.study}"
        yield self.summary.render(listed=listed)
        yield "first launches, then what the sampler proposes:"
        width = max(len(launch.config_id) for launch in self.first)
        for number, launch in enumerate(self.first, 1):
            yield f"  {number:>4}  {launch.config_id:<{width}}  {launch.stage:<8}  about {duration(launch.expected_s)}"
        for line in self.impossible:
            yield f"  cannot be launched: {line}"
        yield from self.earlier
        if self.starts:
            yield self.starts.line
        yield "launches by stage:"
        yield from self.stages.lines()
        yield from self.stages.shortfalls()
        rest_s = self.hours * 3600 - self.fixed_s - self.again_s
        yield (
            f"  baselines and known configs take about {duration(self.fixed_s)}, what is started again at the end about "
            f"{duration(self.again_s)}; the search has {'the rest' if rest_s > 0 else 'nothing'} of {self.hours:g} hours"
        )
        yield (
            f"budget: {self.launches} launches and {self.hours:g} hours; about {duration(self.expected_s)} by the cost model "
            f"`{self.physics}`; no start may take longer than {duration(self.ceiling_s)}"
        )
        for line in self.left_out:
            yield f"  left out: {line}"
        if self.then:
            yield self.then


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
    stages = dict.fromkeys(space.baselines, "baseline")
    stages |= {config: "known" for config in known if config not in stages}
    first = tuple(
        FirstLaunch(config.config_id, stage, expected_launch_s(spec, physics.model, config))
        for config, stage in stages.items()
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
    mean = sum(expected_launch_s(spec, physics.model, config) for config in rest) / max(len(rest), 1)
    expected_s = sum(launch.expected_s for launch in first) + mean * (count - len(first))
    budget_s = hours * 3600 * spec.slots
    return Plan(
        study=spec.study,
        summary=SpaceSummary.of(space),
        first=first,
        impossible=impossible,
        stages=stages_of,
        launches=count,
        expected_s=min(expected_s, budget_s),
        fixed_s=sum(launch.expected_s for launch in first),
        again_s=mean * (again - spec.slots + 1),
        hours=hours,
        wanted_s=expected_s,
        left_out=tuple(_left_out(first, mean, budget_s, stages_of, count - len(first) - again)),
        physics=physics.name,
        ceiling_s=spec.deployment.boot_ceiling_s,
        earlier=earlier_evidence(spec, space).words,
        starts=start_plan(spec, space, dialect),
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


def _left_out(
    first: Sequence[FirstLaunch], each_s: float, budget_s: float, stages: StageBudgets, proposals: int
) -> Iterator[str]:
    """What does not fit into the hours, in the order in which the stages yield to one another.

    Args:
        first: Baselines and known configs, which come first.
        each_s: Of any other launch.
        budget_s: Of all slots together.
        stages: Of the launches.
        proposals: That the sampler could make.
    """
    spent = 0.0
    for launch in first:
        spent += launch.expected_s
        if spent > budget_s:
            yield f"{launch.config_id} ({launch.stage}), from {duration(spent - launch.expected_s)} on"
    for name, count in (("closing baseline", stages.closing), ("confirmation", stages.confirm + stages.ladder)):
        fits = max(0, min(count, int((budget_s - spent) / each_s))) if each_s else count
        spent += fits * each_s
        if fits < count:
            yield f"{count - fits} of {count} {name}{'s' if count > 1 else ''}"
    fits = max(0, min(proposals, int((budget_s - spent) / each_s))) if each_s else proposals
    if fits < proposals:
        yield f"{proposals - fits} of {proposals} launches that the sampler could propose; the budget has room for {fits}"


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
