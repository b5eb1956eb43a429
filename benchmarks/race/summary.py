"""Many races in few figures: by group of tables and entry, and by table, since bad worlds hide in pooled figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from benchmarks.race.scoring import TARGETS, Score


@dataclass(frozen=True, slots=True)
class Reach:
    """Launches, or minutes, to a target over many races.

    Attributes:
        median: Half of the races had arrived by then; None when fewer than half ever did.
        p90: Nine tenths had.
        missed: Share of the races that never arrived.
    """

    median: float | None
    p90: float | None
    missed: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and ninth decile."""

    median: float
    p90: float


@dataclass(frozen=True, slots=True)
class Summary:
    """One entry on one group of tables.

    Attributes:
        launches: By target.
        minutes: Of GPUs held, to the same targets.
        total_minutes: Mean over races, the whole budget.
        load_share: Of that, measuring.
        failed: Share of the launches that gave no measurement, gated ones aside.
        gated: Share of the launches that measured the latency alone.
        regret: By pick.
        share_at: Mean share of the hypervolume after each launch, and its standard deviation
            between seeds, each seed averaged over the tables.
        worlds: Median launches by table and target; None where fewer than half arrived.
        seconds: The sampler's own time per launch: mean and longest. Not deterministic.
    """

    group: str
    entry: str
    races: int
    launches: Mapping[float, Reach]
    minutes: Mapping[float, Reach]
    total_minutes: float
    load_share: float
    failed: float
    gated: float
    regret: Mapping[str, Spread]
    share_at: tuple[tuple[float, float], ...]
    worlds: Mapping[str, Mapping[float, float | None]]
    seconds: tuple[float, float]


def summarize(scores: Sequence[Score]) -> list[Summary]:
    """One summary for each group and entry, in order of first appearance."""
    keys = dict.fromkeys((score.group, score.entry) for score in scores)
    return [
        _summary(group, entry, [score for score in scores if (score.group, score.entry) == (group, entry)])
        for group, entry in keys
    ]


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    # 0.9 * 10 is a hair above 9 for some shares; a tenth of a race must not round up.
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def _summary(group: str, entry: str, scores: Sequence[Score]) -> Summary:
    launches = sum(len(score.asked) for score in scores)
    minutes = sum(score.minutes[-1] for score in scores)
    tables = dict.fromkeys(score.table for score in scores)
    picks = scores[0].regret
    return Summary(
        group=group,
        entry=entry,
        races=len(scores),
        launches={target: _reach(score.launches_to(target) for score in scores) for target in TARGETS},
        minutes={target: _reach(score.minutes_to(target) for score in scores) for target in TARGETS},
        total_minutes=minutes / len(scores),
        load_share=sum(score.load_minutes for score in scores) / minutes if minutes else 0.0,
        failed=sum(score.failed for score in scores) / launches,
        gated=sum(score.gated for score in scores) / launches,
        regret={
            pick: Spread(*(quantile((score.regret[pick] for score in scores), share) for share in (0.5, 0.9)))
            for pick in picks
        },
        share_at=_curve(scores),
        worlds={
            table: {
                target: _reach(score.launches_to(target) for score in scores if score.table == table).median
                for target in TARGETS
            }
            for table in tables
        },
        seconds=(fmean(score.seconds[0] for score in scores), max(score.seconds[1] for score in scores)),
    )


def _reach(found: Iterable[float | None]) -> Reach:
    values = [math.inf if value is None else value for value in found]
    median, p90 = (value if math.isfinite(value := quantile(values, share)) else None for share in (0.5, 0.9))
    return Reach(median, p90, sum(map(math.isinf, values)) / len(values))


def _curve(scores: Sequence[Score]) -> tuple[tuple[float, float], ...]:
    seeds = dict.fromkeys(score.seed for score in scores)
    by_seed = [[score for score in scores if score.seed == seed] for seed in seeds]
    curve: list[tuple[float, float]] = []
    for launches in range(1, scores[0].budget + 1):
        means = [fmean(score.share_at(launches) for score in some) for some in by_seed]
        curve.append((fmean(means), pstdev(means)))
    return tuple(curve)
