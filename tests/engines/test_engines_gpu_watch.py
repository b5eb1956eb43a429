"""Clocks and throttling beside a phase, on a scripted NVML."""

import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from search.contracts import GpuState
from search.load.notes import throttled
from search.server.gpu_watch import GpuWatch


class ScriptedNvml:
    """The part of `pynvml` that is asked; two GPUs, the second the worse one."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        """As in `pynvml`."""

    def __init__(self, reasons=(0,), *, driver=True, old=False, uuids=("GPU-0", "GPU-1"), clocks=(1980, 1900)):
        self.reasons = list(reasons)
        self.clocks = clocks
        self.driver, self.old, self.uuids = driver, old, uuids
        self.samples = 0
        self.open = 0
        self.enough = threading.Event()

    def nvmlInit(self):  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in self.uuids:
            raise self.NVMLError("Not Found")
        return self.uuids.index(uuid)

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_CLOCK_SM
        return self.clocks[handle]

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetTemperature(self, handle, sensor):  # noqa: N802
        assert sensor == self.NVML_TEMPERATURE_GPU
        return (61, 67)[handle]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):  # noqa: N802
        if self.old:
            raise self.NVMLError("Function Not Found")
        return self._reasons(handle)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return self._reasons(handle)

    def _reasons(self, handle):
        assert handle == 1, "a GPU at its highest clock needs no reason"
        reason = self.reasons[self.samples % len(self.reasons)]
        self.samples += 1
        if self.samples >= len(self.reasons):
            self.enough.set()
        return reason


def watch(nvml, uuids=("GPU-0", "GPU-1"), every_s=0.001):
    with GpuWatch(uuids, every_s=every_s, nvml=nvml) as gpus:
        if nvml.driver and set(uuids) <= set(nvml.uuids) and uuids:
            assert nvml.enough.wait(5)
            nvml.reasons = nvml.reasons[-1:]
    assert nvml.open == 0
    return gpus.state


def test_worst_gpu_counts():
    assert watch(ScriptedNvml()) == GpuState(sm_clock_mhz=1900, temperature_c=67, throttled=0.0, reasons=())


@pytest.mark.parametrize("old", [False, True], ids=["driver 535 on", "older driver"])
def test_reasons_that_slow_are_named_and_others_are_not(old):
    state = watch(ScriptedNvml([0x4 | 0x20 | 0x1 | 0x2 | 0x100], old=old))
    assert (state.throttled, state.reasons) == (1.0, ("SW power cap", "SW thermal slowdown"))


def test_gpu_at_nearly_its_highest_clock_is_not_throttled_whatever_reason_is_given():
    nvml = ScriptedNvml([0x4], clocks=(1980, 1973))
    nvml.enough.set()
    state = watch(nvml)
    assert (state.throttled, state.reasons, nvml.samples) == (0.0, (), 0)


def test_phase_shorter_than_the_pause_has_one_sample():
    nvml = ScriptedNvml([0x40])
    nvml.enough.set()
    assert watch(nvml, every_s=60.0).reasons == ("HW thermal slowdown",)
    assert nvml.samples == 1


@pytest.mark.parametrize(
    ("nvml", "uuids"),
    [(ScriptedNvml(driver=False), ("GPU-0",)), (ScriptedNvml(), ("GPU-9",)), (ScriptedNvml(), ())],
    ids=["no driver", "unknown GPU", "no GPU"],
)
def test_where_nvml_cannot_be_asked_nothing_is_told(nvml, uuids):
    assert watch(nvml, uuids) is None


@pytest.mark.parametrize(
    ("state", "noted"),
    [
        (None, False),
        (GpuState(1980, 60), False),
        (GpuState(1980, 60, 0.1, ("SW power cap",)), False),
        (GpuState(1500, 90, 0.2, ("HW slowdown",)), True),
    ],
)
def test_throttled_needs_over_a_tenth_of_the_samples(state, noted):
    assert throttled(state) is noted


def test_driver_that_hangs_costs_samples_and_not_the_phase(monkeypatch):
    monkeypatch.setattr("search.server.gpu_watch._JOIN_S", 0.1)
    hangs = threading.Event()

    hanging = SimpleNamespace(NVMLError=RuntimeError, nvmlInit=hangs.wait, nvmlShutdown=lambda: None)
    hanging.nvmlDeviceGetHandleByUUID = Mock(side_effect=RuntimeError)
    with GpuWatch(("GPU-1",), every_s=0.01, nvml=hanging) as watch:
        pass
    assert watch.state is None
    hangs.set()
