"""What the operating system tells of itself: its clock, and the ports it lends to clients."""

from __future__ import annotations

import ctypes
from pathlib import Path

_TIME_ERROR = 5
"""State of the kernel's clock when nothing keeps it in step (`<sys/timex.h>`)."""
_TIMEX_BYTES = 1024
"""More than `struct timex` has on any Linux (208 bytes on 64 bits); all zero means: only look."""
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def clock_kept() -> bool | None:
    """Whether the kernel says that NTP or its like keeps the clock in step; None where it does not tell."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def ephemeral_from(path: Path = _PORT_RANGE) -> int | None:
    """First port that the system lends to clients; None where it does not tell."""
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
