"""Who writes: one name for each driver process."""

from __future__ import annotations

import os
import socket

import psutil


def this_process() -> str:
    """`host:pid:start time`; the start time tells it from a later process with its pid."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.0f}"
