"""The parts of one run, and what every engine puts together in the same way."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from search.app.options import RunOptions
from search.app.serving import check_serving
from search.cluster import Executor, InlineExecutor
from search.contracts import Clock, Engine, RealClock, VirtualClock
from search.dialects import Dialect
from search.errors import UsageError
from search.preflight.checkpoint_facts import knowing
from search.space import Space
from search.spec.escalation import SUFFIX
from search.spec.file import find_study, load_study
from search.spec.fingerprint import study_name
from search.spec.study import StudySpec
from search.storage.records import StudyKind
from search.study.context import Recorded
from search.study.sharing import NO_SHARING, Sharing

RawWords = tuple[str, ...] | None
"""Words that a real server gets in place of a config's own, exactly."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one run, nothing started yet.

    Attributes:
        name: The stored study name.
        folder: `reports/<name>`.
        fingerprint: What must not change over the study's life.
        clock: Virtual unless measured.
        open_executor: Takes the GPUs (or none), and starts Ray where asked.
        dialect: None for a recording, which launches nothing.
        recorded: How many repeats each recorded launch holds, of a study's own recording.
        remarks: What the installed SGLang says about the plan without refusing it, a line each.
        sharing: Which configs may share a start.
    """

    spec: StudySpec
    kind: StudyKind
    name: str
    space: Space
    fingerprint: Mapping[str, str]
    clock: Clock
    folder: Path
    open_executor: Callable[[], Executor]
    dialect: Dialect | None
    recorded: Recorded | None = None
    remarks: tuple[str, ...] = ()
    sharing: Sharing = NO_SHARING


def read_spec(options: RunOptions) -> StudySpec:
    """The study file with the command line's models and seed applied.

    Raises:
        UsageError: There is no such study, or its file is wrong.
    """
    spec = _named(options.study or "", options.here)
    spec = knowing(spec.with_models(target=options.model, draft=options.draft), os.environ)
    return spec if options.seed is None else spec.model_copy(update={"seed": options.seed})


def _named(name: str, here: Path) -> StudySpec:
    """The study of a name; `NAME.escalation` is the second phase that its file names."""
    base = name.removesuffix(SUFFIX)
    try:
        path = find_study(name, here=here)
    except UsageError:
        if base == name:
            raise
        first = load_study(find_study(base, here=here))
        if first.escalation is None:
            raise UsageError(
                f"{name!r} is the second phase of study {base!r}, but its file has no `escalation`. Write one, or run {base!r}."
            ) from None
        return first.escalated()
    return load_study(path)


def assembly_of(
    options: RunOptions,
    spec: StudySpec,
    *,
    kind: StudyKind,
    space: Space,
    facts: Mapping[str, str],
    open_executor: Callable[[], Executor],
    dialect: Dialect | None,
    name: str | None = None,
) -> Assembly:
    """The parts of one run, with the stored name, the clock and the folder that its kind has.

    Args:
        options: The command line.
        spec: The study file.
        kind: What stands behind the numbers; decides name and clock.
        space: What may be launched.
        facts: What must not change over the study's life.
        open_executor: Takes the GPUs, or none.
        dialect: Of the release; None where nothing is launched.
        name: In place of the study file's.

    Raises:
        UsageError: The study's `serving:` is wrong for the release.
    """
    if dialect is not None:
        check_serving(spec, dialect)
    stored = study_name(name or spec.study, kind)
    return Assembly(
        spec=spec,
        kind=kind,
        name=stored,
        space=space,
        fingerprint=facts,
        clock=RealClock() if kind == "measured" else VirtualClock(datetime.now(UTC)),
        folder=options.reports / stored,
        open_executor=open_executor,
        dialect=dialect,
    )


def virtual_executor(options: RunOptions, make: Callable[[], Engine]) -> Callable[[], Executor]:
    """In this process unless `--executor ray`: a computed launch needs no GPU."""

    def open_executor() -> Executor:
        if options.executor != "ray":
            return InlineExecutor(make())
        from search.cluster import RayExecutor

        return RayExecutor(make, address=options.ray_address)

    return open_executor
