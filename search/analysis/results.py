"""From launches to one result per config: estimates pooled per load, front."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from search.analysis.arenas import is_confirmed
from search.analysis.findings import ConfigResult, LoadResult
from search.analysis.memo import Memo
from search.config import SpecConfig, simplicity
from search.contracts import PhaseResult
from search.metrics import METRICS, Direction, Metric, Objective, Objectives, rate_tps
from search.outcomes import Note, Outcome, Reason
from search.spec.study import StudySpec
from search.stats.acceptance import accept_estimate
from search.stats.estimates import Estimate, mean_estimate, rate_of, throughput_estimate, tpot_estimate
from search.stats.repeats import outliers, repeat_notes
from search.storage.records import LaunchRecord

_SEED = 20240501
"""Of every bootstrap: equal launches give equal judgements, in whatever order configs come."""


def config_results(spec: StudySpec, launches: Sequence[LaunchRecord], memo: Memo | None = None) -> list[ConfigResult]:
    """All configs with both objectives measured, without gains and scores; the simplest first.

    What was confirmed is reported with the values of its confirming starts and prompts. With a `memo`, only configs
    that were launched since are pooled anew.
    """
    memo = Memo() if memo is None else memo
    kept = measured_launches(launches)
    results = {result.config: result for result in _pooled(spec, kept, memo, confirmed=False)}
    for fresh in _pooled(spec, kept, memo, confirmed=True):
        results[fresh.config] = _confirmed(fresh, results.get(fresh.config))
    return sorted(results.values(), key=lambda result: simplicity(result.config))


def measured_launches(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Those whose numbers count: what is barred gives none, and a launch tried by hand may carry any arguments."""
    barred = set(barred_configs(launches))
    return [
        launch
        for launch in launches
        if launch.outcome is Outcome.MEASURED and launch.stage != "try" and launch.config not in barred
    ]


def _pooled(
    spec: StudySpec, launches: Sequence[LaunchRecord], memo: Memo, *, confirmed: bool
) -> Iterator[ConfigResult]:
    by_config: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        by_config.setdefault(launch.config.config_id, []).append(launch)
    for group in by_config.values():
        key = (int(confirmed), *(launch.number for launch in group))
        if key not in memo.results:
            mine = [
                replace(launch, phases=phases)
                for launch in group
                if (phases := tuple(one for one in launch.phases if is_confirmed(launch, one) is confirmed))
            ]
            memo.results[key] = _result(spec, mine) if mine else None
        if (result := memo.results[key]) is not None:
            yield result


def best_value(axis: Objective, values: Sequence[Estimate]) -> Estimate:
    """The best of several values of one objective, the first of equals."""
    return min(values, key=lambda value: badness(axis, value))


def badness(axis: Objective, value: Estimate) -> float:
    """Ranks values of an objective, the best lowest."""
    return value.value if axis.direction is Direction.MINIMIZE else -value.value


def _confirmed(fresh: ConfigResult, searched: ConfigResult | None) -> ConfigResult:
    """The fresh values, and those of the search at loads that were not confirmed."""
    if searched is None:
        return replace(fresh, confirmed=True, confirmed_loads=frozenset(fresh.loads))
    return replace(
        fresh,
        loads=dict(sorted({**searched.loads, **fresh.loads}.items())),
        launches=tuple(sorted({*searched.launches, *fresh.launches})),
        confirmed=True,
        notes=ordered((*searched.notes, *fresh.notes)),
        lossless=fresh.lossless or searched.lossless,
        searched=searched,
        confirmed_loads=frozenset(fresh.loads),
    )


def is_baseline_to_compare(launch: LaunchRecord) -> bool:
    """Whether a launch measured a baseline with the study's own arguments."""
    return (
        launch.outcome is Outcome.MEASURED and launch.stage not in ("try", "confirm") and not launch.config.speculates
    )


def barred_configs(launches: Sequence[LaunchRecord]) -> list[SpecConfig]:
    """Configs whose answers were garbage in some launch, in launch order: no speed makes up for that."""
    return list(dict.fromkeys(launch.config for launch in launches if launch.reason is Reason.BAD_OUTPUT))


def pareto_front(axes: Objectives, results: Iterable[ConfigResult]) -> list[ConfigResult]:
    """Those no other beats on both objectives, best at the first one first; of equal ones all.

    Those with lossy answers have no place there. Confirmed configs are compared with each other by their confirmed values; a confirmed one with
    one that is not, by what the search measured of both.
    """
    everything = [result for result in results if not result.lossy]
    searched = [result.searched or result for result in everything]
    before = {result.config for result in _undominated(axes, searched)}
    confirmed = [result for result in everything if result.confirmed]
    fresh = {result.config for result in _undominated(axes, confirmed)}
    others = [result for result in everything if not result.confirmed]
    front = [
        result
        for result in everything
        if (
            result.config in fresh
            and result.config in {one.config for one in _undominated(axes, [*others, result.searched or result])}
            if result.confirmed
            else result.config in before
        )
    ]
    return sorted(front, key=_order(axes))


def _order(axes: Objectives) -> Callable[[ConfigResult], tuple[Any, ...]]:
    """Best at the first objective first, then at the second, then the simplest."""
    return lambda result: (*map(badness, axes, result.values), simplicity(result.config))


def _undominated(axes: Objectives, results: Iterable[ConfigResult]) -> list[ConfigResult]:
    front: list[ConfigResult] = []
    last = (math.inf, math.inf)
    for result in sorted(results, key=_order(axes)):
        first, second = (badness(axis, value) for axis, value in zip(axes, result.values, strict=True))
        if second < last[1] or (first, second) == last:
            front.append(result)
            last = first, second
    return front


def ordered(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes without repeats, in the order of the closed list."""
    found = set(notes)
    return tuple(note for note in Note if note in found)


def _result(spec: StudySpec, launches: Sequence[LaunchRecord]) -> ConfigResult | None:
    """None without both objectives, as where a recorded table does not hold one."""
    phases: dict[int, list[PhaseResult]] = {}
    sources: dict[int, list[str]] = {}
    for launch in launches:
        for phase in launch.phases:
            phases.setdefault(phase.concurrency, []).append(phase)
            sources.setdefault(phase.concurrency, []).extend(_sources(launch, [phase]))
    loads = {load: _load(load, tuple(repeats), tuple(sources[load])) for load, repeats in sorted(phases.items())}
    first, second = (_objective(axis, loads.get(axis.concurrency), phases) for axis in spec.axes)
    if first is None or second is None:
        return None
    return ConfigResult(
        config=launches[0].config,
        loads=loads,
        values=(first, second),
        score=math.nan,
        launches=tuple(launch.number for launch in launches),
        confirmed=False,
        notes=ordered(
            [note for launch in launches for note in (*launch.notes, *_phase_notes(launch.phases))]
            + [note for load in loads.values() for note in load.notes]
        ),
        lossless=next((launch.lossless for launch in reversed(launches) if launch.lossless), ()),
    )


def _objective(axis: Objective, at: LoadResult | None, phases: Mapping[int, list[PhaseResult]]) -> Estimate | None:
    """The value of an objective; estimates that the load has already are not made again."""
    if at is None:
        return None
    if axis.metric is METRICS["tpot_ms"]:
        return at.tpot_ms
    if axis.metric is METRICS["output_tps"] and axis.concurrency > 1:
        return at.rate
    return metric_estimate(axis.metric, tuple(phases[axis.concurrency]))


@lru_cache(maxsize=8192)
def metric_estimate(metric: Metric, repeats: tuple[PhaseResult, ...]) -> Estimate | None:
    """A metric over repeats of one concurrency; None where no repeat holds it.

    Time per token and throughput have intervals from what is within a repeat; of the others repeats alone show it.
    """
    values = [value for repeat in repeats if (value := metric.of(repeat)) is not None]
    if not values:
        return None
    rng = _rng(repeats[0].concurrency)
    if metric is METRICS["tpot_ms"]:
        return tpot_estimate(repeats, rng=rng)
    if metric is METRICS["user_tps"]:
        return rate_of(tpot_estimate(repeats, rng=rng))
    if metric is METRICS["output_tps"]:
        return throughput_estimate(repeats, rng=rng)
    mean = mean_estimate(values, rng=rng)
    if metric.ceiling is None or mean.hi is None:
        return mean
    return replace(mean, hi=min(mean.hi, max(metric.ceiling, mean.value)))


def launch_load(launch: LaunchRecord, concurrency: int) -> LoadResult | None:
    """What one launch alone says at one concurrency; None without a phase there."""
    repeats = launch.repeats(concurrency)
    return _load(concurrency, repeats, _sources(launch, repeats)) if repeats else None


def launch_objective(axis: Objective, launch: LaunchRecord) -> Estimate | None:
    """What one launch alone says of an objective; None where it does not hold it."""
    load = axis.concurrency
    return _objective(axis, launch_load(launch, load), {load: list(launch.repeats(load))})


def _sources(launch: LaunchRecord, repeats: Iterable[PhaseResult]) -> tuple[str, ...]:
    return tuple(f"launch {launch.number}, repeat {repeat.repeat}" for repeat in repeats)


@lru_cache(maxsize=8192)
def _load(concurrency: int, repeats: tuple[PhaseResult, ...], sources: tuple[str, ...]) -> LoadResult:
    # Kept, because judging after every launch would bootstrap all earlier ones again.
    # One generator state per estimate, so that one more load does not move the others' intervals.
    tpot = tpot_estimate(repeats, rng=_rng(concurrency)) if any(r.tpot_ms is not None for r in repeats) else None
    rate = rate_of(tpot) if tpot and concurrency == 1 else throughput_estimate(repeats, rng=_rng(concurrency))
    first_tokens = [repeat.ttft_ms for repeat in repeats if repeat.ttft_ms is not None]
    accepts = [repeat.accept_length for repeat in repeats if repeat.accept_length is not None]
    return LoadResult(
        concurrency=concurrency,
        rate=rate,
        tpot_ms=tpot,
        ttft_ms=sum(first_tokens) / len(first_tokens) if first_tokens else None,
        accept_length=sum(accepts) / len(accepts) if accepts else None,
        notes=ordered([*_phase_notes(repeats), *repeat_notes(repeats)]),
        extrapolated=any(repeat.extrapolated for repeat in repeats),
        accept=accept_estimate(repeats),
        outliers=tuple(_outlier_words(concurrency, repeats, sources)),
        tails=_tails(repeats),
    )


def _outlier_words(concurrency: int, repeats: Sequence[PhaseResult], sources: Sequence[str]) -> Iterator[str]:
    rates = [rate_tps(repeat) for repeat in repeats]
    for found in outliers(rates):
        yield (
            f"{sources[found.place]} at C={concurrency} is {found.off:+.1%} off the median of {len(rates)} repeats "
            f"({found.value:.1f} tok/s)"
        )


_TAILS = (
    *("ttft_ms", "ttft_p50_ms", "ttft_p99_ms", "itl_ms", "itl_p99_ms", "e2e_ms", "e2e_p99_ms"),
    *("goodput", "goodput_rps"),
)


def _tails(repeats: Sequence[PhaseResult]) -> dict[str, Estimate]:
    """Mean over repeats and the range they span: two or three percentiles make no interval."""
    found = {}
    for name in _TAILS:
        values = [value for repeat in repeats if (value := getattr(repeat, name)) is not None]
        if values:
            mean = sum(values) / len(values)
            found[name] = Estimate(mean, min(values), max(values)) if len(values) > 1 else Estimate(mean)
    return found


def _phase_notes(phases: Iterable[PhaseResult]) -> tuple[Note, ...]:
    return ordered(note for phase in phases for note in phase.notes)


def _rng(concurrency: int) -> np.random.Generator:
    return np.random.default_rng((_SEED, concurrency))
