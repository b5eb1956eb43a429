"""What the measurements of a study say: values for people, computed from launches alone.

The types are the contract between judging and reporting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from search.config import SpecConfig
from search.metrics import Metric, Objective
from search.outcomes import Note
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One config at one concurrency, over all its repeats and launches.

    Attributes:
        rate: Output tokens per second: `1000 / tpot_ms` at concurrency 1, the steady window's
            throughput above it. This is what configs are compared by at a load.
        tpot_ms: Time per output token; None where a recorded table does not tell it.
        ttft_ms: Time to first token, likewise.
        accept_length: Mean over repeats; None without speculation.
        extrapolated: A simulated value outside what the simulator was fitted to.
        accept: The accept length with its interval.
        outliers: Repeats that stand apart, one sentence each; they are in the values all the same.
        tails: Mean and 99th percentile of times that have no interval of their own, by the names of
            `PhaseResult`, with their range over repeats; only what was told.
    """

    concurrency: int
    rate: Estimate
    tpot_ms: Estimate | None
    ttft_ms: float | None
    accept_length: float | None
    notes: tuple[Note, ...]
    extrapolated: bool
    accept: Estimate | None = None
    outliers: tuple[str, ...] = ()
    tails: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """Everything measured of one config.

    Attributes:
        loads: By concurrency; both objectives are there, watch loads may be missing.
        values: Of the two objectives, in the study's order and their own units.
        score: Geometric mean of how much better both are than the best baseline at each objective, as ratios.
        launches: Numbers of the launches the values come from.
        confirmed: Measured on a fresh launch with held-out prompts, and the values come from there:
            having been chosen for them, those of the search are too good by their luck.
        notes: Union over its phases, in the order of the closed list.
        score_doubt: The score with its interval; None without a baseline.
        gains: Rate / rate of the best baseline, so 1.1 is 10% faster, by concurrency; paired by prompt
            where both tell them.
        lossless: How its answers compare with the baseline's, of its last launch that was judged.
        searched: What the search measured, where `confirmed`. Other prompts make other numbers, so a
            confirmed config is compared by these with configs that are not.
        confirmed_loads: Loads of which the value is a confirmed one.
    """

    config: SpecConfig
    loads: Mapping[int, LoadResult]
    values: tuple[Estimate, Estimate]
    score: float
    launches: tuple[int, ...]
    confirmed: bool
    notes: tuple[Note, ...]
    score_doubt: Estimate | None = None
    gains: Mapping[int, Estimate] = field(default_factory=dict)
    lossless: tuple[OutputCheck, ...] = ()
    searched: ConfigResult | None = None
    confirmed_loads: frozenset[int] = frozenset()

    @property
    def extrapolated(self) -> bool:
        """Whether any of its values is."""
        return any(load.extrapolated for load in self.loads.values())


@dataclass(frozen=True, slots=True)
class LoadWinner:
    """The answer at one load.

    Attributes:
        config: The simplest of those that are not separable from the fastest (within 1%).
        baseline: The best measured baseline at this load.
        gain: `rate / baseline rate` with its interval, paired by prompt where both configs tell them; 1.1 is 10%
            faster, 1 when the winner is the baseline.
        gain_separable: Whether the gain exceeds its doubt; None when the doubt is unknown.
        tied: Others that cannot be told from the fastest, fastest first.
        equal_fusion_gain: The same over `off` at the winner's own all-reduce fusion; None when that
            was not measured or the winner does not speculate.
    """

    concurrency: int
    config: SpecConfig
    rate: Estimate
    baseline: SpecConfig
    baseline_rate: Estimate
    gain: Estimate
    gain_separable: bool | None
    tied: tuple[SpecConfig, ...]
    equal_fusion_gain: Estimate | None
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class ObjectiveWinner:
    """The answer at an objective that is not the rate of its load, such as a percentile or goodput.

    Attributes:
        config: The simplest of those that are not separable from the best (within 1%).
        gain: How much better it is than the best baseline, as a ratio with its interval; None where the winner
            is a baseline.
        tied: Others that cannot be told from the best, best first.
    """

    objective: Objective
    config: SpecConfig
    value: Estimate
    baseline: SpecConfig
    baseline_value: Estimate
    gain: Estimate | None
    tied: tuple[SpecConfig, ...]
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Pick:
    """A config worth a launch script, and the roles it has, such as `lowest-latency`, `best-at-c30`."""

    roles: tuple[str, ...]
    result: ConfigResult


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A launch that gave no measurement."""

    launch: int
    config: SpecConfig
    outcome: str
    reason: str
    blame: str
    root_line: str
    log_path: str


@dataclass(frozen=True, slots=True)
class QuestionVerdict:
    """The verdict on one question: `supported`, `refuted`, `not separable` or `not measured`."""

    name: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True)
class PredictedValue:
    """One number of a launch as it was expected before, and as it was measured.

    Attributes:
        metric: What it is: the rate of the load in tokens per second, where the objective is that in other units;
            else the objective's own metric.
        expected: 5%, 50% and 95% quantiles, ascending.
        measured: Of this launch alone.
    """

    launch: int
    config: SpecConfig
    concurrency: int
    metric: Metric
    expected: tuple[float, float, float]
    measured: Estimate

    @property
    def ratio(self) -> float:
        """How much better it measured than was expected; 1.1 is 10% better."""
        return self.metric.ratio(self.measured.value, self.expected[1])

    @property
    def held(self) -> bool:
        """Whether the band holds the measured value."""
        return self.expected[0] <= self.measured.value <= self.expected[2]


@dataclass(frozen=True, slots=True)
class PredictedValues:
    """How the sampler's belief fared.

    Attributes:
        numbers: In launch order.
        sentences: How many bands held, each number and each start it was wrong about, and one-sided misses.
    """

    numbers: tuple[PredictedValue, ...] = ()
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """All a report needs besides the launches themselves.

    Attributes:
        baselines: Every measured `off`, best score first.
        results: All measured configs, best score first.
        front: Measured configs no other beats on both objectives, best at the first one first.
        winners: One per load, from values that rest on data as far as there are any.
        beyond: Winners per load that rest on extrapolation and would beat those of `winners`:
            worth a launch, not facts. Empty unless the study is simulated.
        headlines: The answer in words, one sentence each: winner per load, from which load to
            which speculation pays, what drifted, what rests on extrapolation.
        remarks: What people should know of single configs, one sentence each: repeats that stand
            apart, answers that are not the baseline's, accept lengths that should be equal.
        barred: Configs whose answers were garbage in some launch; they are in no other list.
        objective_winners: One per objective that is not the rate of its load.
        predictions: What was expected of launches, and what they measured; empty for a sampler without a belief.
    """

    baselines: tuple[ConfigResult, ...]
    results: tuple[ConfigResult, ...]
    front: tuple[ConfigResult, ...]
    winners: tuple[LoadWinner, ...]
    beyond: tuple[LoadWinner, ...]
    picks: tuple[Pick, ...]
    failures: tuple[FailedLaunch, ...]
    verdicts: tuple[QuestionVerdict, ...]
    headlines: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    barred: tuple[SpecConfig, ...] = ()
    predictions: PredictedValues = PredictedValues()
    objective_winners: tuple[ObjectiveWinner, ...] = ()
