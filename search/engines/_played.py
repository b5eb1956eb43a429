"""What the two engines without a server share: sessions that spend no time, failures that say theirs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from search.contracts import EffectiveSettings, StopReport
from search.errors import LaunchFailed, LoadFailed
from search.outcomes import Evidence, Reason


class PlayedLaunchFailed(LaunchFailed):
    """A launch that failed without taking real time.

    Attributes:
        spent_s: What it would have taken; for a virtual clock, which nothing else tells.
    """

    def __init__(self, reason: Reason, evidence: Evidence, spent_s: float) -> None:
        super().__init__(reason, evidence)
        self.args = (reason, evidence, spent_s)
        self.spent_s = spent_s


class PlayedSession:
    """Open until closed; `stop_s` is what its stop report says."""

    def __init__(self, *, effective: EffectiveSettings, boot_s: float, stop_s: float) -> None:
        self._effective = effective
        self._boot_s = boot_s
        self._report = StopReport(clean=True, duration_s=stop_s)
        self._closed = False

    @property
    def effective(self) -> EffectiveSettings:
        """What really runs: exactly what was asked."""
        return self._effective

    @property
    def boot_s(self) -> float:
        """Seconds a boot would have taken or took when recorded; 0 where that is not recorded."""
        return self._boot_s

    def close(self) -> StopReport:
        """See `Session`; nothing to stop, always clean."""
        self._closed = True
        return self._report

    def _require_open(self, concurrency: int) -> None:
        if self._closed:
            line = f"A phase needs a running server, but this session of {self._effective.config} is closed."
            raise LoadFailed(Reason.TOOL_ERROR, Evidence(line, phase=f"c={concurrency}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
