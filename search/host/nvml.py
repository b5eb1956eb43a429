"""GPU facts through NVML, imported late: a machine without NVIDIA's driver is a normal case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU of this host.

    Attributes:
        uuid: Such as `GPU-4f2c…`; stable across reboots, unlike an index.
        memory_total: Bytes.
        memory_used: Bytes, by all processes on the host.
        sm: Compute capability times ten, such as 90.
    """

    uuid: str
    name: str
    memory_total: int
    memory_used: int
    sm: int
    driver: str


def gpus(nvml: Any = None) -> tuple[GpuFacts, ...]:
    """All GPUs of this host in index order; empty without a driver or without GPUs."""
    with nvml_session(nvml) as library:
        if library is None:
            return ()
        driver = as_text(library.nvmlSystemGetDriverVersion())
        return tuple(_facts(library, index, driver) for index in range(library.nvmlDeviceGetCount()))


def gpu_memory_used(uuids: Sequence[str], nvml: Any = None) -> dict[str, int] | None:
    """Bytes in use per GPU; None when NVML or one of the GPUs cannot be asked."""
    with nvml_session(nvml) as library:
        if library is None:
            return None
        try:
            handles = _handles(library, uuids)
            return {uuid: int(library.nvmlDeviceGetMemoryInfo(handle).used) for uuid, handle in handles.items()}
        except library.NVMLError:
            return None


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that holds memory on a GPU; `memory` in bytes, None where the driver does not report it."""

    pid: int
    uuid: str
    memory: int | None


def gpu_users(uuids: Sequence[str] | None = None, nvml: Any = None) -> tuple[GpuUser, ...] | None:
    """Processes with memory on these GPUs, or on all of this host; None when NVML cannot be asked.

    Inside a container NVML reports the pids of the host, or none.
    """
    with nvml_session(nvml) as library:
        if library is None:
            return None
        try:
            handles = _handles(library, uuids)
            return tuple(
                GpuUser(int(user.pid), uuid, None if user.usedGpuMemory is None else int(user.usedGpuMemory))
                for uuid, handle in handles.items()
                for user in library.nvmlDeviceGetComputeRunningProcesses(handle)
            )
        except library.NVMLError:
            return None


def _handles(library: Any, uuids: Sequence[str] | None) -> dict[str, Any]:
    if uuids is not None:
        return {uuid: library.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}
    handles = (library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount()))
    return {as_text(library.nvmlDeviceGetUUID(handle)): handle for handle in handles}


@contextlib.contextmanager
def nvml_session(nvml: Any) -> Iterator[Any]:
    """NVML, initialised and shut down again; None where it cannot be asked."""
    library = nvml or _import()
    if library is None:
        yield None
        return
    try:
        library.nvmlInit()
    except library.NVMLError:
        yield None
        return
    try:
        yield library
    finally:
        library.nvmlShutdown()


def _import() -> ModuleType | None:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml  # type: ignore[no-any-return]


def _facts(library: Any, index: int, driver: str) -> GpuFacts:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    memory = library.nvmlDeviceGetMemoryInfo(handle)
    major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
    return GpuFacts(
        uuid=as_text(library.nvmlDeviceGetUUID(handle)),
        name=as_text(library.nvmlDeviceGetName(handle)),
        memory_total=int(memory.total),
        memory_used=int(memory.used),
        sm=10 * major + minor,
        driver=driver,
    )


def as_text(value: str | bytes) -> str:
    """Older bindings of NVML give bytes, newer ones text."""
    return value.decode() if isinstance(value, bytes) else value
