"""Earlier tables against a study's own launches: their scale is matched, and one that does not hold is dropped.

Another host, release or draft makes everything faster or slower by some factor; what carries over is how configs
compare. So the paces of an earlier table are scaled, at each load, by what the configs measured in both say: its
baseline is the study's baseline. Until a config is shared a table counts for nothing. The configs that did not set the
scale then test it: where they lie further off than an earlier table may be, by chance less than once in a hundred, the
table is of another world, and the study goes on as if it had never been named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean

import numpy as np
from scipy.stats import chi2

from search.model.feasibility import Start
from search.model.observations import Observation

_OFF = 0.10
"""How far the advantage of a config over the baseline may differ between two studies, relative, one standard deviation."""
_CHANCE = 0.01
_FEWEST = 2
"""Numbers beyond those that set the scale, before a table is dropped."""


@dataclass(frozen=True)
class EarlierTable:
    """One recording as evidence.

    Attributes:
        name: Of the recording.
        observations: Numbers, with weights below 1, on their own scale.
        starts: What started there and what did not, likewise.
    """

    name: str
    observations: tuple[Observation, ...]
    starts: tuple[Start, ...] = ()


@dataclass(frozen=True)
class Matched:
    """What a table says to a study.

    Attributes:
        observations: On the study's scale; none before a config is shared, nor of a table that does not hold.
        starts: Of a table that was not dropped.
        refused: Why it is dropped; empty where it is not.
    """

    observations: tuple[Observation, ...] = ()
    starts: tuple[Start, ...] = ()
    refused: str = ""


def matched(table: EarlierTable, own: Sequence[Observation]) -> Matched:
    """The table on the scale of the study's own numbers.

    Args:
        table: Of an earlier study.
        own: What this study measured so far.
    """
    mine = {(item.config, item.load): item.pace_ms for item in own if item.ms_per_token is not None}
    # How many drafts are accepted has no scale.
    scaled = [item for item in table.observations if item.ms_per_token is None]
    off: list[float] = []
    for load in dict.fromkeys(item.load for item in table.observations):
        there = [item for item in table.observations if item.load == load and item.ms_per_token is not None]
        shared = [item for item in there if (item.config, load) in mine]
        if not shared:
            continue
        ratios = {item.config: log(mine[item.config, load] / item.pace_ms) for item in shared}
        plain = [ratio for config, ratio in ratios.items() if not config.speculates]
        shift = fmean(plain or ratios.values())
        kept = [ratio for config, ratio in ratios.items() if config.speculates or not plain]
        # Without a shared baseline the scale took one of their own.
        off += [ratio - shift for ratio in kept][0 if plain else 1 :]
        scaled += [replace(item, ms_per_token=item.pace_ms * float(np.exp(shift))) for item in there]
    if len(off) >= _FEWEST:
        chance = float(chi2.sf(sum(value**2 for value in off) / _OFF**2, len(off)))
        if chance < _CHANCE:
            typical = float(np.sqrt(np.mean(np.square(off))))
            return Matched(
                refused=f"earlier: recording {table.name} is dropped: {len(off)} of its numbers, scaled to this study, are "
                f"{typical:.0%} off what was measured here, which is no chance ({chance:.1g})"
            )
    return Matched(tuple(scaled), table.starts)
