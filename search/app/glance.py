"""A look into the log of a server that runs on this host: how many tokens per second it generates now."""

from __future__ import annotations

import re
from pathlib import Path

from search.contracts import LaunchPaths

_RATE = re.compile(rb"Decode batch\b[^\n]*?gen throughput \(token/s\): (\d+(?:\.\d+)?)")
_TAIL_BYTES = 16384


def rate_now(folder: Path, launch: int) -> float | None:
    """The last rate that a server's log reports (SGLang writes one per 40 decode steps); None where there is none.

    Args:
        folder: `reports/<study>`.
        launch: Number of the launch.
    """
    try:
        place = next((folder / "launches").glob(f"{launch:04d}-*"), None)
        if place is None:
            return None
        with LaunchPaths(place).server_log.open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            rates = _RATE.findall(log.read())
    except OSError:
        return None
    return float(rates[-1]) if rates else None
