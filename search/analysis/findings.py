"""What the measurements of a study say: values for people, computed from launches alone.

The types are the contract between judging and reporting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from search.config import KnobValue, SpecConfig
from search.metrics import Metric, Objective
from search.outcomes import Note
from search.stats.comparison import Comparison
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck, is_lossy


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better one config is than another, as a ratio: 1.1 is 10% better.

    Attributes:
        lo: Lower end of the 95% interval of what many further starts would come out at; of the fit's 90% band where
            `band`. None where nothing is to be said, as of a baseline over itself.
        hi: Upper end.
        assumed: Scatter between starts is assumed, not measured: the interval carries no claim.
        band: Nobody measured it: what a fitted simulator expects, and how far forms of about equal fit disagree.
        comparison: What value and interval come from; None for a band.
    """

    value: float
    lo: float | None = None
    hi: float | None = None
    assumed: bool = False
    band: bool = False
    comparison: Comparison | None = field(default=None, repr=False)

    @classmethod
    def of(cls, comparison: Comparison) -> Gain:
        """A comparison as it is printed."""
        return cls(comparison.ratio, comparison.lo, comparison.hi, comparison.assumed, comparison=comparison)

    @property
    def separable(self) -> bool | None:
        """Whether 1 lies outside a measured interval; None where it is assumed or expected."""
        return None if self.comparison is None else self.comparison.separable


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One config at one concurrency, over all its repeats and launches.

    Attributes:
        rate: Output tokens per second: `1000 / tpot_ms` at concurrency 1, the steady window's
            throughput above it. This is what configs are compared by at a load. With the interval of what many
            further starts would come out at; of an extrapolated value with the fit's 90% band.
        tpot_ms: Time per output token; None where a recorded table does not hold it.
        ttft_ms: Time to first token, likewise.
        accept_length: Mean over repeats; None without speculation.
        extrapolated: A simulated value outside what the simulator was fitted to.
        band: `rate` is what the fit expects, and its ends are the 90% band of that.
        accept: The accept length with its interval.
        outliers: Repeats that stand apart, one sentence each; they are in the values all the same.
        tails: Mean and 99th percentile of times that have no interval of their own, by the names of
            `PhaseResult`, with their range over repeats; only what was recorded.
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
    band: bool = False


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
        score_ci: The score with its 95% interval; None without a baseline.
        gains: Over the best baseline of the load, by concurrency: the one comparison that is printed wherever this
            config's gain is.
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
    score_ci: Estimate | None = None
    gains: Mapping[int, Gain] = field(default_factory=dict)
    lossless: tuple[OutputCheck, ...] = ()
    searched: ConfigResult | None = None
    confirmed_loads: frozenset[int] = frozenset()

    @property
    def lossy(self) -> bool:
        """See `is_lossy`."""
        return is_lossy(self.lossless)

    @property
    def extrapolated(self) -> bool:
        """Whether any of its values is, of a ladder too."""
        return self.extrapolated_at(self.loads)

    def extrapolated_at(self, loads: Collection[int]) -> bool:
        """Whether any of its values at these loads is: the ladder of a config that was fitted leaves its data."""
        return any(load in self.loads and self.loads[load].extrapolated for load in loads)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Better than the best baseline as far as measured, and not told from it after all comparisons that were made."""

    config: SpecConfig
    gain: Gain


@dataclass(frozen=True, slots=True)
class LoadWinner:
    """The answer at one load.

    Attributes:
        config: The simplest of what cannot be distinguished from the best that beats the baselines; a baseline where nothing
            does.
        baseline: The best measured baseline at this load, which all gains are over.
        gain: Of `config` over `baseline`; 1 when the winner is the baseline.
        claimed: The gain is real, at the level of the whole study.
        tied: Others that cannot be distinguished from the best, fastest first.
        equal_fusion_gain: The same over `off` at the winner's own all-reduce fusion; None when that
            was not measured or the winner does not speculate.
        extrapolated: Nobody measured it: what a simulator expects beyond its data.
        ahead: See `Ahead`, best first.
        same: Those of `tied` that are shown to be within the study's `worth` of the winner.
        assumed: Scatter between starts is assumed at this load, so no gain could be claimed.
        compared: Configs that speculate and were measured at this load.
        slower: Each of those is shown to be slower than the baseline.
        only_expected: The fit of a simulator alone speaks here: gains are its bands.
    """

    concurrency: int
    config: SpecConfig
    rate: Estimate
    baseline: SpecConfig
    baseline_rate: Estimate
    gain: Gain
    claimed: bool
    tied: tuple[SpecConfig, ...]
    equal_fusion_gain: Gain | None
    extrapolated: bool
    ahead: tuple[Ahead, ...] = ()
    same: tuple[SpecConfig, ...] = ()
    assumed: bool = False
    compared: int = 0
    slower: bool = False
    only_expected: bool = False


@dataclass(frozen=True, slots=True)
class ObjectiveWinner:
    """The answer at an objective that is not the rate of its load, such as a percentile or goodput.

    Attributes:
        config: As of a `LoadWinner`, by the objective's value.
        gain: How much better it is than the best baseline, as a ratio; None where the winner is a baseline, and where
            one of both is nothing, as a goodput of 0.
        tied: Others that cannot be distinguished from the best, best first.
        ahead: See `Ahead`, best first.
    """

    objective: Objective
    config: SpecConfig
    value: Estimate
    baseline: SpecConfig
    baseline_value: Estimate
    gain: Gain | None
    tied: tuple[SpecConfig, ...]
    extrapolated: bool
    ahead: tuple[Ahead, ...] = ()
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class KnobWorth:
    """What one value of a knob is worth against another, at one concurrency.

    Attributes:
        value: Of the best config of all with this knob, as far as measured.
        other: Another measured value.
        best: Best config with `value`, picked by the search.
        other_best: Best with `other`.
        gain: `best` over `other_best`; simultaneous over all configs of both values unless `picked_afresh`.
        picked_afresh: Both were started again after the choice, and compared on those starts.
        differ_too: Other knobs in which the two configs differ: the gain may be theirs.
        alone: Mean gain of `value` over `other` over pairs of configs that differ in nothing else; None without any.
        pairs: How many such pairs.
    """

    knob: str
    concurrency: int
    value: KnobValue
    other: KnobValue
    best: SpecConfig
    other_best: SpecConfig
    gain: Gain
    picked_afresh: bool
    differ_too: tuple[str, ...] = ()
    alone: Gain | None = None
    pairs: int = 0


FOR_A_QUESTION = "answers "
"""How the reason of a start begins that a question about a knob alone asked for."""


@dataclass(frozen=True, slots=True)
class Contender:
    """The best config with a value that a question about a knob compares, as the search picked it.

    Attributes:
        why: What a start of its own would be for.
        is_open: The question has no answer yet that measurements settle, and this config no start after the choice.
    """

    config: SpecConfig
    why: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Pick:
    """A config worth a launch script.

    Attributes:
        roles: Such as `lowest-latency`, `best-at-c30`.
        extrapolated: At a load that it has a role at, a simulator gave its value beyond its data.
    """

    roles: tuple[str, ...]
    result: ConfigResult
    extrapolated: bool = False


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
    """The verdict on one question.

    One of `supported`, `refuted`, `same`, `not separable`, `assumed scatter`, `not measured`.
    """

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
    def ratio(self) -> float | None:
        """How much better it measured than was expected; 1.1 is 10% better. None where one of both is nothing."""
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
        traffic: Those of the headlines that answer for the study's traffic; none where it names none.
        cautions: Those of the headlines that say how far the others may be trusted: scatter that is assumed, hosts and
            slots that drifted.
        remarks: What people should know of single configs, one sentence each: repeats that stand
            apart, answers that are not the baseline's, accept lengths that should be equal.
        barred: Configs whose answers were garbage in some launch; they are in no other list.
        objective_winners: One per objective that is not the rate of its load.
        knobs: What each knob is worth, objectives first.
        contenders: Best configs of the values that the study's questions about knobs compare; those of an open
            question that were not started again after the choice would sharpen its answer by a start of their own.
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
    traffic: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    barred: tuple[SpecConfig, ...] = ()
    predictions: PredictedValues = PredictedValues()
    objective_winners: tuple[ObjectiveWinner, ...] = ()
    knobs: Sequence[KnobWorth] = ()
    contenders: Sequence[Contender] = ()
