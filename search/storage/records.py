"""Rows of our tables as values; the contract between storage and everything above it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from search.config import SpecConfig
from search.contracts import EffectiveSettings, PhaseResult
from search.outcomes import Blame, Evidence, Note, Outcome, Reason
from search.stats.losslessness import OutputCheck

StudyKind: TypeAlias = Literal["measured", "simulated", "replay"]
Stage: TypeAlias = Literal["baseline", "known", "search", "confirm", "ladder", "closing", "try"]
"""In the order of a study; `try` is outside of it. `closing` is the baseline once more, at the end."""


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """One study as stored.

    Attributes:
        name: `kimi-k25`, `kimi-k25.simulated`, `NAME.replay`: kinds never share a study.
        spec: The study file as JSON-able data, so that a report needs the database alone.
        fingerprint: What must be equal for two measurements to be compared, flat, by name.
        notes: What people must know besides its launches, oldest first, such as a change of the
            environment that they accepted.
    """

    name: str
    kind: StudyKind
    spec: Mapping[str, object]
    fingerprint: Mapping[str, str]
    created_at: datetime
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """What the sampler believed of a config when it was chosen, before its server started.

    Attributes:
        first: The value of the first objective, in its unit: its 5%, 50% and 95% quantiles.
        second: The same of the second objective.
        feasible: Probability that it starts.
        enters_front: Probability that it starts and nothing measured by then is better at both.
        gain: Expected growth of the front's hypervolume, as a share of it.
    """

    first: tuple[float, float, float]
    second: tuple[float, float, float]
    feasible: float
    enters_front: float
    gain: float


_BEFORE_THE_SERVER = frozenset({Reason.TOOL_ERROR, Reason.STORAGE_FAULT, Reason.HOST_BUSY, Reason.PORT_BUSY})


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One measurement of a config in a server start, and what came of it.

    A start holds one measurement or several; those after the first are reached by a switch of shape.

    Attributes:
        number: From 1, in launch order, over the study's whole life.
        trial: Optuna trial number; None for `try` and other launches outside the search.
        asked: The config that was asked for.
        config: The config that ran; differs from `asked` with the note EFFECTIVE_DIFFERS.
        reason: Why there is no measurement; None when there is one.
        boot_s: None when the server never became ready, and for measurements after the first of a start.
        start: Number of the record whose launch started the server; None for a start of its own (older rows, too).
        place: Place among the measurements of its start, from 0.
        switch_s: Seconds that the switch to this config took, its probe included; None where there was none.
        duration_s: From the start of the launch to the proof of its stop.
        why: One line: why this config was launched.
        expected: Of its numbers, before; None where nothing was, as for a baseline.
        folder: `launches/NNNN-<config id>`, relative to the study's report folder.
        lossless: How its answers compare with the baseline's, one per objective concurrency; empty
            for a baseline and where no answers are recorded.
        phases: With the study's own prompts: what is searched, compared and recorded.
        beside: With its further workloads, whose numbers compare with their own kind alone.
    """

    number: int
    stage: Stage
    asked: SpecConfig
    config: SpecConfig
    started_at: datetime
    trial: int | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    evidence: Evidence | None = None
    notes: tuple[Note, ...] = ()
    boot_s: float | None = None
    duration_s: float | None = None
    why: str = ""
    folder: str = ""
    slot: int = 0
    effective: EffectiveSettings | None = None
    phases: tuple[PhaseResult, ...] = field(default=())
    beside: tuple[PhaseResult, ...] = field(default=())
    lossless: tuple[OutputCheck, ...] = ()
    expected: Expected | None = None
    start: int | None = None
    place: int = 0
    switch_s: float | None = None

    @property
    def start_number(self) -> int:
        """The start it was measured in: numbers are equal for measurements of one server process."""
        return self.number if self.start is None else self.start

    @property
    def blame(self) -> Blame | None:
        """Who has to change; None for a measurement."""
        return self.reason.blame if self.reason else None

    @property
    def started_server(self) -> bool:
        """Whether a server was started, or may have been; a launch that started none costs no budget.

        Such a launch was lost to what can strike before the server is there, and has no log to read, no
        exit code, and nothing that a server printed.
        """
        if self.reason not in _BEFORE_THE_SERVER or self.boot_s is not None or self.effective or self.phases:
            return True
        return self.evidence is not None and bool(self.evidence.log_path or self.evidence.exit_code is not None)

    def repeats(self, concurrency: int) -> tuple[PhaseResult, ...]:
        """All repeats at one concurrency, in order."""
        return tuple(phase for phase in self.phases if phase.concurrency == concurrency)
