"""Clocks, heat and throttling of a slot's GPUs while something else runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from types import TracebackType
from typing import Any, Self

from search.contracts import GpuState
from search.host.nvml import nvml_session

# NVML's `nvmlClocksEventReason…` bits that mean slower than asked. Left out are idle, clocks an
# application set, sync boost and display settings: they are the host's set-up, not a disturbance.
_SLOWING = {
    0x04: "SW power cap",
    0x08: "HW slowdown",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
}


_SLOWED_BELOW = 0.97
"""Share of the highest clock. An H200 near its power cap gives that as a reason at 1,973 of 1,980 MHz: no harm."""


@dataclass(frozen=True, slots=True)
class _Sample:
    sm_clock_mhz: float
    temperature_c: float
    reasons: int


_JOIN_S = 10.0
"""NVML has no limit of its own: a driver that hangs costs samples, not the phase."""


class GpuWatch:
    """Samples GPUs in a thread of its own from entering to leaving; `state` then holds the result.

    In a thread, because a query takes a millisecond or more per GPU, and the loop that measures
    must not wait for it. NVML releases the interpreter meanwhile.

    Args:
        uuids: The GPUs; without any, nothing is sampled.
        every_s: Seconds between samples.
        nvml: A `pynvml`; None for the installed one.
    """

    def __init__(self, uuids: Sequence[str], *, every_s: float = 1.0, nvml: Any = None) -> None:
        self._uuids = tuple(uuids)
        self._every_s = every_s
        self._nvml = nvml
        self._samples: list[_Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._uuids:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._uuids:
            self._thread.join(_JOIN_S)

    @property
    def state(self) -> GpuState | None:
        """Over all samples, of each the worst GPU; None where NVML cannot be asked."""
        samples = tuple(self._samples)  # the thread may still be there, see `_JOIN_S`
        if not samples:
            return None
        seen = 0
        for sample in samples:
            seen |= sample.reasons
        return GpuState(
            sm_clock_mhz=fmean(sample.sm_clock_mhz for sample in samples),
            temperature_c=max(sample.temperature_c for sample in samples),
            throttled=fmean(bool(sample.reasons) for sample in samples),
            reasons=tuple(sorted(name for bit, name in _SLOWING.items() if seen & bit)),
        )

    def _run(self) -> None:
        with nvml_session(self._nvml) as library:
            if library is None:
                return
            try:
                handles = [library.nvmlDeviceGetHandleByUUID(uuid) for uuid in self._uuids]
            except library.NVMLError:
                return
            while True:
                ended = self._stop.wait(self._every_s)
                if ended and self._samples:
                    return
                try:
                    self._samples.append(_sample(library, handles))
                except library.NVMLError:  # a GPU that does not report one of them: no sample, no invention
                    return
                if ended:
                    return


def _sample(library: Any, handles: Sequence[Any]) -> _Sample:
    reasons, clocks = 0, []
    for handle in handles:
        clocks.append(float(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)))
        if clocks[-1] < _SLOWED_BELOW * float(library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM)):
            reasons |= _reasons(library, handle)
    return _Sample(
        sm_clock_mhz=min(clocks),
        temperature_c=max(
            float(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)) for handle in handles
        ),
        reasons=reasons & sum(_SLOWING),
    )


def _reasons(library: Any, handle: Any) -> int:
    try:
        return int(library.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except library.NVMLError:  # before driver 535 under its older name
        return int(library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
