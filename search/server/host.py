"""What this machine has, asked before the first GPU minute."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.server.nvml import GpuFacts, gpus

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
