"""One measured number with where it comes from: what scatter and comparisons are computed from.

A reading knows no metric: all readings that meet in one call are of one metric at one concurrency, in one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import NamedTuple

Block = tuple[str, str]
"""(slot, prompt set): what readings have to share before their difference is the configs' own."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One repeat of one measurement.

    Attributes:
        start: Number of the server start, unique within a study.
        value: Positive and finite, in whatever unit; others count for nothing and are left out everywhere.
        place: Of the measurement in its start, from 0: a start may hold several.
        repeat: Of the phase within the measurement.
        slot: The GPUs and host it ran on.
        prompt_set: What was sent, as `search` or `held-out`; values of different sets are never pooled.
        fresh: The start was made after its config had been picked, so its luck had no part in the choice.
        prompts: (Id, value) of every prompt, where known; their mean is `value` where all were sent equally often.
    """

    start: int
    value: float
    place: int = 0
    repeat: int = 0
    slot: str = ""
    prompt_set: str = ""
    fresh: bool = False
    prompts: tuple[tuple[str, float], ...] = ()

    @property
    def block(self) -> Block:
        """Slot and prompt set."""
        return self.slot, self.prompt_set


class Mean(NamedTuple):
    """The mean logarithm of the repeats of one measurement, or of the measurements of one start.

    Attributes:
        log_value: Mean of the logarithms.
        inverse: 1 / number of repeats, or what stands for it in a mean of unequal measurements.
        place: Mean place.
    """

    log_value: float
    inverse: float
    place: float = 0.0


def usable(readings: Iterable[Reading]) -> list[Reading]:
    """Those with a positive finite value."""
    return [reading for reading in readings if 0 < reading.value < inf]


def measurement_means(readings: Iterable[Reading]) -> dict[tuple[int, int], Mean]:
    """Mean of every measurement, by (start, place)."""
    groups: dict[tuple[int, int], list[float]] = {}
    for one in readings:
        groups.setdefault((one.start, one.place), []).append(one.value)
    return {key: Mean(sum(map(log, values)) / len(values), 1 / len(values), key[1]) for key, values in groups.items()}


def start_means(readings: Iterable[Reading]) -> dict[int, Mean]:
    """Mean of every start, in which each measurement counts alike."""
    measured = measurement_means(readings)
    alone = {start: mean for (start, _), mean in measured.items()}
    if len(alone) == len(measured):
        return alone
    groups: dict[int, list[Mean]] = {}
    for (start, _), mean in measured.items():
        groups.setdefault(start, []).append(mean)
    return {start: _mean_of(means) for start, means in groups.items()}


def by_block(readings: Iterable[Reading]) -> dict[Block, list[Reading]]:
    """Readings that may be pooled."""
    groups: dict[Block, list[Reading]] = {}
    for one in readings:
        groups.setdefault((one.slot, one.prompt_set), []).append(one)
    return groups


def only_fresh(readings: Sequence[Reading]) -> list[Reading]:
    """Usable readings from starts that were made after the choice; empty where there are none."""
    return [reading for reading in usable(readings) if reading.fresh]


Groups = Mapping[str, Sequence[Reading]]
"""Readings by config id."""


def _mean_of(means: Sequence[Mean]) -> Mean:
    if len(means) == 1:
        return means[0]
    count = len(means)
    return Mean(
        sum(mean.log_value for mean in means) / count,
        sum(mean.inverse for mean in means) / count**2,
        sum(mean.place for mean in means) / count,
    )
