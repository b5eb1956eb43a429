"""What the two engines without a server share: sessions that spend no time."""

from __future__ import annotations

from search.contracts import EffectiveSettings, OneConfigSession, StopReport
from search.errors import LoadFailed
from search.outcomes import Evidence, Reason


class PlayedSession(OneConfigSession):
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
