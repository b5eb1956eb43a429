"""Observations as rows of a linear system over log accept lengths and log cycle times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig
from search.model.observations import Observation, chain_survival

Floats: TypeAlias = NDArray[np.float64]

TYPICAL_NOISE = 0.015
"""Relative standard deviation of a mean over two repeats, where none is known."""
_NOISE_WORTH = 3.0
"""Repeats that this expectation counts for against the spread that was seen."""
MOST_ROWS = 400
"""Beyond so many rows accept lengths are left out: by then the times say enough, and the work grows with the cube."""
_ACCEPT_NOISE = 0.015
_EARLIER_TIMES = (0.12, 0.09)
"""An earlier study's times per token may be off by this much as a whole, and by this much each, at weight 1/2."""
_EARLIER_ACCEPTS = (0.08, 0.06)
"""The same of its accept lengths."""
_EARLIER_LOADS_ALIKE = 0.5
"""Correlation of what is off as a whole at one load with that at another."""


@dataclass(frozen=True)
class Rows:
    """One row per number: `value = accept * log a + cycle * log c + noise`.

    Attributes:
        config: Index of the config.
        load: Index of the load.
        accept: Coefficient of the log accept length.
        cycle: Coefficient of the log cycle time.
        value: What was seen.
        variance: Of the noise.
        off: How far an earlier study may be off as a whole, one standard deviation; 0 for this study's own.
        noise: By load, not by row: how far the mean over a launch's repeats lies from the truth, as a share
            of it, one standard deviation.
    """

    config: NDArray[np.int_]
    load: NDArray[np.int_]
    accept: Floats
    cycle: Floats
    value: Floats
    variance: Floats
    off: Floats
    noise: Floats

    def shared(self) -> Floats:
        """Covariance of what an earlier study is off by as a whole, its times apart from its accept lengths."""
        one_kind = (self.cycle[:, None] > 0) == (self.cycle[None, :] > 0)
        loads = np.where(self.load[:, None] == self.load[None, :], 1.0, _EARLIER_LOADS_ALIKE)
        return np.asarray(np.outer(self.off, self.off) * one_kind * loads)


def rows_of(observations: Sequence[Observation], index: Mapping[SpecConfig, int], loads: Sequence[int]) -> Rows:
    """Rows of all observations inside the space and at known loads."""
    inside = [item for item in observations if item.config in index and item.load in loads]
    noise = _noise(inside)
    chosen = [row for item in inside for row in _rows(item, noise[item.load], index, loads)]
    if len(chosen) > MOST_ROWS:
        chosen = [row for row in chosen if row[3]]
    columns = list(zip(*chosen, strict=True)) if chosen else [()] * 7
    return Rows(
        config=np.array(columns[0], dtype=int),
        load=np.array(columns[1], dtype=int),
        accept=np.array(columns[2], dtype=float),
        cycle=np.array(columns[3], dtype=float),
        value=np.array(columns[4], dtype=float),
        variance=np.array(columns[5], dtype=float),
        off=np.array(columns[6], dtype=float),
        noise=np.sqrt([noise.get(load, TYPICAL_NOISE**2) for load in loads]),
    )


def _noise(observations: Sequence[Observation]) -> dict[int, float]:
    """Variance that repeats show at each load, in the median, so that one outlier does not set it."""
    result = {}
    for load in {item.load for item in observations}:
        seen = [item.relative_sd**2 for item in observations if item.load == load and item.relative_sd is not None]
        typical = TYPICAL_NOISE**2
        # The median of a squared spread of two repeats is 0.455 of its mean.
        pooled = float(np.median(seen)) / 0.455 if seen else typical
        result[load] = (_NOISE_WORTH * typical + len(seen) * pooled) / (_NOISE_WORTH + len(seen))
    return result


def _rows(
    item: Observation, typical: float, index: Mapping[SpecConfig, int], loads: Sequence[int]
) -> Iterator[tuple[int, int, float, float, float, float, float]]:
    config, load = index[item.config], loads.index(item.load)
    variance = typical
    if item.relative_sd is not None:
        variance = (_NOISE_WORTH * typical + item.relative_sd**2) / (_NOISE_WORTH + 1.0)
    earlier = (1.0 - item.weight) / item.weight
    (times_off, times_each), (accepts_off, accepts_each) = (
        np.sqrt(earlier) * np.array(scales) for scales in (_EARLIER_TIMES, _EARLIER_ACCEPTS)
    )
    variance += float(times_each**2)
    speculates = float(item.config.speculates)
    if item.ms_per_token is not None:
        yield config, load, -speculates, 1.0, float(np.log(item.ms_per_token)), variance, float(times_off)
    if not item.config.speculates or item.accept_length is None:
        return
    accept_noise = _ACCEPT_NOISE**2 + float(accepts_each**2)
    yield config, load, 1.0, 0.0, float(np.log(item.accept_length)), accept_noise, float(accepts_off)
    if item.config.topk == 1:
        reached = chain_survival(item.histogram)
        for steps in range(1, min(len(reached), item.config.num_steps or 0)):
            shorter = SpecConfig(
                item.config.spec_version, 1, steps, steps + 1, item.config.allreduce_fusion, item.config.extra
            )
            if shorter in index:
                length = 1.0 + sum(reached[:steps])
                yield index[shorter], load, 1.0, 0.0, float(np.log(length)), 2.0 * accept_noise, float(accepts_off)
