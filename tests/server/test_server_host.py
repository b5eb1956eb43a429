"""Ports, GPUs and installed releases of this machine."""

import os
import random
import socket
import sys
from types import SimpleNamespace

import pytest

from search.errors import HostUnfit
from search.host.hardware import installed_release, probe_host
from search.host.nvml import gpu_memory_used
from search.server.ports import PortBlock, fresh_ports, port_is_free
from search.testing import install_fake_sglang


class FakeNvml:
    """The part of `pynvml` that is used, with two GPUs."""

    class NVMLError(Exception):
        """As in `pynvml`."""

    def __init__(self, *, driver: bool = True) -> None:
        self.driver = driver
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.65.06"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 13_010

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        if uuid not in ("GPU-0", "GPU-1"):
            raise self.NVMLError("Not Found")
        return int(uuid[-1])

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=1000, used=10 + handle)

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return (12, 0)

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "NVIDIA RTX PRO 6000"


def test_host_with_gpus_is_described():
    nvml = FakeNvml()
    facts = probe_host(nvml, env={})
    assert [(gpu.uuid, gpu.memory_total, gpu.memory_used, gpu.sm) for gpu in facts.gpus] == [
        ("GPU-0", 1000, 10, 120),
        ("GPU-1", 1000, 11, 120),
    ]
    assert (facts.gpus[0].name, facts.driver, nvml.open) == ("NVIDIA RTX PRO 6000", "580.65.06", 0)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0,1", ["GPU-0", "GPU-1"]),
        ("1,0", ["GPU-1", "GPU-0"]),
        ("1", ["GPU-1"]),
        ("GPU-1", ["GPU-1"]),
        (" 0 , GPU-1 ", ["GPU-0", "GPU-1"]),
        ("", []),
        ("-1", []),
        ("1,7,0", ["GPU-1"]),
        ("1,1", ["GPU-1"]),
        ("GPU-", []),  # fits both
        ("NoDevFiles", []),
    ],
)
def test_gpus_hidden_from_cuda_are_not_counted(visible, expected):
    facts = probe_host(FakeNvml(), env={"CUDA_VISIBLE_DEVICES": visible})
    assert [gpu.uuid for gpu in facts.gpus] == expected


def test_host_without_a_driver_has_no_gpus():
    facts = probe_host(FakeNvml(driver=False))
    assert (facts.gpus, facts.driver) == ((), "")


def test_memory_of_an_unknown_gpu_is_unknown_not_zero():
    assert gpu_memory_used(["GPU-1"], FakeNvml()) == {"GPU-1": 11}
    assert gpu_memory_used(["GPU-9"], FakeNvml()) is None
    assert gpu_memory_used(["GPU-1"], FakeNvml(driver=False)) is None


def test_installed_release_is_read_from_the_interpreter(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(install_fake_sglang(tmp_path, release="0.5.9"))}
    assert installed_release(sys.executable, env=env) == "0.5.9"


@pytest.mark.parametrize("python", ["", "/no/such/python"])
def test_release_is_none_without_package_or_interpreter(python, tmp_path):
    assert installed_release(python, env={"PATH": os.environ["PATH"]}) is None


def test_interpreter_that_never_answers_is_none(tmp_path):
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    assert installed_release(str(slow), timeout_s=0.2) is None


def test_fresh_ports_are_distinct_and_below_the_ephemeral_range():
    block = fresh_ports(random.Random(1))
    assert len(set(block.all)) == 3
    assert all(20_000 <= port < 32_768 and port_is_free(port) for port in block.all)
    assert block.base_url == f"http://127.0.0.1:{block.http}"


def test_distributed_rendezvous_lies_where_sglang_puts_it():
    assert PortBlock(http=21000, nccl=21001).dist_init == 21233


@pytest.mark.parametrize("which", [0, 1, 2], ids=["http", "nccl", "dist_init"])
def test_block_with_a_taken_port_is_passed_over(which):
    first = fresh_ports(random.Random(7))
    with socket.create_server(("127.0.0.1", first.all[which])):
        second = fresh_ports(random.Random(7))
    assert second != first


def test_no_free_block_is_an_unfit_host(monkeypatch):
    class Taken(random.Random):
        def randrange(self, *args, **more):
            return port

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(HostUnfit, match="none of 3 blocks"):
            fresh_ports(Taken(), attempts=3)
