"""What a person asks of a use case, whatever front it comes through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_STORAGE = "trials.db"
DEFAULT_REPORTS = Path("reports")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asked for; None leaves the study file's value.

    `here` is the folder that relative names are looked up in.
    """

    here: Path
    study: str | None = None
    simulate: bool = False
    replay: Path | None = None
    storage: str = DEFAULT_STORAGE
    reports: Path = DEFAULT_REPORTS
    launches: int | None = None
    hours: float | None = None
    seed: int | None = None
    sampler: str | None = None
    executor: str | None = None
    ray_address: str | None = None
    model: str | None = None
    draft: str | None = None
    accept_changes: bool = False
