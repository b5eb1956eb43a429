"""What a run of a study is given, in three frozen values: the study, what the command line wants otherwise, who listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from search.config import SpecConfig
from search.contracts import Clock
from search.space import Space
from search.spec.study import StudySpec
from search.storage.records import StudyKind
from search.study.events import Listener, Steps, unheard
from search.study.sharing import NO_SHARING, Sharing


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the recording of a replay holds.

    Attributes:
        starts: Of a config: how many of its recorded starts were measured.
        repeats: Of a config, a concurrency and how often it was launched before: how many repeats the recorded start
            holds that comes next. None for a table that no study wrote: it may hold any number for its own reasons.
    """

    starts: Callable[[SpecConfig], int]
    repeats: Callable[[SpecConfig, int, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyContext:
    """One study, and where and when it is run.

    Attributes:
        spec: The study file, command line applied.
        name: The stored name, see `study_name`.
        kind: How its numbers come about.
        space: Its valid configs.
        fingerprint: What must not change over the study's life, see `fingerprint`.
        clock: Virtual in simulation.
        reports: The study's own report folder.
        resume_command: What the user types to go on after an interrupt.
        recorded: Of a replay.
        sharing: Which of its configs may share a start; nothing by default.
    """

    spec: StudySpec
    name: str
    kind: StudyKind
    space: Space
    fingerprint: Mapping[str, str]
    clock: Clock
    reports: Path
    resume_command: str = ""
    recorded: Recorded | None = None
    sharing: Sharing = NO_SHARING


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """What the command line wants otherwise than the study file, which holds where it is None.

    Attributes:
        launches: Measurements of the study's whole life; a start holds one, or several.
        hours: Of launches, over the study's whole life.
        seed: Of the sampler.
        sampler: Its name.
    """

    launches: int | None = None
    hours: float | None = None
    seed: int | None = None
    sampler: str | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who hears what happens.

    Attributes:
        listener: Of launches and the end.
        notice: Gets one line when something happens that is no launch, such as a quarantined slot.
        step: Gets what happens inside launches, from their threads.
    """

    listener: Listener
    notice: Callable[[str], None] = logging.getLogger(__name__).warning
    step: Steps = unheard
