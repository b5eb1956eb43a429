"""Every error a user can meet. Each carries its exit code and says rule, value received, way out.

All of them survive pickling, because they cross process borders under Ray: an
exception's positional arguments are exactly its constructor's.
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False  # as `typing` has it, whose import would delay the handler of signals
if TYPE_CHECKING:
    from search.outcomes import Blame, Evidence, Reason


class ExitCode(IntEnum):
    """What `python -m search…` ends with (DESIGN section 2)."""

    DONE = 0
    USAGE = 2
    HOST_UNFIT = 3
    BREAKER = 4
    INTERRUPTED = 130


class SearchError(Exception):
    """Base of all errors meant for the user's eyes; printed without a traceback."""

    exit_code: ExitCode = ExitCode.USAGE


class UsageError(SearchError):
    """A wrong command line, study file, recording, or a study that does not fit its storage."""


class InvalidConfig(UsageError):
    """A configuration that no SGLang release could run, such as an impossible tree."""


class ImpossibleTree(InvalidConfig):
    """More draft tokens than the tree has room for."""


class UnsupportedKnob(UsageError):
    """A knob or value that the study's SGLang release cannot express. Never dropped in silence."""


class UnknownRelease(UsageError):
    """An SGLang release this project has no dialect for."""


class HostUnfit(SearchError):
    """This machine cannot run the study. `missing` holds one line for each thing missing."""

    exit_code = ExitCode.HOST_UNFIT

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        return "\n".join(self.missing)


class BreakerOpen(SearchError):
    """The study stopped itself: going on would only burn GPU time. The text says what to do."""

    exit_code = ExitCode.BREAKER


class StorageFault(SearchError):
    """The study's database cannot be used: locked, gone, full, or written by another version."""

    exit_code = ExitCode.BREAKER


class Interrupted(SearchError):
    """The user or a budget ended the run; what was running is stopped, what was measured is kept."""

    exit_code = ExitCode.INTERRUPTED


class LaunchFailed(SearchError):
    """A server that did not become ready, or broke outside a phase.

    `spent_s` is the time a simulated or replayed failure would have taken; 0 for a real one,
    whose time the clock has seen. `leftovers` says what the stop that followed could not remove,
    one line each as in `StopReport`; empty after a clean stop. A slot with leftovers is not to be
    used again before they are gone.
    """

    def __init__(
        self, reason: Reason, evidence: Evidence, spent_s: float = 0.0, leftovers: tuple[str, ...] = ()
    ) -> None:
        super().__init__(reason, evidence, spent_s, leftovers)
        self.reason = reason
        self.evidence = evidence
        self.spent_s = spent_s
        self.leftovers = leftovers

    @property
    def blame(self) -> Blame:
        """Who has to change for this not to happen again."""
        return self.reason.blame

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.evidence.root_line}"


class LoadFailed(LaunchFailed):
    """A server that broke, hung or lied while a phase was measured."""


class NotRecorded(SearchError):
    """A replayed table has no such row. Replay never invents a measurement."""
