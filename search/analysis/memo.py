"""What judging again and again keeps between its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from search.analysis.findings import ConfigResult
from search.stats.readings import Reading

Source: TypeAlias = tuple[tuple[str, int], Reading]
"""Metric and concurrency of a reading, and the reading."""


@dataclass(slots=True)
class Memo:
    """Of one study, kept by who judges it after every launch; with it a judgement is the same as without.

    Attributes:
        results: Without scores, by whether they are confirmed and the numbers of their launches.
        readings: By number of the launch.
    """

    results: dict[tuple[int, ...], ConfigResult | None] = field(default_factory=dict)
    readings: dict[int, tuple[Source, ...]] = field(default_factory=dict)
