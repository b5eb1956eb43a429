"""A study file as values: what is searched, on what, how it is measured and how much it may cost."""

from __future__ import annotations

import difflib
from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from search.config import CORE_KNOBS, SpecConfig, SpecVersion, check_tree
from search.deployment import CheckpointFacts, Deployment, Hardware, Patch
from search.dialects import Dialect
from search.errors import ImpossibleTree
from search.metrics import Objectives, Traffic, loads_of
from search.space import Space, SpaceChoices, enumerate_space
from search.spec.escalation import SUFFIX, EscalationSpec
from search.spec.measured import WARMUP_ROUNDS, MeasureSpec, check_thinking
from search.spec.objectives import DefaultObjectivesSpec, ObjectivesSpec
from search.spec.opened import SpaceSpec, plain_values
from search.spec.part import Part
from search.spec.questions import AnyQuestion, KnobQuestionSpec
from search.spec.samplers import FRONTIER, TRAFFIC
from search.spec.served import EngineSpec, HardwareSpec, ModelSpec, ServingSpec, flag_values
from search.spec.traffic import TrafficShares, share_of
from search.spec.types import Concurrency, Count, KnownId, Name, Positive, SamplerName, Seed
from search.spec.workloads import Workloads

MOST_KNOWN = 200
"""Configs that a study file may name as known; a budget of launches holds fewer."""


class BudgetSpec(Part):
    """What a study may cost in its whole life. The command line can lower or raise launches and hours.

    `retries` bounds second attempts at configs that a host or a flake spoiled, over all configs.
    `confirm` and `ladder` are launches set apart for these stages; without a number they get a share,
    0 leaves the stage out. `closing` measures the baseline again at the end. `stop_early` lets the
    search end when the next launch is not expected to pay.
    """

    launches: Count = 40
    hours: Positive = 24
    failures_in_a_row: Count = 3
    retries: Annotated[int, Field(ge=0)] = 10
    confirm: Annotated[int, Field(ge=0)] | None = None
    ladder: Annotated[int, Field(ge=0)] | None = None
    closing: bool = True
    stop_early: bool = True


Worth: TypeAlias = Annotated[float, BeforeValidator(share_of), Field(gt=0, lt=1)]
"""A share of a gain: `2%` or 0.02."""


class EarlierSpec(Part):
    """Numbers that are believed before the first launch, as far as `weight` says: 1/2 is worth half a measurement.

    `recording` is a folder that `search record` wrote, of another release, draft or host.
    """

    recording: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, lt=1)] = 0.3


class SimulationSpec(Part):
    """Which packaged cost model `--simulate` uses for this study.

    `acceptance` is a factor on the chance that a first draft is accepted, by workload: nothing was fitted to those
    prompts, so it is as good as whoever writes it.
    """

    physics: str = "generic"
    acceptance: dict[Name, Annotated[float, Field(gt=0, le=10)]] = Field(default_factory=dict)


class StudySpec(Part):
    """One study file.

    With `lossless: required` a config whose answers were not shown to be its baseline's neither wins nor is recommended;
    `checked` bars only those that are shown to differ.
    """

    study: Name
    title: str = ""
    model: ModelSpec
    hardware: HardwareSpec
    engine: EngineSpec
    space: SpaceSpec
    objectives: ObjectivesSpec = DefaultObjectivesSpec()
    watch: tuple[Concurrency, ...] = Field((), strict=False)
    known: tuple[KnownId, ...] = Field((), strict=False, max_length=MOST_KNOWN)
    questions: dict[Name, AnyQuestion] = Field(default_factory=dict)
    worth: Worth = 0.02
    traffic: TrafficShares = Field(default_factory=dict)
    measure: MeasureSpec = MeasureSpec()
    workloads: Workloads = Field(default_factory=dict)
    budget: BudgetSpec = BudgetSpec()
    serving: ServingSpec = ServingSpec()
    earlier: tuple[EarlierSpec, ...] = Field((), strict=False)
    sampler: SamplerName = FRONTIER
    seed: Seed = 0
    simulation: SimulationSpec = SimulationSpec()
    assumptions: tuple[str, ...] = Field((), strict=False)
    lossless: Literal["checked", "required"] = "checked"
    escalation: EscalationSpec | None = None

    # Read from the checkpoints where they are; no part of what is stored or compared.
    _target_facts: CheckpointFacts | None = PrivateAttr(None)
    _draft_facts: CheckpointFacts | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _fits_together(self) -> StudySpec:
        if self.hardware.gpus % self.model.tp:
            raise ValueError(
                f"`hardware.gpus` must be a multiple of `model.tp`, but got {self.hardware.gpus} and {self.model.tp}"
            )
        if highest := [load for load in self.loads if load > self.engine.max_running_requests]:
            raise ValueError(
                f"`engine.max_running_requests` must admit every measured concurrency, but it is "
                f"{self.engine.max_running_requests} and {highest} are to be measured"
            )
        for value in self.space.flags.get("max-running-requests", ()):
            if isinstance(value, int) and value < max(self.loads):
                raise ValueError(
                    f"`space.flags` must admit every measured concurrency in each config, but it holds "
                    f"`max-running-requests` {value} and {max(self.loads)} is to be measured; raise it"
                )
        first, second = self.axes
        if first == second:
            raise ValueError(
                f"`objectives` must name two different ones, but got {first.name} twice; change a metric or its `at`"
            )
        limits = self.measure.limits
        limited = [axis.metric.name for axis in self.axes if axis.metric.needs_limits]
        if limited and limits.ttft_ms is None and limits.tpot_ms is None:
            raise ValueError(
                f"`objectives` with {limited[0]} must have a limit to count by, but `measure.limits` has none; set "
                "`ttft_ms`, `tpot_ms` or both there"
            )
        if self.sampler == TRAFFIC and not self.traffic:
            raise ValueError(
                f"`traffic` must say which loads the sampler {TRAFFIC!r} searches for, but there is none; write "
                "`traffic: {1: 20%, 100: 80%}`, or take another sampler"
            )
        for name, question in self.questions.items():
            try:
                for config_id in question.configs:
                    check_tree(SpecConfig.from_id(config_id), self.model.algorithm)
            except ImpossibleTree as error:
                raise ValueError(f"`questions.{name}`: {error}") from error
            if isinstance(question, KnobQuestionSpec):
                self._knows(name, question)
        if self.escalation is not None:
            self._escalates(self.escalation)
        for name in self.workloads:
            measured = self.measure_of(name)
            check_thinking(f"workloads.{name}", measured.prompts, measured.sampling)
        if unknown := sorted(self.simulation.acceptance.keys() - self.workloads.keys()):
            raise ValueError(
                f"`simulation.acceptance` must name workloads of the study, one of {', '.join(self.workloads) or 'none'}, but "
                f"got {unknown[0]!r}"
            )
        return self

    def _escalates(self, escalation: EscalationSpec) -> None:
        if (asked := escalation.when.question) not in self.questions:
            raise ValueError(
                f"`escalation.when.question` must be a question of the study, one of {', '.join(self.questions) or 'none'}, "
                f"but got {asked!r}"
            )
        try:
            self.escalated()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            said = first["msg"].removeprefix("Value error, ")
            raise ValueError(
                f"`escalation` must make a study of its own together with the rest, but `{place}` of that: {said}"
            ) from error

    def escalated(self) -> StudySpec:
        """The second phase as a study of its own: its name ends in `.escalation`, and losslessness is required.

        Raises:
            ValidationError: What differs there does not fit.
            ValueError: The study has none.
        """
        if self.escalation is None:
            raise ValueError(f"study {self.study!r} has no `escalation`")
        data = self.model_dump(mode="json", exclude={"escalation"})
        changed = self.escalation.model_dump(mode="json")
        for part in ("engine", "space", "budget"):
            data[part] |= changed[part]
        data |= {"known": changed["known"], "questions": changed["questions"], "lossless": "required"}
        data["study"] = f"{self.study}{SUFFIX}"
        data["title"] = f"{self.title or self.study}: escalation"
        data["assumptions"] = [*data["assumptions"], *([self.escalation.note] if self.escalation.note else [])]
        return StudySpec.model_validate(data).knowing(target=self._target_facts, draft=self._draft_facts)

    def measure_of(self, workload: str) -> MeasureSpec:
        """How phases of a workload are measured; of the study's own prompts for an empty name."""
        return self.measure.of_workload(self.workloads[workload]) if workload else self.measure

    def _knows(self, name: str, question: KnobQuestionSpec) -> None:
        knobs = (*CORE_KNOBS, *self.space.knobs, *self.space.flags, *self.space.env)
        if question.knob not in knobs:
            near = difflib.get_close_matches(question.knob, knobs, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"`questions.{name}.knob` must be a knob of the space, one of {', '.join(knobs)}, "
                f"but got {question.knob!r}{meant}"
            )

    @cached_property
    def axes(self) -> Objectives:
        """The two objectives; the first is measured first, and may spare the second."""
        if isinstance(self.objectives, DefaultObjectivesSpec):
            return self.objectives.pair
        first, second = self.objectives
        return first.objective, second.objective

    @property
    def objective_loads(self) -> tuple[int, ...]:
        """Concurrencies of the objectives, in their order; one where both are at the same."""
        return loads_of(self.axes)

    @property
    def loads(self) -> tuple[int, ...]:
        """All concurrencies that are measured, ascending."""
        return tuple(sorted({*self.objective_loads, *self.watch, *self.traffic}))

    @property
    def used(self) -> Traffic | None:
        """The traffic as everything but the study file takes it; None without any."""
        return Traffic(tuple(self.traffic.items())) if self.traffic else None

    def tokens_at(self, load: int) -> int:
        """Output tokens that one launch measures at a load, warm-up included: two rounds, if nothing drifts."""
        phase = self.measure.phase(load, warm=False)
        repeats = self.measure.repeats if load in self.objective_loads else self.measure.watch_repeats
        warm_up = WARMUP_ROUNDS * phase.warmup_requests * phase.warm_up.output_tokens
        return repeats * phase.requests * phase.output_tokens + warm_up

    @property
    def objective_names(self) -> tuple[str, str]:
        """Such as `c1_tpot_ms` and `c100_output_tps`."""
        return self.axes[0].name, self.axes[1].name

    @property
    def directions(self) -> tuple[str, str]:
        """Optuna directions of `objective_names`."""
        return self.axes[0].direction.value, self.axes[1].direction.value

    @property
    def slots(self) -> int:
        """How many servers the GPUs can hold side by side."""
        return self.hardware.gpus // self.model.tp

    @property
    def known_configs(self) -> tuple[SpecConfig, ...]:
        """Configs to launch before the sampler is asked: known ones, then those of the questions."""
        questions = [name for question in self.questions.values() for name in question.configs]
        return tuple(dict.fromkeys(SpecConfig.from_id(name) for name in (*self.known, *questions)))

    @property
    def deployment(self) -> Deployment:
        """What every launch of this study shares."""
        return Deployment(
            model=self.model.target,
            draft=self.model.draft,
            algorithm=self.model.algorithm,
            architecture=self.model.architecture or (self._target_facts.architecture if self._target_facts else ""),
            tp=self.model.tp,
            hardware=Hardware(
                self.hardware.kind, self.hardware.sm, float(self.hardware.memory_gib), self.hardware.links
            ),
            release=self.engine.release,
            patches=tuple(Patch(patch.name, patch.lifts, patch.note) for patch in self.engine.patches),
            python=self.engine.python,
            prefix=self.engine.prefix,
            env=dict(self.engine.env),
            searched_env=tuple(sorted(self.space.env)),
            server_args=flag_values(self.engine.server_args),
            trust_remote_code=self.model.trust_remote_code,
            max_running_requests=self.engine.max_running_requests,
            boot_ceiling_s=self.engine.boot_ceiling_minutes * 60,
            stall_s=self.engine.stall_minutes * 60,
            target_facts=self._target_facts,
            draft_facts=self._draft_facts,
        )

    @property
    def choices(self) -> SpaceChoices:
        """The choices of each knob."""
        return SpaceChoices(
            spec_version=(SpecVersion.OFF, *map(SpecVersion, self.space.spec_version)),
            topk=self.space.topk,
            num_steps=self.space.num_steps,
            num_draft_tokens=self.space.num_draft_tokens,
            allreduce_fusion=self.space.allreduce_fusion,
            optional={name: tuple(values) for name, values in self.space.knobs.items()},
            flags={name: tuple(values) for name, values in self.space.flags.items()},
            env={name: plain_values(values) for name, values in self.space.env.items()},
        )

    def space_of(self, dialect: Dialect) -> Space:
        """All that may be launched: the choices, and what the study names outside of them.

        Raises:
            UnsupportedKnob: The release has no spelling for an open knob or one of its values.
            UsageError: A patch lifts a rule that this release does not have.
        """
        return enumerate_space(self.choices, self.deployment, dialect).including(self.known_configs)

    def knowing(self, *, target: CheckpointFacts | None = None, draft: CheckpointFacts | None = None) -> StudySpec:
        """The same study, its rules knowing what the checkpoints are."""
        knowing = self.model_copy()
        knowing._target_facts = target or self._target_facts
        knowing._draft_facts = draft or self._draft_facts
        return knowing

    def with_models(self, *, target: str | None, draft: str | None) -> StudySpec:
        """The same study on another target or draft, as `--model` and `--draft` ask."""
        changes = {"target": target, "draft": draft}
        model = self.model.model_copy(update={name: value for name, value in changes.items() if value})
        return self.model_copy(update={"model": model})
