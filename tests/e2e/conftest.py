"""What studies on the fake server find here instead of this machine."""

import pytest

from search.app import measured
from search.host.hardware import HostFacts
from search.host.nvml import GpuFacts
from search.preflight.installed_report import ArgumentReport


@pytest.fixture
def one_h200(monkeypatch):
    """A host with one H200, on which nothing of others is ended and no release is asked about its arguments."""
    monkeypatch.setattr(measured, "reap_orphans", lambda: None)
    gpu = GpuFacts("GPU-0", "NVIDIA H200", 141 * 2**30, 0, 90, "580")
    monkeypatch.setattr(measured, "probe_host", lambda: HostFacts((gpu,)))
    monkeypatch.setattr(measured, "slot_gpus", lambda *_: ())
    monkeypatch.setattr(measured, "check_arguments", lambda *_, **__: ArgumentReport(0, 0))
