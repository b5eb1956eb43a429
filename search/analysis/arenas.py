"""The readings of a study by metric and load: everything that is compared is compared here, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TypeAlias

from search.analysis.expected import Expectations
from search.analysis.findings import Gain
from search.analysis.memo import Memo
from search.config import SpecConfig, simplicity
from search.contracts import PhaseResult
from search.metrics import METRICS, Direction, Metric, Objective, pace_ms
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.estimates import Estimate
from search.stats.levels import level_of
from search.stats.phase_readings import reading_of
from search.stats.readings import Groups, Reading, usable
from search.stats.scatter import Scatter, pooled_scatter
from search.stats.standings import Judge
from search.stats.verdicts import LEVEL, Contest, Verdict, study_winners
from search.storage.records import LaunchRecord

Key: TypeAlias = tuple[str, int]
"""Name of the metric, `RATE` for the rate of a load, and concurrency."""

RATE = "rate"
SEARCH = "search"
HELD_OUT = "held-out"


def prompt_set_of(launch: LaunchRecord, phase: PhaseResult) -> str:
    """Which prompts a phase was sent. Rows from before the phase recorded it: confirmations had those held out."""
    held_out = launch.stage == "confirm" if phase.held_out is None else phase.held_out
    return HELD_OUT if held_out else SEARCH


def is_confirmed(launch: LaunchRecord, phase: PhaseResult) -> bool:
    """Whether a phase was measured after the choice, or on the prompts that were kept back for that."""
    return launch.stage == "confirm" or prompt_set_of(launch, phase) == HELD_OUT


def key_of(axis: Objective) -> Key:
    """Of the readings that an objective is compared by; its load's rate where it is that in other units."""
    rate = axis.metric.name in ("tpot_ms", "user_tps") if axis.concurrency == 1 else axis.metric.name == "output_tps"
    return (RATE if rate else axis.metric.name), axis.concurrency


@dataclass(frozen=True)
class Arena:
    """All readings of one metric at one load.

    Attributes:
        key: See `Key`.
        groups: Readings by config, of everything but what is barred.
        open: Configs that take part in the contest: recommendable, and resting on data where anything does.
        extrapolated: Configs whose value is a simulator's beyond its data.
        expects: What the fit says of those.
        scatter: Pooled over `groups`.
        verdict: Of the contest; None where there was none, as where only the fit speaks.
    """

    key: Key
    groups: Mapping[SpecConfig, tuple[Reading, ...]]
    open: frozenset[SpecConfig]
    extrapolated: frozenset[SpecConfig]
    expects: Expectations | None
    scatter: Scatter
    verdict: Verdict | None = None

    @property
    def concurrency(self) -> int:
        """Of all readings."""
        return self.key[1]

    @property
    def metric(self) -> Metric:
        """What the readings are: at a concurrency of 1, where prompts pair, the rate is read as time per token."""
        name, load = self.key
        return METRICS[("tpot_ms" if load == 1 else "output_tps") if name == RATE else name]

    @property
    def only_expected(self) -> bool:
        """Whether the fit alone speaks: nothing that speculates rests on data here."""
        return self.expects is not None and any(config in self.extrapolated for config in self.open)

    @cached_property
    def judge(self) -> Judge:
        """Compares, with more being better."""
        return Judge(self.scatter, self.metric.direction is Direction.MAXIMIZE)

    @cached_property
    def reference(self) -> SpecConfig | None:
        """The best baseline, which all gains are over; None where none was measured."""
        if self.verdict is not None:
            return SpecConfig.from_id(self.verdict.reference) if self.verdict.reference else None
        if self.expects is None:
            return None
        baselines = [config for config in self.groups if not config.speculates]
        return max(baselines, key=lambda config: self._expected_rate(config), default=None)

    @cached_property
    def _standing(self) -> dict[SpecConfig, Comparison]:
        """Gains over the reference that the contest has taken already."""
        if self.verdict is None:
            return {}
        by_id = {config.config_id: config for config in self.groups}
        return {by_id[one.config]: one.gain for one in self.verdict.standings if one.gain is not None}

    def compare(self, config: SpecConfig, over: SpecConfig) -> Comparison | None:
        """How much better one is than another, above 1 where better; the same wherever it is asked.

        Over a baseline: fresh starts of the other where it has some. Of two that were picked: both on fresh starts
        where both have some, else all of both.
        """
        mine, theirs = self.groups.get(config, ()), self.groups.get(over, ())
        if not mine or not theirs:
            return None
        if not over.speculates:
            return self.judge.gain(self.judge.fresh_or_all(mine), theirs)
        if not config.speculates:
            comparison = self.judge.gain(self.judge.fresh_or_all(theirs), mine)
            return None if comparison is None else comparison.inverse()
        return self.judge.like_with_like(mine, theirs)

    def has_ratio(self, *configs: SpecConfig) -> bool:
        """Whether none of these measured nothing, as a goodput of 0, which can be ranked, and is no share of anything."""
        every = (one for config in configs for one in usable(self.groups.get(config, ())))
        return self.key[0] == RATE or all(one.value > self.metric.floor for one in every)

    def gain(self, config: SpecConfig, over: SpecConfig | None) -> Gain | None:
        """The same as it is printed; the fit's band where one of the two is only extrapolated; None without a ratio."""
        if over is None or config not in self.groups:
            return None
        if config == over:
            return Gain(1.0)
        if not self.has_ratio(config, over):
            return None
        if self.expects is not None and {config, over} & self.extrapolated:
            return self.expects.gain(config, over, self.concurrency)
        comparison = self._standing.get(config) if over == self.reference else None
        comparison = comparison or self.compare(config, over)
        return None if comparison is None else Gain.of(comparison)

    def value(self, config: SpecConfig, *, confirmed: bool | None = None) -> Estimate | None:
        """The value of a config with its 95% interval, in the metric's unit; with the fit's band where extrapolated.

        Args:
            config: Any.
            confirmed: Only of what was confirmed, or only of what was not; None for all.
        """
        if self.key[0] == RATE and config in self.extrapolated and self.expects is not None:
            rate = self.expects.rate(config, self.concurrency)
            return _turned(rate) if self.concurrency == 1 else rate
        readings = [
            one
            for one in self.groups.get(config, ())
            if confirmed is None or confirmed is (one.fresh or one.prompt_set == HELD_OUT)
        ]
        level = level_of(readings, self.scatter)
        if level is None:
            return None
        ceiling = self.metric.ceiling
        hi = level.hi if ceiling is None else min(level.hi, max(ceiling, level.value))
        estimate = Estimate(level.value, level.lo, hi)  # a rate of 0 is no reading, and any other one counts as it is
        return estimate if self.key[0] == RATE else _with_zeros(estimate, usable(readings), self.metric)

    def rate(self, config: SpecConfig, *, confirmed: bool | None = None) -> Estimate | None:
        """The same in tokens per second, of the arena of a rate."""
        value = self.value(config, confirmed=confirmed)
        return _turned(value) if value is not None and self.concurrency == 1 else value

    def _expected_rate(self, config: SpecConfig) -> float:
        assert self.expects is not None
        return self.expects.rate(config, self.concurrency).value


def readings_of(
    spec: StudySpec, launches: Sequence[LaunchRecord], memo: Memo
) -> dict[Key, dict[SpecConfig, list[Reading]]]:
    """All readings by metric and load, then by config.

    Args:
        spec: Whose objectives are read besides rates.
        launches: Measured ones.
        memo: Keeps what was read of each.
    """
    found: dict[Key, dict[SpecConfig, list[Reading]]] = {}
    axes = [axis for axis in spec.axes if key_of(axis)[0] != RATE]
    for launch in launches:
        if launch.number not in memo.readings:
            memo.readings[launch.number] = tuple(_readings(axes, launch))
        for key, reading in memo.readings[launch.number]:
            found.setdefault(key, {}).setdefault(launch.config, []).append(reading)
    return found


def contested(spec: StudySpec, arenas: Mapping[Key, Arena]) -> dict[Key, Arena]:
    """The arenas with their verdicts; the chance of any false gain in all of them is at most 5%.

    Further workloads have arenas of their own, so each workload gets an equal part of that.
    """
    objectives = [key_of(axis) for axis in spec.axes]
    order = sorted(arenas, key=lambda key: (objectives.index(key) if key in objectives else len(objectives), key))
    contests: dict[Hashable, Contest] = {
        key: Contest(
            {config.config_id: arenas[key].groups[config] for config in sorted(arenas[key].open, key=simplicity)},
            arenas[key].scatter,
            objective=key in objectives,
            higher_is_better=arenas[key].judge.higher_is_better,
        )
        for key in order
        if arenas[key].open and not arenas[key].only_expected
    }
    baselines = {config.config_id for arena in arenas.values() for config in arena.open if not config.speculates}
    verdicts = study_winners(
        contests,
        baselines,
        lambda name: simplicity(SpecConfig.from_id(name)),
        level=LEVEL / (1 + len(spec.workloads)),
        worth=spec.worth,
    )
    return {key: _with(arena, verdicts.get(key)) for key, arena in arenas.items()}


def arena_of(
    key: Key,
    groups: Mapping[SpecConfig, Sequence[Reading]],
    *,
    open_to: frozenset[SpecConfig],
    extrapolated: frozenset[SpecConfig],
    expects: Expectations | None,
) -> Arena:
    """An arena before its contest; see `Arena`.

    Args:
        key: Metric and concurrency.
        groups: Readings by config.
        open_to: Configs that may win.
        extrapolated: Configs whose numbers are a model's.
        expects: What the model expects of configs without a reading; None without a model.
    """
    scattered: Groups = {config.config_id: readings for config, readings in groups.items()}
    kept = {config: tuple(readings) for config, readings in groups.items()}
    return Arena(key, kept, open_to & kept.keys(), extrapolated & kept.keys(), expects, pooled_scatter(scattered))


def _with(arena: Arena, verdict: Verdict | None) -> Arena:
    return Arena(arena.key, arena.groups, arena.open, arena.extrapolated, arena.expects, arena.scatter, verdict)


def _readings(axes: Sequence[Objective], launch: LaunchRecord) -> Iterator[tuple[Key, Reading]]:
    for phase in launch.phases:
        load = phase.concurrency
        metrics = [axis.metric for axis in axes if axis.concurrency == load]
        metrics_of = [(RATE, _rate_in_its_unit), *((metric.name, _above_floor(metric)) for metric in metrics)]
        for name, of in metrics_of:
            reading = reading_of(
                phase,
                of,
                start=launch.start_number,
                place=launch.place,
                slot=str(launch.slot),
                prompt_set=prompt_set_of(launch, phase),
                fresh=launch.stage == "confirm",
            )
            if reading is not None:
                yield (name, load), reading


def _rate_in_its_unit(phase: PhaseResult) -> float | None:
    return pace_ms(phase) if phase.concurrency == 1 else phase.output_tps


def _above_floor(metric: Metric) -> Callable[[PhaseResult], float | None]:
    """A share of 0 has no ratio."""

    def of(phase: PhaseResult) -> float | None:
        value = metric.of(phase)
        return None if value is None else max(value, metric.floor)

    return of


def _with_zeros(estimate: Estimate, readings: Sequence[Reading], metric: Metric) -> Estimate:
    """The value where some reading is zero, which has no logarithm: the plain mean over starts in place of the geometric.

    Args:
        estimate: Of the logarithms, zeros counted as the metric's floor; its ends hold the mean too.
        readings: What it is of.
        metric: Theirs.
    """
    if not any(one.value <= metric.floor for one in readings):
        return estimate
    starts: dict[int, list[float]] = {}
    for one in readings:
        starts.setdefault(one.start, []).append(0.0 if one.value <= metric.floor else one.value)
    mean = fmean(map(fmean, starts.values()))
    assert estimate.lo is not None and estimate.hi is not None, "a level has an interval"
    return Estimate(mean, 0.0, max(estimate.hi, mean))


def _turned(estimate: Estimate) -> Estimate:
    """Milliseconds per token as tokens per second, and the other way round."""
    lo, hi = (1000 / end if end else None for end in (estimate.hi, estimate.lo))
    return Estimate(1000 / estimate.value, lo, hi)
