"""Starts and measurements in words: a start holds one measurement, or several."""

from __future__ import annotations

from collections.abc import Sequence

from search.report.text import counted
from search.storage.records import LaunchRecord


def starts_words(launches: Sequence[LaunchRecord]) -> str:
    """`16 starts`; where starts were shared `11 starts with 16 measurements`."""
    starts = len({launch.start_number for launch in launches})
    text = counted(starts, "start")
    return text if starts == len(launches) else f"{text} with {counted(len(launches), 'measurement')}"


def are_shared(launches: Sequence[LaunchRecord]) -> bool:
    """Whether any start held more than one measurement."""
    return len({launch.start_number for launch in launches}) < len(launches)
