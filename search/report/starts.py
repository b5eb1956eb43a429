"""Starts and measurements in words: a start holds one measurement, or several."""

from __future__ import annotations

from collections.abc import Sequence

from search.report.text import counted, duration
from search.storage.records import LaunchRecord


def starts_words(launches: Sequence[LaunchRecord]) -> str:
    """`16 starts`; where starts were shared `11 starts with 16 measurements`."""
    starts = len({launch.start_number for launch in launches})
    text = counted(starts, "start")
    return text if starts == len(launches) else f"{text} with {counted(len(launches), 'measurement')}"


def starts_text(launches: Sequence[LaunchRecord]) -> str:
    """`18 starts in 6h22m`; a table that tells no times has only the count."""
    spent = sum(launch.duration_s or 0.0 for launch in launches)
    return starts_words(launches) + (f" in {duration(spent)}" if spent else "")


def are_shared(launches: Sequence[LaunchRecord]) -> bool:
    """Whether any start held more than one measurement."""
    return len({launch.start_number for launch in launches}) < len(launches)
