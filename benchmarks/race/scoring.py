"""What one race is worth: shares of the hypervolume, time, failures, and how good the reported picks are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from benchmarks.race.contest import Course, load_minutes, minutes
from benchmarks.race.hypervolume import Point, front, point_of
from benchmarks.race.tables import Table, results_of
from search.config import SpecConfig
from search.engines.recording import Row
from search.metrics import loads_of, values_of
from search.outcomes import Outcome
from search.storage.records import LaunchRecord
from search.study.trials import objective_values

TARGETS = (0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one race.

    Attributes:
        table: Its name.
        group: Its group.
        entry: The sampler, with its options.
        shares: Of the true hypervolume, after each launch; gated and failed launches add nothing.
        minutes: Of GPUs held, up to and with each launch.
        load_minutes: Of that, measuring, over the race.
        failed: Launches without a measurement, gated ones aside.
        gated: Launches that measured the first objective alone.
        regret: Per reported pick, by how much it is truly worse than the best of the table.
        asked: The config ids, in launch order.
        seconds: The sampler's own time per launch: mean and longest. Not deterministic.
    """

    table: str
    group: str
    rough: bool
    entry: str
    seed: int
    budget: int
    shares: tuple[float, ...]
    minutes: tuple[float, ...]
    load_minutes: float
    failed: int
    gated: int
    regret: Mapping[str, float]
    asked: tuple[str, ...]
    seconds: tuple[float, float]

    def launches_to(self, target: float) -> int | None:
        """Launches until the share was reached; None when it was not."""
        return next((place for place, share in enumerate(self.shares, 1) if share >= target), None)

    def minutes_to(self, target: float) -> float | None:
        """Minutes until the share was reached; None when it was not."""
        place = self.launches_to(target)
        return None if place is None else self.minutes[place - 1]

    def share_at(self, launches: int) -> float:
        """The share after so many launches; a race that ended early keeps its last."""
        return self.shares[min(launches, len(self.shares)) - 1]


def score(table: Table, course: Course, *, entry: str, seed: int, budget: int) -> Score:
    """Judge a race by the truth of its table."""
    measured = [launch.config if launch.outcome is Outcome.MEASURED else None for launch in course.launches]
    shares: list[float] = []
    have: list[SpecConfig] = []
    for config in measured:
        have += [config] if config is not None else []
        shares.append(table.share(have))
    return Score(
        table=table.name,
        group=table.group,
        rough=table.rough,
        entry=entry,
        seed=seed,
        budget=budget,
        shares=tuple(shares),
        minutes=tuple(accumulate(map(minutes, course.launches))),
        load_minutes=sum(map(load_minutes, course.launches)),
        failed=sum(launch.reason is not None for launch in course.launches),
        gated=sum(launch.outcome is Outcome.GATED for launch in course.launches),
        regret=regret(table, course.launches, seed=seed),
        asked=tuple(launch.config.config_id for launch in course.launches),
        seconds=(fmean(course.seconds), max(course.seconds)) if course.seconds else (0.0, 0.0),
    )


def regret(table: Table, launches: Sequence[LaunchRecord], *, seed: int) -> dict[str, float]:
    """How much is lost by believing the race, as shares.

    Everything on the measured front is measured once more, with repeats the race has not seen where
    the table has any. The picks are the lowest latency, the highest throughput and the best of both
    speed-ups multiplied, by those fresh values; what each truly loses against the best of the table
    is its regret. `front` is the share of the hypervolume that the whole reported front lacks.
    """
    seen = {
        launch.config: point_of(table.spec.axes, values)
        for launch in launches
        if launch.outcome is Outcome.MEASURED
        and launch.config in table.truth
        and (values := objective_values(launch, table.spec)) is not None
    }
    best = front(seen.values())
    repeats = table.dealt(seed).repeats()
    fresh = {config: _measured_again(table, repeats, config) for config, point in seen.items() if point in best}
    truth = table.truth
    if not fresh:
        return {"latency": math.nan, "throughput": math.nan, "both": math.nan, "front": 1.0}
    fastest = min(fresh, key=lambda config: fresh[config][0])
    widest = max(fresh, key=lambda config: fresh[config][1])
    both = max(fresh, key=lambda config: _both(fresh[config]))
    kept = front(fresh.values())
    return {
        "latency": truth[fastest][0] / min(point[0] for point in truth.values()) - 1.0,
        "throughput": 1.0 - truth[widest][1] / max(point[1] for point in truth.values()),
        "both": 1.0 - _both(truth[both]) / max(map(_both, truth.values())),
        "front": 1.0 - table.share(config for config, point in fresh.items() if point in kept),
    }


def _both(point: Point) -> float:
    """Geometric mean of both speeds, up to a factor that cancels."""
    return math.sqrt(point[1] / point[0])


def _measured_again(table: Table, repeats: Mapping[tuple[SpecConfig, int], Sequence[Row]], config: SpecConfig) -> Point:
    """Means over the repeats the race has not used, or over all where it has used them all."""
    spec, axes = table.spec, table.spec.axes

    def unused(load: int) -> Sequence[Row]:
        rows = repeats[config, load]
        return rows[spec.measure.repeats :] or rows

    values = values_of(axes, results_of([row for load in loads_of(axes) for row in unused(load)]))
    assert values is not None, "what is on the measured front was measured"
    return point_of(axes, values)
