"""Whose fault a failed start is, once more than one launch shows it.

One log of a crash that no phrase knows says neither "this config" nor "this host". Two starts that die alike are no
accident, and a sibling shows the rest: where another config started on the same model, flags and host, this config is to
blame, and where none did, what all launches share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from search.outcomes import Outcome, Reason
from search.server.alike import same_cause
from search.storage.records import LaunchRecord

UNSETTLED: Final = frozenset({Reason.START_CRASH, Reason.CUDA_FAULT, Reason.UNKNOWN})
"""What one launch leaves open: an accident, this config, or everything."""


def failed_at_start(launch: LaunchRecord) -> bool:
    """Whether its own server died before it served; under load, or in a start for several, the same words mean something else."""
    at_start = launch.boot_s is None and not launch.phases and launch.start is None
    return launch.reason is not None and launch.outcome is not Outcome.INTERRUPTED and at_start


def failed_beside(launch: LaunchRecord) -> bool:
    """Whether it failed in a start made for several configs, which says nothing of the config by itself."""
    return launch.start is not None and launch.reason is not None and launch.outcome is not Outcome.INTERRUPTED


def started(launch: LaunchRecord) -> bool:
    """Whether its server came up, whatever became of it then."""
    return launch.boot_s is not None or bool(launch.phases) or launch.outcome is Outcome.MEASURED


def alike(record: LaunchRecord, launches: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """Other launches whose servers died of the same cause while starting, nobody known to blame."""
    if record.reason not in {*UNSETTLED, Reason.DETERMINISTIC_CRASH} or not failed_at_start(record):
        return []
    return [
        launch
        for launch in launches
        if launch.number != record.number
        and launch.reason in {*UNSETTLED, Reason.DETERMINISTIC_CRASH}
        and failed_at_start(launch)
        and launch.evidence is not None
        and record.evidence is not None
        and same_cause(launch.evidence, record.evidence)
    ]


def settled(record: LaunchRecord, launches: Iterable[LaunchRecord]) -> LaunchRecord:
    """The record of a failed start with the blame that all launches together show.

    A second death alike is DETERMINISTIC_CRASH, the config's fault, if a sibling started: mostly the baseline, which has
    been measured anyway. A server that left without a word is believed only where it ended by itself: who is killed
    from outside twice has met the host's memory or a person.

    Args:
        record: As its launch ended.
        launches: Of the study; `record` may be among them.
    """
    launches = list(launches)
    if record.reason not in UNSETTLED or not alike(record, launches):
        return record
    code = record.evidence.exit_code if record.evidence else None
    if record.reason is Reason.UNKNOWN and (code is None or code < 0):
        return record
    if not any(started(launch) and launch.asked != record.asked for launch in launches):
        return record
    reason = Reason.DETERMINISTIC_CRASH
    return replace(record, reason=reason, outcome=reason.outcome)
