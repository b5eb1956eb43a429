"""Checks of the machine: GPUs, links, memory of others, disk, shared memory, ports, clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from search.host.hardware import HostHardware
from search.host.nvml import GpuFacts, GpuUser
from search.preflight.findings import Finding, error, fine, warning
from search.preflight.requirements import FREE_MEMORY_SHARE, gpus_missing, is_kind
from search.spec.study import StudySpec

_GIB = 2**30
_LOG_BYTES = 25 * 2**20
"""Of one launch: server log, requests, answers; more than what studies of 250 requests a phase left."""
_SHM_LEAST, _SHM_PLENTY = 1 * _GIB, 8 * _GIB
"""Docker's default of 64 MiB ends in NCCL's `unable to allocate shared memory`; SGLang's own guide asks for 32 GB."""
_EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock before this has not been set."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What the checks of the machine look at.

    Attributes:
        hardware: GPUs, links, shared memory.
        users: Processes with memory on GPUs; None when NVML does not report it.
        names: Pid to the name of a process.
        reports: Where reports go.
        disk_free: Bytes free there; None when unknown.
        reports_writable: Whether we may write there.
        ports: Empty, or why no free block of ports was found.
        ephemeral_from: First port that the system lends to clients; None where it does not say.
        now: Of the wall clock.
        clock_kept: Whether the kernel says that the clock is kept in step; None when it does not say.
    """

    hardware: HostHardware
    users: tuple[GpuUser, ...] | None = None
    names: Mapping[int, str] | None = None
    reports: str = "reports"
    disk_free: int | None = None
    reports_writable: bool = True
    ports: str = ""
    ephemeral_from: int | None = None
    now: datetime = _EARLIEST
    clock_kept: bool | None = None


def check_machine(spec: StudySpec, facts: MachineFacts) -> Iterator[Finding]:
    """All checks of this room."""
    fitting = [gpu for gpu in facts.hardware.gpus if is_kind(gpu.name, spec.hardware.kind)]
    yield from _gpus(spec, facts.hardware, fitting)
    if fitting:
        yield _memory_in_use(fitting[: spec.hardware.gpus], facts)
        yield from _links(spec, facts.hardware, fitting[: spec.hardware.gpus])
    yield _shared_memory(spec, facts.hardware)
    yield _disk(spec, facts)
    yield from _ports(facts)
    yield _clock(facts)


def _gpus(spec: StudySpec, hardware: HostHardware, fitting: Sequence[GpuFacts]) -> Iterator[Finding]:
    missing = tuple(gpus_missing(spec, hardware.gpus, look_at_use=False))
    for line in missing:
        way = "run on a host that has them, correct `hardware`, or use `--simulate`"
        yield error("GPUs", line.removeprefix("GPUs: ").rstrip("."), way)
    used = fitting[: spec.hardware.gpus]
    kinds = sorted({(gpu.name, gpu.sm, round(gpu.memory_total / _GIB)) for gpu in used})
    if len(kinds) > 1:
        unlike = "; ".join(f"{name} with {memory} GiB" for name, _, memory in kinds)
        yield error("GPUs", f"they are not equal: {unlike}", "choose equal ones with CUDA_VISIBLE_DEVICES")
    elif not missing and kinds:
        name, sm, memory = kinds[0]
        driver = f"driver {hardware.driver}, CUDA up to {hardware.driver_cuda or 'unknown'}"
        yield fine("GPUs", f"{len(used)}x {name}, {memory} GiB, capability {sm // 10}.{sm % 10}, {driver}")


def _memory_in_use(used: Sequence[GpuFacts], facts: MachineFacts) -> Finding:
    taken = [gpu for gpu in used if gpu.memory_used > FREE_MEMORY_SHARE * gpu.memory_total]
    if not taken:
        return fine("GPU memory", "free on all of them")
    most = max(taken, key=lambda gpu: gpu.memory_used)
    says = f"in use on {len(taken)} of {len(used)}, up to {most.memory_used / _GIB:.1f} GiB on {most.uuid}"
    uuids = {gpu.uuid for gpu in taken}
    holders = sorted({user.pid for user in facts.users or () if user.uuid in uuids})
    names = facts.names or {}
    if holders:
        named = ", ".join(f"{pid} ({names[pid]})" if pid in names else str(pid) for pid in holders[:5])
        return error("GPU memory", says, f"end the processes {named}; `search clean` ends servers that we left")
    return error("GPU memory", says, "`nvidia-smi` on the host names the processes; inside a container it may not")


def _links(spec: StudySpec, hardware: HostHardware, used: Sequence[GpuFacts]) -> Iterator[Finding]:
    links = hardware.between(tuple(gpu.uuid for gpu in used))
    if not links:
        if spec.model.tp > 1:
            yield warning(
                "links", "NVML reports nothing of them", "see `nvidia-smi topo -m`, and check `hardware.links`"
            )
        return
    kinds = sorted({str(link) for link in links})
    # A slot is linked by NVLink only if all its pairs are.
    found = "nvlink" if all(link.nvlink for link in links) else "pcie"
    if found != spec.hardware.links and spec.model.tp > 1:
        says = f"the study says {spec.hardware.links}, but NVML says: {'; '.join(kinds)}"
        yield error("links", says, f"write `hardware.links: {found}`: rules on all-reduce depend on it")
    elif found == "pcie" and spec.model.tp > 1 and not all(link.peer_access for link in links):
        says = f"{'; '.join(kinds)}"
        way = "all-reduce then goes through host memory; look at ACS, IOMMU and the driver's P2P setting"
        yield warning("links", says, way)
    else:
        yield fine("links", "; ".join(kinds))


def _shared_memory(spec: StudySpec, hardware: HostHardware) -> Finding:
    total, free = hardware.shared_memory, hardware.shared_memory_free
    if total is None or free is None:
        return warning("shared memory", "there is no /dev/shm", "mount one; NCCL and SGLang's processes use it")
    says = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free in /dev/shm"
    way = "start the container with `--shm-size 32g` or `--ipc host`, or free what stands in /dev/shm"
    if spec.model.tp > 1 and free < _SHM_LEAST:
        return error("shared memory", says, way)
    if free < (_SHM_PLENTY if spec.model.tp > 1 else _SHM_LEAST):
        return warning("shared memory", says, way)
    return fine("shared memory", says)


def _disk(spec: StudySpec, facts: MachineFacts) -> Finding:
    if not facts.reports_writable:
        return error("disk", f"{facts.reports} cannot be written", "choose another place with `--reports`")
    if facts.disk_free is None:
        return warning("disk", f"nobody knows what is free in {facts.reports}", "choose another place with `--reports`")
    need = spec.budget.launches * _LOG_BYTES
    says = f"{facts.disk_free / _GIB:.1f} GiB free in {facts.reports}; {spec.budget.launches} launches may write {need / _GIB:.1f}"
    way = "free some, or choose another place with `--reports` and `--storage`"
    if facts.disk_free < need:
        return error("disk", says, way)
    return warning("disk", says, way) if facts.disk_free < 4 * need else fine("disk", says)


def _ports(facts: MachineFacts) -> Iterator[Finding]:
    if facts.ports:
        yield error("ports", facts.ports, "end what holds them")
    elif facts.ephemeral_from is not None and facts.ephemeral_from < 32_000:
        says = f"the system lends ports from {facts.ephemeral_from} on to clients, and ours lie between 20000 and 32000"
        way = "a launch that meets a taken port is tried again; `sysctl net.ipv4.ip_local_port_range` moves the others"
        yield warning("ports", says, way)
    else:
        yield fine("ports", "a block between 20000 and 32000 is free on loopback")


def _clock(facts: MachineFacts) -> Finding:
    if facts.now < _EARLIEST:
        return error("clock", f"it says {facts.now:%Y-%m-%d %H:%M} UTC", "set it: budgets and leases are kept by it")
    if facts.clock_kept is False:
        says = f"{facts.now:%Y-%m-%d %H:%M} UTC, but the kernel says that nothing keeps it in step"
        return warning(
            "clock", says, "start chrony or systemd-timesyncd; hosts that share a study need agreeing clocks"
        )
    return fine("clock", f"{facts.now:%Y-%m-%d %H:%M} UTC{', kept in step' if facts.clock_kept else ''}")
