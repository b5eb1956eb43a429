"""What ends a study: its budgets and its circuit breaker. Every limit is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from search.errors import BreakerOpen
from search.outcomes import Outcome, Reason
from search.storage import LaunchRecord
from search.study.events import Ending

SAME_ROOT_LINE = 3
"""Launches in a row that may fail with one first root line before the study stops."""

STATIC_FAULTS = frozenset({Reason.ARG_UNKNOWN, Reason.MISSING_MODULE, Reason.WEIGHT_LOAD, Reason.DRAFT_MISMATCH})
"""Faults in what every launch shares: seen on a baseline, no other launch can do better."""


def is_static_fault(launch: LaunchRecord) -> bool:
    """Whether a baseline met a fault that all launches share: it says nothing about the config."""
    return launch.stage == "baseline" and launch.reason in STATIC_FAULTS


@dataclass(frozen=True, slots=True)
class Budget:
    """What a study may cost over its whole life, earlier runs and `try` included.

    Attributes:
        launches: Server starts.
        hours: Sum of all launches' durations. Checked before a launch; one that runs is not cut.
    """

    launches: int
    hours: float

    def ending(self, launches: Sequence[LaunchRecord]) -> Ending | None:
        """The budget that is spent, or None."""
        if len(launches) >= self.launches:
            return Ending.LAUNCHES
        if sum(launch.duration_s or 0.0 for launch in launches) >= self.hours * 3600:
            return Ending.HOURS
        return None

    def expected_hours(self, launches: Sequence[LaunchRecord], *, to_do: int) -> float | None:
        """For `to_do` more launches at the mean so far, within both budgets; None before the first."""
        durations = [launch.duration_s for launch in launches if launch.duration_s]
        if not durations:
            return None
        left = max(0, min(to_do, self.launches - len(launches)))
        return min(left * sum(durations) / len(durations), max(0.0, self.hours * 3600 - sum(durations))) / 3600


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
        self._failed.append(launch)
        if is_static_fault(launch):
            raise BreakerOpen(
                f"The baseline cannot start, so no other launch can: {_cause(launch)} Every launch of this study shares "
                "the fault. Fix it in the study file or the environment, then run the same command again."
            )
        same = self._failed[-SAME_ROOT_LINE:]
        if len(same) == SAME_ROOT_LINE and len({_root(failed) for failed in same}) == 1 and _root(launch):
            raise BreakerOpen(
                f"Launches {_numbers(same)} failed one after the other with the same first line: {_cause(launch)} "
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

    def _lost_in_a_row(self) -> list[LaunchRecord]:
        """The latest launches, back to the first that was not lost."""
        lost = takewhile(lambda failed: failed.outcome is Outcome.LOST, reversed(self._failed))
        return list(lost)[::-1]


def _root(launch: LaunchRecord) -> str:
    return launch.evidence.root_line if launch.evidence else ""


def _cause(launch: LaunchRecord) -> str:
    assert launch.reason is not None
    log = launch.evidence.log_path if launch.evidence else ""
    return f"{launch.reason.value}: {_root(launch)}{f' (log: {log})' if log else ''}."


def _numbers(launches: Sequence[LaunchRecord]) -> str:
    return ", ".join(str(launch.number) for launch in launches)
