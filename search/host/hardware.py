"""The hardware of this host as a measurement depends on it: GPUs, how they reach one another, shared memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from search.host.nvml import GpuFacts, as_text, gpus, nvml_session

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, never written to

_PATHS = {10: "one PCIe switch", 20: "PCIe switches", 30: "the host bridge", 40: "the NUMA node", 50: "the CPU link"}
"""NVML's topology levels (`nvmlGpuTopologyLevel_t`); 0 is one board."""
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuLink:
    """How two GPUs reach one another.

    Attributes:
        one: UUID.
        other: UUID.
        nvlink: Over NVLink, direct or through switches.
        path: The nearest common point on PCIe, in words; empty under NVLink.
        peer_access: Whether one can read the other's memory without the host.
    """

    one: str
    other: str
    nvlink: bool
    path: str
    peer_access: bool

    def __str__(self) -> str:
        if self.nvlink:
            return "NVLink"
        return f"PCIe over {self.path}, {'with' if self.peer_access else 'without'} peer access"


@dataclass(frozen=True, slots=True)
class HostHardware:
    """One look at a host.

    Attributes:
        gpus: Those that are ours to use, in order; empty without NVIDIA's driver.
        links: For each pair of them that NVML reports, in order.
        driver: Version of NVIDIA's driver; empty without GPUs.
        driver_cuda: Newest CUDA the driver runs, such as `13.0`; empty where unknown.
        shared_memory: Bytes of `/dev/shm`, through which NCCL and SGLang's processes talk; None without one.
        shared_memory_free: Of those, free.
    """

    gpus: tuple[GpuFacts, ...] = ()
    links: tuple[GpuLink, ...] = ()
    driver: str = ""
    driver_cuda: str = ""
    shared_memory: int | None = None
    shared_memory_free: int | None = None

    @property
    def kinds(self) -> Mapping[str, int]:
        """GPU name to count, in order."""
        return {name: sum(gpu.name == name for gpu in self.gpus) for name in dict.fromkeys(g.name for g in self.gpus)}

    def between(self, uuids: tuple[str, ...]) -> tuple[GpuLink, ...]:
        """The links among these GPUs."""
        return tuple(link for link in self.links if link.one in uuids and link.other in uuids)

    def facts(self) -> dict[str, str]:
        """What is kept with a study, by name; kinds and not counts, so that more GPUs of a kind change nothing."""
        return {
            "driver": self.driver,
            "driver_cuda": self.driver_cuda,
            "gpus": _kinds(gpu.name for gpu in self.gpus),
            "gpu_memory": _kinds(f"{gpu.memory_total / _GIB:.0f} GiB" for gpu in self.gpus),
            "capability": _kinds(f"{gpu.sm // 10}.{gpu.sm % 10}" for gpu in self.gpus),
            "links": _kinds(map(str, self.links)),
            "shared_memory": "" if self.shared_memory is None else f"{self.shared_memory / _GIB:.1f} GiB",
        }


def probe_hardware(
    nvml: Any = None,
    *,
    env: Mapping[str, str] | None = None,
    statvfs: Callable[[Path], os.statvfs_result] = os.statvfs,
) -> HostHardware:
    """Look at the host; allocates nothing on a GPU.

    Args:
        nvml: In place of NVIDIA's library.
        env: Whose `CUDA_VISIBLE_DEVICES` counts; None for the inherited one.
        statvfs: In place of the system's answer on `/dev/shm`.
    """
    host = probe_host(nvml, env=env)
    visible = {gpu.uuid for gpu in host.gpus}
    try:
        shm = statvfs(SHARED_MEMORY)
    except OSError:
        shm = None
    return HostHardware(
        gpus=host.gpus,
        links=tuple(link for link in probe_links(nvml) if {link.one, link.other} <= visible),
        driver=host.driver,
        driver_cuda=_driver_cuda(nvml) if host.gpus else "",
        shared_memory=shm.f_frsize * shm.f_blocks if shm else None,
        shared_memory_free=shm.f_frsize * shm.f_bavail if shm else None,
    )


def probe_links(nvml: Any = None) -> Iterator[GpuLink]:
    """Every pair of GPUs of the host that NVML reports."""
    with nvml_session(nvml) as library:
        if library is None:
            return
        handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]
        for one, other in combinations(handles, 2):
            try:
                yield _link(library, one, other)
            except library.NVMLError:
                continue


def _link(library: Any, one: Any, other: Any) -> GpuLink:
    def can(capability: int) -> bool:
        return bool(library.nvmlDeviceGetP2PStatus(one, other, capability) == library.NVML_P2P_STATUS_OK)

    uuids = as_text(library.nvmlDeviceGetUUID(one)), as_text(library.nvmlDeviceGetUUID(other))
    if can(library.NVML_P2P_CAPS_INDEX_NVLINK):
        return GpuLink(*uuids, nvlink=True, path="", peer_access=True)
    level = int(library.nvmlDeviceGetTopologyCommonAncestor(one, other))
    direct = can(library.NVML_P2P_CAPS_INDEX_READ)
    return GpuLink(*uuids, nvlink=False, path=_PATHS.get(level, "one board"), peer_access=direct)


def _driver_cuda(nvml: Any) -> str:
    """NVML counts 13.0 as 13000."""
    with nvml_session(nvml) as library:
        if library is None:
            return ""
        try:
            version = int(library.nvmlSystemGetCudaDriverVersion())
        except library.NVMLError:
            return ""
    return f"{version // 1000}.{version % 1000 // 10}"


def _kinds(values: Iterator[str] | map[str]) -> str:
    return ", ".join(sorted(set(values)))


_TIME_ERROR = 5
"""State of the kernel's clock when nothing keeps it in step (`<sys/timex.h>`)."""
_TIMEX_BYTES = 1024
"""More than `struct timex` has on any Linux (208 bytes on 64 bits); all zero means: only look."""
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def clock_kept() -> bool | None:
    """Whether the kernel says that NTP or its like keeps the clock in step; None where unknown."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def ephemeral_from(path: Path = _PORT_RANGE) -> int | None:
    """First port that the system lends to clients; None where unknown."""
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None


_ASK_RELEASE = "from importlib.metadata import version; print(version('sglang'))"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a study can count on here; `gpus` is empty without NVIDIA's driver, or when all are hidden."""

    gpus: tuple[GpuFacts, ...] = ()

    @property
    def driver(self) -> str:
        """Version of NVIDIA's driver; empty without GPUs."""
        return self.gpus[0].driver if self.gpus else ""


def probe_host(nvml: Any = None, *, env: Mapping[str, str] | None = None) -> HostFacts:
    """Look at the GPUs that are ours to use; allocates nothing on them.

    Args:
        nvml: Stands in for NVML in tests.
        env: Whose `CUDA_VISIBLE_DEVICES` counts; None for the inherited one. NVML ignores the
            variable, but Ray and the servers heed it: without it we would count another's GPUs.
    """
    return HostFacts(_visible(gpus(nvml), os.environ if env is None else env))


def _visible(found: Sequence[GpuFacts], env: Mapping[str, str]) -> tuple[GpuFacts, ...]:
    """Those that `CUDA_VISIBLE_DEVICES` leaves, in its order.

    As CUDA reads it (CUDA C++ Programming Guide, environment variables): indices or beginnings of
    UUIDs; the first entry that fits no GPU hides itself and all after it. Indices are taken in
    NVML's order, by PCI bus, which is CUDA's own on hosts with one kind of GPU.
    """
    wanted = env.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return tuple(found)
    chosen: list[GpuFacts] = []
    for entry in (part.strip() for part in wanted.split(",")):
        if entry.isdecimal():
            fitting = list(found[int(entry) : int(entry) + 1])
        else:
            fitting = [gpu for gpu in found if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
        if len(fitting) != 1 or fitting[0] in chosen:
            break
        chosen += fitting
    return tuple(chosen)


def installed_release(python: str = "", *, env: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> str | None:
    """The SGLang release that `python` would run, from its package metadata.

    Asks the interpreter itself, so that a virtual environment, a `PYTHONPATH` or a patched
    tree answers as it would at launch; SGLang is not imported.

    Args:
        python: The interpreter; empty for our own.
        env: The full environment to ask in; None for the inherited one.
        timeout_s: Seconds to wait.

    Returns:
        The version, or None when the interpreter or the package is not there, or is silent.
    """
    try:
        done = subprocess.run(
            [python or sys.executable, "-c", _ASK_RELEASE],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
