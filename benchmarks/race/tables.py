"""A table to race on: a recording, and the true objectives of everything in it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from benchmarks.race.hypervolume import Point, front, hypervolume, point_of, reference_point
from search.app.recordings import spec_of_recording
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.engines.recording import Recording, Row, read_recording, result_of
from search.errors import UsageError
from search.metrics import loads_of, values_of
from search.space import Space
from search.spec.study import StudySpec

TRUTH = "truth.csv"
"""Beside a synthetic table: its objectives without noise, for scoring only."""


@dataclass(frozen=True)
class Table:
    """What one race is run on.

    Attributes:
        group: Which tables are summed up together, such as `worlds` or `heldout`.
        recording: What samplers see, launch by launch.
        truth: The true objectives of every config that can be launched; the judge's alone.
        rough: Made with heavy noise and roughness; has bars of its own.
    """

    group: str
    recording: Recording
    truth: Mapping[SpecConfig, Point]
    rough: bool = False

    def __post_init__(self) -> None:
        if self.baseline not in self.truth:
            raise UsageError(f"A race starts at the baseline, but {self.baseline} of `{self.name}` was never measured.")

    @property
    def name(self) -> str:
        """The recording's."""
        return self.recording.name

    @property
    def baseline(self) -> SpecConfig:
        """Launch 1."""
        return self.recording.baseline

    @cached_property
    def start(self) -> tuple[SpecConfig, ...]:
        """The launches every sampler begins with: the baseline, then the known configs of the table."""
        space = set(self.space.configs)
        known = [config for config in self.recording.known if config in space]
        return tuple(dict.fromkeys((self.baseline, *known)))

    @cached_property
    def space(self) -> Space:
        """Every config of the table, those that fail included."""
        return Space.recorded(self.recording.space())

    @cached_property
    def spec(self) -> StudySpec:
        """The study the table implies; names the two objective loads."""
        return spec_of_recording(self.recording)

    def dealt(self, seed: int) -> Recording:
        """The recording with the repeats of each phase in an order of the seed's own; in file order for seed 0.

        So races differ in the noise they meet, too, as far as a table holds more repeats than a launch measures.
        """
        if seed == 0:
            return self.recording
        dealt: dict[tuple[SpecConfig, int], Iterator[Row]] = {}
        for (config, load), rows in self.repeats.items():
            order = list(rows)
            Random(f"{seed}/{config}/{load}").shuffle(order)
            dealt[config, load] = iter(order)
        rows = tuple(
            next(dealt[row.config, row.concurrency]) if row.measured and row.concurrency is not None else row
            for row in self.recording.rows
        )
        return Recording(self.recording.meta, rows)

    @cached_property
    def repeats(self) -> Mapping[tuple[SpecConfig, int], tuple[Row, ...]]:
        """Measured rows by config and concurrency."""
        return self.recording.repeats()

    @cached_property
    def front(self) -> tuple[Point, ...]:
        """The true front."""
        return tuple(front(self.truth.values()))

    @cached_property
    def reference(self) -> Point:
        """Where the hypervolume is measured from."""
        return reference_point(self.truth[self.baseline], self.front)

    @cached_property
    def volume(self) -> float:
        """The hypervolume of the whole table."""
        return hypervolume(self.truth.values(), self.reference)

    def share(self, configs: Iterable[SpecConfig]) -> float:
        """The hypervolume of the true objectives of `configs` over that of the whole table; failed ones add nothing."""
        points = [self.truth[config] for config in configs if config in self.truth]
        return hypervolume(points, self.reference) / self.volume


def table_of(recording: Recording, *, group: str, rough: bool = False) -> Table:
    """A measured table: the mean over all its repeats stands in for the truth, which nobody knows.

    Raises:
        UsageError: Its baseline was never measured at both objectives.
    """
    axes = spec_of_recording(recording).axes
    repeats = recording.repeats()
    truth: dict[SpecConfig, Point] = {}
    for config in recording.space():
        rows = [row for load in loads_of(axes) for row in repeats.get((config, load), ())]
        if (values := values_of(axes, results_of(rows))) is not None:
            truth[config] = point_of(axes, values)
    return Table(group=group, recording=recording, truth=truth, rough=rough)


def read_table(folder: Path, *, group: str) -> Table:
    """A recording on disk, with its `truth.csv` where it has one.

    Raises:
        UsageError: A file is missing or malformed.
    """
    recording = read_recording(folder)
    source = folder / TRUTH
    if not source.exists():
        return table_of(recording, group=group)
    axes = spec_of_recording(recording).axes
    first, second = (axis.name for axis in axes)
    try:
        with source.open(encoding="utf-8", newline="") as file:
            truth = {
                SpecConfig.from_id(cells["config_id"]): point_of(axes, (float(cells[first]), float(cells[second])))
                for cells in csv.DictReader(file)
                if cells["feasible"] == "1"
            }
    except (KeyError, ValueError) as error:
        raise UsageError(f"{source}: each row holds config_id, feasible, {first}, {second}: {error}.") from error
    return Table(group=group, recording=recording, truth=truth, rough=bool(recording.meta.get("rough")))


def results_of(rows: Sequence[Row]) -> list[PhaseResult]:
    """Measured rows as results, for what objectives are computed from."""
    return [result_of(row, repeat=place, requests=0, computed=False) for place, row in enumerate(rows, 1)]
