"""A study file as values: what is searched, on what, how it is measured and how much it may cost."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    field_validator,
    model_validator,
)

from search.config import CORE_KNOBS, OPTIONAL_KNOBS, SpecConfig, SpecVersion, is_knob_name, is_variable
from search.contracts import Phase
from search.deployment import ArgValue, CheckpointFacts, Deployment, Hardware, Patch
from search.dialects import Dialect
from search.masking import is_harmless
from search.metrics import DEFAULTS, METRICS, Objective, Objectives, Traffic, loads_of
from search.server.command import OWNED_ARGUMENTS
from search.space import Space, SpaceChoices, enumerate_space
from search.spec.samplers import FRONTIER, TRAFFIC
from search.spec.traffic import TrafficShares, share_of
from search.spec.types import (
    Concurrency,
    ConfigId,
    Count,
    FlagName,
    FlagValues,
    Fusion,
    KnobValues,
    KnownAlgorithm,
    MetricName,
    Name,
    Positive,
    SamplerName,
    Seed,
    Small,
    VariableName,
    Word,
)

if TYPE_CHECKING:
    from search.load.target import Limits

MOST_POINTS = 100_000
"""Of a space: some four seconds to list."""

MOST_KNOWN = 200
"""Configs that a study file may name as known; a budget of launches holds fewer."""

_WARMUP_ROUNDS = 2
"""Until two rounds agree."""
_WARMUP_SHARE = 8
"""Tokens of a measured request / those of a warm-up request, above concurrency 1."""
_LEAST_WARMUP_TOKENS = 16


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelSpec(_Part):
    """The target, its draft and how the draft speculates."""

    target: str = Field(min_length=1)
    draft: str = ""
    algorithm: KnownAlgorithm
    architecture: str = ""
    tp: Count = 1
    trust_remote_code: bool = False

    @model_validator(mode="after")
    def _has_its_draft(self) -> ModelSpec:
        if self.algorithm == "NGRAM" and self.draft:
            raise ValueError(f"NGRAM drafts from the text itself, without a model, but `draft` is {self.draft!r}")
        if self.algorithm in ("EAGLE3", "STANDALONE", "DFLASH") and not self.draft:
            own = (
                ", or write `algorithm: EAGLE` to draft with the target's own MTP layers"
                if self.algorithm == "EAGLE3"
                else ""
            )
            raise ValueError(f"{self.algorithm} needs a draft model: name its path or id as `draft`{own}")
        return self


class HardwareSpec(_Part):
    """The GPUs a study is meant for; a real run checks them against the host."""

    gpus: Count
    kind: str
    sm: int = Field(ge=70, le=200)
    memory_gib: Positive
    links: Literal["pcie", "nvlink"]


class PatchSpec(_Part):
    """A named change to the installed SGLang and the rules it lifts."""

    name: str
    lifts: tuple[str, ...] = Field(strict=False)
    note: str = ""


class EngineSpec(_Part):
    """The SGLang that is launched."""

    release: str
    python: str = ""
    prefix: tuple[Word, ...] = Field((), strict=False)
    env: dict[VariableName, Word] = {}
    server_args: dict[FlagName, Any] = {}
    patches: tuple[PatchSpec, ...] = Field((), strict=False)
    max_running_requests: Count = 256
    boot_ceiling_minutes: Positive = 60
    stall_minutes: Positive = 10

    def over(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment that SGLang runs in, given the one it inherits."""
        return {**inherited, **self.env}

    @field_validator("server_args")
    @classmethod
    def _plain_values(cls, args: dict[str, Any]) -> dict[str, Any]:
        for name, value in args.items():
            if (why := OWNED_ARGUMENTS.get(name)) is not None:
                raise ValueError(f"`{name}` is set by this program and cannot be given here: {why}; leave it out")
            words = value if isinstance(value, list) else [value]
            if not words or not all(isinstance(word, str | int | float | bool) for word in words):
                raise ValueError(f"`{name}` takes a word, a number, true, or a list of them, but got {value!r}")
        return args


class SpaceSpec(_Part):
    """The choices of each knob; what no release could run is left out by itself."""

    spec_version: tuple[Literal["v1", "v2"], ...] = Field(strict=False, min_length=1)
    topk: tuple[Small, ...] = Field(strict=False, min_length=1)
    num_steps: tuple[Small, ...] = Field(strict=False, min_length=1)
    num_draft_tokens: tuple[Annotated[int, Field(ge=2, le=4096)] | Literal["tree"], ...] = Field(
        strict=False, min_length=1
    )
    allreduce_fusion: tuple[Fusion, ...] = Field(("off",), strict=False, min_length=1)
    knobs: dict[str, KnobValues] = Field({}, strict=False)
    flags: dict[FlagName, FlagValues] = Field({}, strict=False)
    env: dict[VariableName, FlagValues] = Field({}, strict=False)

    @model_validator(mode="after")
    def _can_be_listed(self) -> SpaceSpec:
        opened = [*self.knobs.values(), *self.flags.values(), *self.env.values()]
        core = (self.spec_version, self.topk, self.num_steps, self.num_draft_tokens, self.allreduce_fusion)
        points = math.prod(len(choices) for choices in (*core, *opened))
        if points > MOST_POINTS:
            raise ValueError(
                f"`space` must have at most {MOST_POINTS:,} points before its rules drop any, because each is looked at, but "
                f"it has {points:,}; leave out values, or open fewer knobs, flags and variables"
            )
        return self

    @field_validator("flags")
    @classmethod
    def _free_flags(cls, flags: dict[str, Any]) -> dict[str, Any]:
        for name in flags:
            if (why := OWNED_ARGUMENTS.get(name)) is not None:
                raise ValueError(f"`{name}` is set by this program and cannot be opened: {why}; leave it out")
        return flags

    @field_validator("env")
    @classmethod
    def _searched_variables(cls, env: dict[str, Any]) -> dict[str, Any]:
        for name, values in env.items():
            if not (is_variable(name) and is_knob_name(name)):
                raise ValueError(
                    f"a variable that is searched is written in capitals, but got {name!r}; set it under `engine.env`"
                )
            for value in values:
                if not is_harmless(name, str(value)):
                    raise ValueError(
                        f"a variable that is searched stands in ids, tables and scripts with its value, so it must be known "
                        f"to hold no secret, but got `{name}`; set it under `engine.env`"
                    )
        return env

    @field_validator("knobs")
    @classmethod
    def _known_knobs(cls, knobs: dict[str, tuple[str | int, ...]]) -> dict[str, tuple[str | int, ...]]:
        for name in knobs:
            if name not in OPTIONAL_KNOBS:
                raise ValueError(
                    f"an optional knob is one of {', '.join(OPTIONAL_KNOBS)}, but got {name!r}; "
                    "any other server flag is opened under `space.flags`"
                )
        return knobs


class ObjectiveSpec(_Part):
    """A metric at a concurrency; the names are those of `search.metrics.METRICS`."""

    metric: MetricName
    at: Concurrency

    @property
    def objective(self) -> Objective:
        """As everything but the study file takes it."""
        return Objective(METRICS[self.metric], self.at)


class DefaultObjectivesSpec(_Part):
    """The concurrencies of the two usual objectives: time per output token, and output throughput."""

    latency: Concurrency = DEFAULTS[0].concurrency
    throughput: Concurrency = DEFAULTS[1].concurrency

    @model_validator(mode="after")
    def _ordered(self) -> DefaultObjectivesSpec:
        if self.latency >= self.throughput:
            raise ValueError(
                f"`latency < throughput` must hold, but got {self.latency} and {self.throughput}; "
                "both are concurrencies"
            )
        return self

    @property
    def pair(self) -> Objectives:
        """The usual metrics at these concurrencies."""
        return Objective(DEFAULTS[0].metric, self.latency), Objective(DEFAULTS[1].metric, self.throughput)


def _form_of_objectives(data: object) -> str:
    return "chosen" if isinstance(data, list | tuple) else "usual"


ObjectivesSpec: TypeAlias = Annotated[
    Annotated[DefaultObjectivesSpec, Tag("usual")]
    | Annotated[tuple[ObjectiveSpec, ObjectiveSpec], Field(strict=False), Tag("chosen")],
    Discriminator(_form_of_objectives),
]
"""The two axes of the front: `{latency: 1, throughput: 100}` for the usual ones, or a list of two metrics, each `at` a
concurrency. What stands first is measured first, and may spare the second."""


class PromptsSpec(_Part):
    """Where prompts come from: a JSONL or ShareGPT file, or the packaged set without one.

    `template` wraps each prompt, such as a chat format; `{prompt}` marks its place.
    """

    file: str = ""
    template: str = "{prompt}"

    @field_validator("template")
    @classmethod
    def _has_place(cls, template: str) -> str:
        if "{prompt}" not in template:
            raise ValueError(f"`{{prompt}}` must stand in the template, but got {template!r}")
        return template


class LimitsSpec(_Part):
    """What a request must keep to count as good, for goodput; without a limit there is none.

    Part of what makes measurements comparable only where goodput is an objective: it changes no other number.
    """

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None

    @property
    def load_limits(self) -> Limits | None:
        """As the client takes them; None without any."""
        if self.ttft_ms is None and self.tpot_ms is None:
            return None
        from search.load.target import Limits

        return Limits(ttft_ms=self.ttft_ms, tpot_ms=self.tpot_ms)


class MeasureSpec(_Part):
    """How phases are measured; part of what makes two measurements comparable.

    An objective is repeated `repeats` times in every start. Repeating until a value seemed sure made intervals
    that hold too rarely (issue 12): `doubt` and `repeats_at_most` of older files are read and not followed.
    `requests_at_latency` is a floor at low loads, where prompts are what makes one run differ from
    another; above it each worker gets `requests_per_worker` requests. `parallel_loads` lets the
    servers of one host be measured at the same time; without it they take turns, because they share
    processors, memory and links.
    """

    output_tokens: Annotated[int, Field(ge=16)] = 256
    output_spread: Annotated[float, Field(ge=0, le=0.9)] = 0.5
    requests_at_latency: Count = 16
    requests_per_worker: Count = 4
    repeats: Annotated[int, Field(ge=1, le=20)] = 2
    doubt: Annotated[float, Field(gt=0, lt=1)] | None = None
    repeats_at_most: Annotated[int, Field(ge=1, le=20)] | None = None
    watch_repeats: Annotated[int, Field(ge=1, le=20)] = 1
    parallel_loads: bool = False
    prompts: PromptsSpec = PromptsSpec()
    limits: LimitsSpec = LimitsSpec()

    def phase(self, concurrency: int, *, warm: bool) -> Phase:
        """The phase at `concurrency`: each worker gets the same number of requests.

        Args:
            warm: This concurrency was warmed up on this launch before.
        """
        requests = max(self.requests_at_latency if concurrency <= 4 else 0, self.requests_per_worker * concurrency)
        return Phase(
            concurrency,
            requests=requests,
            output_tokens=self.output_tokens,
            spread=self.output_spread,
            warmup_requests=0 if warm else max(concurrency, 2),
            # Above one stream a round of short answers has every worker busy at once, and rounds go on until two agree.
            warmup_tokens=0 if concurrency == 1 else max(_LEAST_WARMUP_TOKENS, self.output_tokens // _WARMUP_SHARE),
        )


class BudgetSpec(_Part):
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


class QuestionSpec(_Part):
    """A named comparison: is `config` better than each of `against` at every load of `at`?"""

    config: ConfigId
    against: tuple[ConfigId, ...] = Field(strict=False, min_length=1)
    at: tuple[Concurrency, ...] = Field(strict=False, min_length=1)

    @property
    def configs(self) -> tuple[str, ...]:
        """Ids that have to be measured for an answer."""
        return (self.config, *self.against)

    @property
    def words(self) -> str:
        """Such as `v1-k2-s2-d7 against off at C=1, 100`."""
        return f"{self.config} against {', '.join(self.against)} at C={', '.join(map(str, self.at))}"


KnobWord: TypeAlias = int | str
"""A value of a knob, as in the space."""


class KnobQuestionSpec(_Part):
    """A named comparison of a knob: is the best config with `value` better than the best with each of `against`?"""

    knob: str
    value: KnobWord
    against: tuple[KnobWord, ...] = Field(strict=False, min_length=1)
    at: tuple[Concurrency, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _compares_unlike_values(self) -> KnobQuestionSpec:
        if self.value in self.against:
            raise ValueError(f"`value` must not be among `against`, but {self.value!r} is; leave it out of one of them")
        return self

    @property
    def configs(self) -> tuple[str, ...]:
        """None: whichever configs with those values the study measures."""
        return ()

    @property
    def words(self) -> str:
        """Such as `topk 2 against 1, 4 at C=1, 100`."""
        return (
            f"{self.knob} {self.value} against {', '.join(map(str, self.against))} at C={', '.join(map(str, self.at))}"
        )


def _form_of_question(data: object) -> str:
    named = data if isinstance(data, Mapping) else getattr(data, "__dict__", {})
    return "of-a-knob" if "knob" in named else "of-configs"


AnyQuestion: TypeAlias = Annotated[
    Annotated[QuestionSpec, Tag("of-configs")] | Annotated[KnobQuestionSpec, Tag("of-a-knob")],
    Discriminator(_form_of_question),
]
"""`{config: v2-k1-s2-d3, against: [off], at: [100]}`, or `{knob: topk, value: 2, against: [1, 4], at: [1, 100]}`."""


Worth: TypeAlias = Annotated[float, BeforeValidator(share_of), Field(gt=0, lt=1)]
"""A share of a gain: `2%` or 0.02."""


class EarlierSpec(_Part):
    """Numbers that are believed before the first launch, as far as `weight` says: 1/2 is worth half a measurement.

    `recording` is a folder that `search record` wrote, of another release, draft or host.
    """

    recording: Annotated[str, Field(min_length=1)]
    weight: Annotated[float, Field(gt=0, lt=1)] = 0.3


class SimulationSpec(_Part):
    """Which packaged cost model `--simulate` uses for this study."""

    physics: str = "generic"


class ServingSpec(_Part):
    """How what was found is served: what launch scripts say in place of what measuring needs.

    Nothing in it changes a measurement, so it may change at any time. `host` is left to SGLang where it is empty, which
    takes loopback. `prefix_cache` is off while measuring, where hits would flatter repeats. `server_args` and `env` are
    added to those of `engine`; `false` takes a switch out.
    """

    host: Word = ""
    port: Annotated[int, Field(ge=1, le=65535)] = 30000
    prefix_cache: bool = True
    max_running_requests: Count | None = None
    env: dict[VariableName, Word] = {}
    server_args: dict[FlagName, Any] = {}

    @field_validator("server_args")
    @classmethod
    def _plain_values(cls, args: dict[str, Any]) -> dict[str, Any]:
        for name, value in args.items():
            if name in _SERVING_FIELDS:
                raise ValueError(f"`{name}` is set by `serving.{_SERVING_FIELDS[name]}`; write it there")
            words = value if isinstance(value, list) else [value]
            if not words or not all(isinstance(word, str | int | float | bool) for word in words):
                raise ValueError(f"`{name}` takes a word, a number, true, or a list of them, but got {value!r}")
        return args


_SERVING_FIELDS = {
    "host": "host",
    "port": "port",
    "disable-radix-cache": "prefix_cache",
    "max-running-requests": "max_running_requests",
}


class StudySpec(_Part):
    """One study file."""

    study: Name
    title: str = ""
    model: ModelSpec
    hardware: HardwareSpec
    engine: EngineSpec
    space: SpaceSpec
    objectives: ObjectivesSpec = DefaultObjectivesSpec()
    watch: tuple[Concurrency, ...] = Field((), strict=False)
    known: tuple[ConfigId, ...] = Field((), strict=False, max_length=MOST_KNOWN)
    questions: dict[Name, AnyQuestion] = {}
    worth: Worth = 0.02
    traffic: TrafficShares = {}
    measure: MeasureSpec = MeasureSpec()
    budget: BudgetSpec = BudgetSpec()
    serving: ServingSpec = ServingSpec()
    earlier: tuple[EarlierSpec, ...] = Field((), strict=False)
    sampler: SamplerName = FRONTIER
    seed: Seed = 0
    simulation: SimulationSpec = SimulationSpec()
    assumptions: tuple[str, ...] = Field((), strict=False)

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
            if isinstance(question, KnobQuestionSpec):
                self._knows(name, question)
        return self

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
        warm_up = _WARMUP_ROUNDS * phase.warmup_requests * phase.warm_up.output_tokens
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
            env={name: _plain(values) for name, values in self.space.env.items()},
        )

    def space_of(self, dialect: Dialect) -> Space:
        """All that may be launched: the choices, and what the study names outside of them.

        Raises:
            UnsupportedKnob: The release has no spelling for an open knob or one of its values.
            UsageError: A patch lifts a rule that this release does not have.
        """
        return enumerate_space(self.choices, self.deployment, dialect).including(self.known_configs)

    @property
    def prompt_file(self) -> Path | None:
        """The user's prompt file, or None for the packaged set."""
        return Path(self.measure.prompts.file) if self.measure.prompts.file else None

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


def _plain(values: tuple[str | int | bool, ...]) -> tuple[str | int, ...]:
    """A variable's values; YAML's truth values are 1 and 0 to a program that reads its environment."""
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def flag_values(args: Mapping[str, Any]) -> dict[str, ArgValue]:
    """Server arguments of a study file as a deployment holds them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in args.items()}
