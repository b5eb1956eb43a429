"""One whole study of a row, by its number."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import optuna

from benchmarks.coverage.whole.claims import Claims, claims_of
from benchmarks.coverage.whole.levelled import levelled
from benchmarks.coverage.whole.memory import MemoryStore
from benchmarks.coverage.whole.tables import table
from benchmarks.coverage.whole.worlds import Row, World, shipped
from search.analysis.findings import Judgement
from search.app.recordings import spec_of_recording
from search.cluster import InlineExecutor
from search.contracts import Engine, VirtualClock
from search.engines import ReplayEngine
from search.space import Space
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.context import Overrides, Recorded, StudyContext, Watch
from search.study.events import Ending, Judgements, Launching, RunStart
from search.study.runner import run_study


def study_of(row: Row, number: int) -> Claims:
    """What study `number` of a row says; the same in any process."""
    spec, judgement, launches = judged(row, number)
    return claims_of(judgement, launches, world=row.world, spec=spec)


def judged(row: Row, number: int, store: Store | None = None) -> tuple[StudySpec, Judgement, Sequence[LaunchRecord]]:
    """The study itself: what was asked, what it said, what it launched.

    Args:
        row: Kind and world.
        number: Seeds all that is drawn.
        store: For its rows; without one they are kept in memory.
    """
    logging.disable(logging.WARNING)
    if row.kind == "simulated":
        spec, space = shipped()
        return _run(spec, space, levelled(row.world, number), number, store)
    return _replayed(row.world, number, store)


def _replayed(world: World, number: int, store: Store | None) -> tuple[StudySpec, Judgement, Sequence[LaunchRecord]]:
    recording = table(world, number)
    starts = {config: len(numbers) for config, numbers in recording.starts().items()}
    return _run(
        spec_of_recording(recording),
        Space.recorded(recording.space()),
        ReplayEngine(recording),
        number,
        store,
        Recorded(lambda config: starts.get(config, 0), recording.repeats_of_launch),
    )


def _run(
    spec: StudySpec, space: Space, engine: Engine, seed: int, store: Store | None, recorded: Recorded | None = None
) -> tuple[StudySpec, Judgement, Sequence[LaunchRecord]]:
    """Run by `run_study`, as a measured study: with probes, gates and a closing baseline; or as a replay."""
    end = _End()
    with TemporaryDirectory() as folder, InlineExecutor(engine) as executor, store or MemoryStore() as kept:
        run_study(
            StudyContext(
                spec=spec,
                name="whole",
                kind="replay" if recorded else "measured",
                space=space,
                fingerprint={},
                clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)),
                reports=Path(folder),
                recorded=recorded,
            ),
            executor=executor,
            store=kept,
            storage=optuna.storages.InMemoryStorage(),
            watch=Watch(end, lambda _: None),
            overrides=Overrides(seed=seed),
        )
        launches = kept.launches("whole")
    assert end.judgement is not None
    return spec, end.judgement, launches


class _End:
    """A listener that keeps the last judgement, and has none made before: judging when nobody looks costs time."""

    judgement: Judgement | None = None

    def started(self, start: RunStart) -> None:
        """Nothing."""

    def launching(self, launch: Launching) -> None:
        """Nothing."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """Nothing."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """The verdict."""
        self.judgement = judgement
