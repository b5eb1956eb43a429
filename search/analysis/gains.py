"""Results with what the contests say of them: intervals, gains over the best baselines, scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from search.analysis.arenas import RATE, Arena, Key, key_of
from search.analysis.findings import ConfigResult, Gain, LoadResult
from search.config import SpecConfig, simplicity
from search.metrics import Direction
from search.spec.study import StudySpec
from search.stats.estimates import Estimate
from search.stats.questions import pooled


def with_gains(spec: StudySpec, result: ConfigResult, arenas: Mapping[Key, Arena]) -> ConfigResult:
    """A result with the intervals of its values, its gains over the best baselines and its score."""
    searched = None if result.searched is None else with_gains(spec, result.searched, arenas)
    loads = {load: _with_interval(result, at, arenas.get((RATE, load))) for load, at in result.loads.items()}
    first, second = (_value(spec, place, result, arenas) or before for place, before in enumerate(result.values))
    gains = {load: gain for load in loads if (gain := _gain(arenas.get((RATE, load)), result.config)) is not None}
    score = _score([_gain(arenas.get(key_of(axis)), result.config) for axis in spec.axes])
    return replace(
        result,
        loads=loads,
        values=(first, second),
        gains=gains,
        score=math.nan if score is None else score.value,
        score_ci=score,
        searched=searched,
    )


def by_score(results: Iterable[ConfigResult]) -> list[ConfigResult]:
    """The best score first, then the simplest; those with lossy answers after all others, however fast."""
    return sorted(results, key=lambda result: (result.lossy, -_number(result.score), simplicity(result.config)))


def _with_interval(result: ConfigResult, at: LoadResult, arena: Arena | None) -> LoadResult:
    if arena is None:
        return at  # nothing at this load has a rate above 0
    confirmed = _part(result, at.concurrency)
    rate = arena.rate(result.config, confirmed=confirmed)
    if rate is None:
        return at
    times = arena.value(result.config, confirmed=confirmed) if at.concurrency == 1 and at.tpot_ms else at.tpot_ms
    return replace(at, rate=rate, tpot_ms=times, band=arena.expects is not None and result.config in arena.extrapolated)


def _value(spec: StudySpec, place: int, result: ConfigResult, arenas: Mapping[Key, Arena]) -> Estimate | None:
    axis = spec.axes[place]
    arena, confirmed = arenas.get(key_of(axis)), _part(result, axis.concurrency)
    if arena is None:
        return None
    if arena.key[0] == RATE and axis.metric.direction is Direction.MAXIMIZE:
        return arena.rate(result.config, confirmed=confirmed)
    return arena.value(result.config, confirmed=confirmed)


def _part(result: ConfigResult, load: int) -> bool:
    """Whether a result's values at a load are confirmed ones."""
    return load in result.confirmed_loads


def _gain(arena: Arena | None, config: SpecConfig) -> Gain | None:
    return None if arena is None else arena.gain(config, arena.reference)


def _score(gains: Sequence[Gain | None]) -> Estimate | None:
    """Geometric mean of the gains at both objectives, with its interval; a baseline over itself is 1 for certain."""
    known = [gain for gain in gains if gain is not None]
    if len(known) < len(gains):
        return None
    score = math.sqrt(math.prod(gain.value for gain in known))
    comparisons = [gain.comparison for gain in known if gain.comparison is not None]
    if len(comparisons) == len(known) and (mean := pooled(comparisons)) is not None:
        return Estimate(mean.ratio, mean.lo, mean.hi)
    ends = [[gain.value if end is None else end for gain, end in pairs] for pairs in _ends(known)]
    lo, hi = (math.sqrt(math.prod(end)) for end in ends)
    return Estimate(score, lo, hi)


def _ends(gains: Sequence[Gain]) -> tuple[list[tuple[Gain, float | None]], list[tuple[Gain, float | None]]]:
    return [(gain, gain.lo) for gain in gains], [(gain, gain.hi) for gain in gains]


def _number(score: float) -> float:
    return 0.0 if math.isnan(score) else score
