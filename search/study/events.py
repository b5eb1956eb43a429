"""What the loop reports to whoever watches: terminal, report files, tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

from search.analysis.findings import Judgement
from search.config import SpecConfig
from search.storage.records import LaunchRecord, Stage, StudyKind


class Ending(StrEnum):
    """Why the loop stopped, as its last line says it."""

    EXHAUSTED = "every valid config has been launched"
    SETTLED = "the next launch is not expected to grow the front by more than measuring it again would"
    LAUNCHES = "the launch budget is spent"
    HOURS = "the time budget is spent"
    INTERRUPTED = "interrupted"
    BREAKER = "stopped by the circuit breaker"


@dataclass(frozen=True, slots=True)
class RunStart:
    """The first thing said.

    Attributes:
        already: Launches this study has from earlier runs.
        budget_launches: Of the study's whole life, earlier ones included.
        expected_hours: For what is left of the budget; None when nothing is known yet.
        budget_hours: Of the study's whole life; None where nothing limits them.
    """

    study: str
    kind: StudyKind
    valid: int
    locked: int
    dropped: int
    already: int
    budget_launches: int
    expected_hours: float | None
    budget_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Launching:
    """A launch is about to start; `slot` is None where there is only one."""

    number: int
    of: int
    stage: Stage
    config: SpecConfig
    why: str
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Something inside a launch, told from the thread that carries it out.

    Attributes:
        launch: Its number.
        what: `ready`: its server is; `begins` and `ends`: a phase does.
        concurrency: Of the phase.
        repeat: Of the phase, from 1; 0 for a probe.
        tokens: That a phase which begins is to emit, its warm-up included.
        rate: Output tokens per second of a phase that ended.
    """

    launch: int
    what: Literal["ready", "begins", "ends"]
    concurrency: int = 0
    repeat: int = 0
    tokens: int = 0
    rate: float | None = None


Steps: TypeAlias = Callable[[Step], None]
"""Told of every step; called from any thread, and must not raise."""


def unheard(step: Step) -> None:
    """Nobody listens to steps."""


class Judgements:
    """What may be said after a launch, worked out for whoever asks, and once.

    Args:
        brief: Judges the baselines and this launch alone.
        whole: Judges all launches so far.
    """

    def __init__(self, brief: Callable[[], Judgement], whole: Callable[[], Judgement]) -> None:
        self._brief, self._whole = brief, whole

    @cached_property
    def brief(self) -> Judgement:
        """Of the baselines and this launch: all that a line about it needs, as cheap late in a study as early.

        Of baselines that tie, the line may be compared with another one than the report compares with.
        """
        return self._brief()

    @cached_property
    def whole(self) -> Judgement:
        """Of all launches; its price grows with the study."""
        return self._whole()


class Listener(Protocol):
    """Called from the loop's own thread; with several slots, launches end in another order than they start. Must not raise for what it merely displays."""

    def started(self, start: RunStart) -> None:
        """Before the first launch."""
        ...

    def launching(self, launch: Launching) -> None:
        """Before each launch."""
        ...

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """After each launch is stored, with judgements that include it."""
        ...

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """Once, after the last launch, also when interrupted."""
        ...
