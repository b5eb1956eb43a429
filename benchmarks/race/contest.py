"""One race: one sampler, one table, so many launches.

A lean form of the study loop: no database, no reports, no retries, one slot. Launches come from
the product's own replay engine, and Optuna's ask and tell are called by the product's own `Trials`, so a
sampler meets here exactly what it meets in a study.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, PhaseResult, Slot
from search.engines import ReplayEngine
from search.errors import LaunchFailed
from search.outcomes import Outcome
from search.storage.records import LaunchRecord, Stage

START = datetime(2026, 1, 1, tzinfo=UTC)


class Entrant(Protocol):
    """A sampler in a race; made anew for each."""

    def ask(self, fixed: SpecConfig | None) -> SpecConfig | None:
        """Open the next launch.

        Args:
            fixed: What the rules prescribe, as for the baseline and the known configs.

        Returns:
            The config to launch: `fixed` where it is given. None ends the race.
        """
        ...

    def skips(self, config: SpecConfig, low: Sequence[PhaseResult]) -> bool:
        """Whether the throughput phase of the open launch is not worth its time, after the latency phase."""
        ...

    def tell(self, launch: LaunchRecord) -> None:
        """How the open launch ended."""
        ...


@dataclass(frozen=True, slots=True)
class Course:
    """A race that was run.

    Attributes:
        launches: In order; at most the budget, fewer when the sampler or the table ended.
        seconds: What the sampler took for each launch, asking and telling.
    """

    launches: tuple[LaunchRecord, ...]
    seconds: tuple[float, ...]


def run_course(table: Table, entrant: Entrant, *, budget: int, seed: int, knows_known: bool = True) -> Course:
    """Race once.

    Args:
        table: What is launched.
        entrant: Fresh.
        budget: Launches, failed and gated ones included.
        seed: Deals the recorded repeats; the entrant has its own already.
        knows_known: Whether it begins with the known configs, or with the baseline alone.
    """
    start = list(table.start if knows_known else table.start[:1])
    engine = ReplayEngine(table.dealt(seed))
    launches: list[LaunchRecord] = []
    seconds: list[float] = []
    while len(launches) < budget and len(launches) < len(table.space.configs):
        begun = time.perf_counter()
        fixed = start.pop(0) if start else None
        config = entrant.ask(fixed)
        spent = time.perf_counter() - begun
        if config is None:
            break
        stage: Stage = "search" if fixed is None else "known" if launches else "baseline"
        launch, thinking = launched(table, engine, entrant, config, number=len(launches) + 1, stage=stage)
        begun = time.perf_counter()
        entrant.tell(launch)
        seconds.append(spent + thinking + time.perf_counter() - begun)
        launches.append(launch)
    return Course(tuple(launches), tuple(seconds))


def minutes(launch: LaunchRecord) -> float:
    """How long the launch held its GPUs: boot and phases, as recorded."""
    return (launch.duration_s or 0.0) / 60.0


def load_minutes(launch: LaunchRecord) -> float:
    """How much of it was measuring."""
    return sum(phase.duration_s or 0.0 for phase in launch.phases) / 60.0


def launched(
    table: Table, engine: ReplayEngine, entrant: Entrant, config: SpecConfig, *, number: int, stage: Stage
) -> tuple[LaunchRecord, float]:
    """The launch, and the seconds its sampler thought about skipping a phase.

    Args:
        table: What is launched.
        engine: Over its recording, dealt.
        entrant: Asked whether the second phase is worth its time.
        config: What it asked for.
        number: Of the launch, from 1.
        stage: Of a study that would ask for it.
    """
    spec, thinking = table.spec, 0.0
    phases: list[PhaseResult] = []
    outcome, reason, evidence, boot_s, spent_s = Outcome.MEASURED, None, None, None, 0.0
    try:
        with engine.launch(config, slot=Slot(0), paths=LaunchPaths(Path(f"{number:04d}"))) as session:
            boot_s = spent_s = session.boot_s
            for load in spec.objective_loads:
                if load != spec.axes[0].concurrency:
                    begun = time.perf_counter()
                    skipped = entrant.skips(config, tuple(phases))
                    thinking = time.perf_counter() - begun
                    if skipped:
                        outcome = Outcome.GATED
                        break
                phase = Phase(load, requests=load, output_tokens=spec.measure.output_tokens)
                phases += [session.measure(phase, repeat) for repeat in range(1, spec.measure.repeats + 1)]
    except LaunchFailed as error:
        outcome, reason, evidence = error.reason.outcome, error.reason, error.evidence
        spent_s += error.spent_s
    record = LaunchRecord(
        number=number,
        stage=stage,
        asked=config,
        config=config,
        started_at=START,
        outcome=outcome,
        reason=reason,
        evidence=evidence,
        boot_s=boot_s,
        duration_s=spent_s + sum(phase.duration_s or 0.0 for phase in phases),
        phases=tuple(phases),
    )
    return record, thinking
