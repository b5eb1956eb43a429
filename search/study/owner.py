"""Which process runs a trial, so that rows of a dead one can be told from rows of a live one."""

from __future__ import annotations

import os
import socket

import psutil

OWNER = "owner"
"""User attribute of a trial: `host:pid:start time`."""


def this_process() -> str:
    """The owner string of this process; the start time tells it from a later one with its pid."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.0f}"


def lives(owner: str) -> bool:
    """Whether another live process of this host is `owner`.

    This process itself does not count: what it left open from an earlier run, it has abandoned.
    Processes of other hosts cannot be seen and count as dead.
    """
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    start = owner.rpartition(":")[2]
    if host != socket.gethostname() or not rest.isdecimal() or int(rest) == os.getpid():
        return False
    try:
        return f"{psutil.Process(int(rest)).create_time():.0f}" == start
    except psutil.Error:
        return False
