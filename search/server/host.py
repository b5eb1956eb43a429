"""What this machine has, asked before the first GPU minute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from search.server.nvml import GpuFacts, gpus

_ASK_RELEASE = "from importlib.metadata import version; print(version('sglang'))"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a study can count on here; `gpus` is empty without NVIDIA's driver."""

    gpus: tuple[GpuFacts, ...] = ()

    @property
    def driver(self) -> str:
        """Version of NVIDIA's driver; empty without GPUs."""
        return self.gpus[0].driver if self.gpus else ""


def probe_host(nvml: Any = None) -> HostFacts:
    """Look at this machine's GPUs; allocates nothing on them."""
    return HostFacts(gpus(nvml))


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
