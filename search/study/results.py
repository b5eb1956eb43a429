"""From launches to one result per config: estimates pooled per load, score, front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from search.config import simplicity
from search.contracts import PhaseResult
from search.load import Estimate, throughput_estimate, tpot_estimate
from search.outcomes import Note, Outcome
from search.storage import LaunchRecord
from search.study.judgement import ConfigResult, LoadResult
from search.study.spec import StudySpec

_SEED = 20240501
"""Of every bootstrap: equal launches give equal judgements, in whatever order configs come."""


def config_results(spec: StudySpec, launches: Sequence[LaunchRecord]) -> list[ConfigResult]:
    """All configs with both objectives measured, best score first; scores are nan without a baseline."""
    by_config: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        # A launch tried by hand may carry any arguments: it answers its own question only.
        if launch.outcome is Outcome.MEASURED and launch.stage != "try":
            by_config.setdefault(launch.config.config_id, []).append(launch)
    results = [result for group in by_config.values() if (result := _result(spec, group)) is not None]
    baselines = [result for result in results if not result.config.speculates]
    if baselines:
        tpot = min(result.latency.value for result in baselines)
        tps = max(result.throughput.value for result in baselines)
        results = [
            replace(result, score=math.sqrt(tpot / result.latency.value * result.throughput.value / tps))
            for result in results
        ]
    return sorted(results, key=lambda result: (-_number(result.score), simplicity(result.config)))


def pareto_front(results: Iterable[ConfigResult]) -> list[ConfigResult]:
    """Those no other beats on both objectives, lowest latency first."""
    front: list[ConfigResult] = []
    best = -math.inf
    for result in sorted(results, key=lambda r: (r.latency.value, -r.throughput.value, simplicity(r.config))):
        if result.throughput.value > best:
            front.append(result)
            best = result.throughput.value
    return front


def ordered(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes without repeats, in the order of the closed list."""
    found = set(notes)
    return tuple(note for note in Note if note in found)


def _result(spec: StudySpec, launches: Sequence[LaunchRecord]) -> ConfigResult | None:
    """None where a recorded table does not tell the time per token at the latency load."""
    phases: dict[int, list[PhaseResult]] = {}
    for launch in launches:
        for phase in launch.phases:
            phases.setdefault(phase.concurrency, []).append(phase)
    loads = {concurrency: _load(concurrency, tuple(repeats)) for concurrency, repeats in sorted(phases.items())}
    latency = loads[spec.objectives.latency].tpot_ms
    if latency is None:
        return None
    return ConfigResult(
        config=launches[0].config,
        loads=loads,
        latency=latency,
        throughput=loads[spec.objectives.throughput].rate,
        score=math.nan,
        launches=tuple(launch.number for launch in launches),
        confirmed=False,
        notes=ordered(note for launch in launches for note in (*launch.notes, *_phase_notes(launch.phases))),
    )


@lru_cache(maxsize=8192)
def _load(concurrency: int, repeats: tuple[PhaseResult, ...]) -> LoadResult:
    # Kept, because judging after every launch would bootstrap all earlier ones again.
    # One generator state per estimate, so that one more load does not move the others' intervals.
    tpot = tpot_estimate(repeats, rng=_rng(concurrency)) if any(r.tpot_ms is not None for r in repeats) else None
    rate = _rate_of(tpot) if tpot and concurrency == 1 else throughput_estimate(repeats, rng=_rng(concurrency))
    first_tokens = [repeat.ttft_ms for repeat in repeats if repeat.ttft_ms is not None]
    accepts = [repeat.accept_length for repeat in repeats if repeat.accept_length is not None]
    return LoadResult(
        concurrency=concurrency,
        rate=rate,
        tpot_ms=tpot,
        ttft_ms=sum(first_tokens) / len(first_tokens) if first_tokens else None,
        accept_length=sum(accepts) / len(accepts) if accepts else None,
        notes=_phase_notes(repeats),
        extrapolated=any(repeat.extrapolated for repeat in repeats),
    )


def _rate_of(tpot: Estimate) -> Estimate:
    """Tokens per second of one stream; the ends of the interval change places."""
    return Estimate(
        1000 / tpot.value,
        1000 / tpot.hi if tpot.hi else None,
        1000 / tpot.lo if tpot.lo else None,
    )


def _phase_notes(phases: Iterable[PhaseResult]) -> tuple[Note, ...]:
    return ordered(note for phase in phases for note in phase.notes)


def _rng(concurrency: int) -> np.random.Generator:
    return np.random.default_rng((_SEED, concurrency))


def _number(score: float) -> float:
    return 0.0 if math.isnan(score) else score
