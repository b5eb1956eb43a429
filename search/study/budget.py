"""What ends a study: its budgets and its circuit breaker. Every limit is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from statistics import fmean

from search.errors import BreakerOpen
from search.outcomes import Blame, Outcome, Reason
from search.server.alike import cause_key
from search.storage.records import LaunchRecord
from search.study.blame import failed_beside
from search.study.events import Ending

SAME_ROOT_LINE = 3
"""Launches in a row that may fail alike before the study stops: one config twice, and another one that shows whether it was
the config or what all share."""

STATIC_FAULTS = frozenset({Reason.ARG_UNKNOWN, Reason.MISSING_MODULE, Reason.WEIGHT_LOAD, Reason.DRAFT_MISMATCH})
"""Faults in what every launch shares: seen on a baseline, no other launch can do better."""


_FULL_STAGES = frozenset({"baseline", "confirm", "closing"})
"""They measure both prompt sets and more loads than a start of the search."""
_MANY_AT_ONCE = frozenset({Reason.WORKER_LOST, Reason.RAY_INFRA})


def is_static_fault(launch: LaunchRecord) -> bool:
    """Whether a baseline met a fault that all launches share: it says nothing about the config."""
    return launch.stage == "baseline" and launch.reason in STATIC_FAULTS


class BudgetSpent(Exception):
    """Unwinds to where jobs are given out; no error of the user's.

    Attributes:
        ending: The budget that is spent.
    """

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending = ending


@dataclass(frozen=True, slots=True)
class Budget:
    """What a study may cost over its whole life, earlier runs and `try` included.

    Attributes:
        launches: Measurements, of which a start holds one or several; one that was lost before its server started is none.
        hours: Of the busiest slot: the sum of its launches' durations. Checked before a launch;
            one that runs is not cut.
        retries: Second attempts at a config that a host or a flake spoiled.
    """

    launches: int
    hours: float
    retries: int = 10

    def ending(self, launches: Sequence[LaunchRecord], *, keep: int = 0) -> Ending | None:
        """The budget that is spent, or None. Numbers count other drivers' launches too.

        Args:
            launches: Of the study.
            keep: Launches that later stages are to have, each as long as those so far that measure as much. Where
                there are any, the next launch may not take from their time either.
        """
        free = sum(not launch.started_server for launch in launches)
        if max((launch.number for launch in launches), default=0) - free + keep >= self.launches:
            return Ending.LAUNCHES
        durations = [launch.duration_s for launch in launches if launch.duration_s]
        kept_s = 0.0
        if durations and keep:
            full = [launch.duration_s for launch in launches if launch.duration_s and launch.stage in _FULL_STAGES]
            each = max(fmean(durations), fmean(full) if full else 0.0)
            kept_s = (keep * each + fmean(durations)) / len({launch.slot for launch in launches})
        if _spent_s(launches) + kept_s >= self.hours * 3600:
            return Ending.HOURS
        return None

    def may_retry(self, launches: Sequence[LaunchRecord]) -> bool:
        """Whether a second attempt is left: all launches of a trial but its first are such."""
        trials = [launch.trial for launch in launches if launch.trial is not None and not failed_beside(launch)]
        return len(trials) - len(set(trials)) < self.retries

    def expected_hours(self, launches: Sequence[LaunchRecord], *, to_do: int, slots: int = 1) -> float | None:
        """For `to_do` more launches at the mean so far, within both budgets; None before the first."""
        durations = [launch.duration_s for launch in launches if launch.duration_s]
        if not durations:
            return None
        left = max(0, min(to_do, self.launches - sum(launch.started_server for launch in launches)))
        needed = left * sum(durations) / len(durations) / slots
        return min(needed, max(0.0, self.hours * 3600 - _spent_s(launches))) / 3600


@dataclass(slots=True)
class Breaker:
    """Watches the launches of one run; earlier runs do not count, for the user has seen them end.

    Attributes:
        failures_in_a_row: Configs lost to host or tool, one after the other, before it opens.
    """

    failures_in_a_row: int
    _failed: list[LaunchRecord] = field(default_factory=list)

    def saw(self, launch: LaunchRecord) -> None:
        """Take note of a finished launch.

        Raises:
            BreakerOpen: Going on would only burn GPU time.
        """
        if launch.reason is None or launch.outcome is Outcome.INTERRUPTED:
            self._failed.clear()
            return
        if self._is_echo(launch) or failed_beside(launch):
            return
        self._failed.append(launch)
        if is_static_fault(launch):
            raise BreakerOpen(
                f"The baseline cannot start, so no other launch can: {_cause(launch)} Every launch of this study shares "
                "the fault. Fix it in the study file or the environment, then run the same command again."
            )
        same = self._failed[-SAME_ROOT_LINE:]
        if len(same) == SAME_ROOT_LINE and len({_likeness(failed) for failed in same}) == 1 and _likeness(launch):
            raise BreakerOpen(
                f"Launches {_numbers(same)} failed one after the other in the same way, so it is not one config's fault: "
                f"{_cause(launch)} "
                "Fix that cause, then run the same command again; what was measured is kept."
            )
        lost = self._lost_in_a_row()
        # A second attempt at one config is no second witness against the host.
        if len({failed.asked for failed in lost}) >= self.failures_in_a_row:
            raise BreakerOpen(
                f"Launches {_numbers(lost)} were lost one after the other, and no config is to blame; the last: "
                f"{_cause(launch)} Fix the host, then run the same command again; "
                "what was measured is kept."
            )

    def _is_echo(self, launch: LaunchRecord) -> bool:
        """Whether one death of a node or of Ray, seen before, took this launch on another slot too."""
        last = self._failed[-1] if self._failed else None
        if last is None or launch.reason not in _MANY_AT_ONCE or last.reason is not launch.reason:
            return False
        return launch.slot != last.slot and launch.started_at <= last.started_at + timedelta(
            seconds=last.duration_s or 0.0
        )

    def _lost_in_a_row(self) -> list[LaunchRecord]:
        """The latest launches, back to the first that was not lost."""
        lost = takewhile(lambda failed: failed.outcome is Outcome.LOST, reversed(self._failed))
        return list(lost)[::-1]


def _spent_s(launches: Sequence[LaunchRecord]) -> float:
    by_slot: dict[int, float] = {}
    for launch in launches:
        by_slot[launch.slot] = by_slot.get(launch.slot, 0.0) + (launch.duration_s or 0.0)
    return max(by_slot.values(), default=0.0)


def _root(launch: LaunchRecord) -> str:
    return launch.evidence.root_line if launch.evidence else ""


def _likeness(launch: LaunchRecord) -> str:
    """What is equal for failures of one cause.

    A config is to blame for what its own numbers show, such as the bytes that it could not have; where nobody or the
    host is, numbers, addresses and folders are chance.
    """
    of_the_config = launch.blame is Blame.CONFIG and launch.reason is not Reason.DETERMINISTIC_CRASH
    if launch.evidence is None or of_the_config:
        return _root(launch)
    return cause_key(launch.evidence)


def _cause(launch: LaunchRecord) -> str:
    assert launch.reason is not None
    log = launch.evidence.log_path if launch.evidence else ""
    return f"{launch.reason.value}: {_root(launch)}{f' (log: {log})' if log else ''}."


def _numbers(launches: Sequence[LaunchRecord]) -> str:
    return ", ".join(str(launch.number) for launch in launches)
