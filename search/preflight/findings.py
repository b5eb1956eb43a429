"""What a check found: a level, a sentence, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """`ok`; `warning`: a run may start, a person should know; `error`: a run would not start or would mislead."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor.

    Attributes:
        check: Short name of the check, such as `target weights`.
        says: What was found, with its numbers.
        way_out: What to do about it; empty for `ok`.
    """

    check: str
    level: Level
    says: str
    way_out: str = ""


def fine(check: str, says: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, says)


def warning(check: str, says: str, way_out: str) -> Finding:
    """A person should know."""
    return Finding(check, Level.WARNING, says, way_out)


def error(check: str, says: str, way_out: str) -> Finding:
    """The study would not start, or not measure what it says."""
    return Finding(check, Level.ERROR, says, way_out)
