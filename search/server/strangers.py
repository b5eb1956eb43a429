"""Distinguishes others' processes from ours, on a port or in a GPU's memory: what is not ours is no leftover of ours."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from search.host.nvml import GpuUser
from search.server.reaper import describe
from search.server.system import Os

MUCH_MEMORY = 512 * 2**20
"""Bytes of a newcomer on a GPU from which it may be why a server ran out of memory."""

_HOST_NAMESPACE = "pid:[4026531836]"
"""What `/proc/self/ns/pid` is on the host itself (`PROC_PID_INIT_INO` in Linux' `include/uapi/linux/nsfs.h`)."""


def names_are_ours() -> bool:
    """Whether a pid that NVML reports is one of this process's own view: in a container it may be the host's."""
    try:
        return os.readlink("/proc/self/ns/pid") == _HOST_NAMESPACE  # noqa: PTH115 - not a path
    except OSError:
        return False


def stranger_on_port(system: Os, port: int, tag: str, *, launches: bool = True) -> str:
    """Who else holds `port`, for people; empty when nobody does, or a process of ours is among them.

    Args:
        system: Asks `/proc`. A holder without a pid belongs to another user.
        port: On loopback.
        tag: Of the launch whose own processes do not count.
        launches: Whether a process of another launch is a stranger too.
    """
    holders = system.holders(port)
    for pid in holders:
        if pid is not None and (_may_be_ours(system, pid, tag) or not (launches or system.tag_of(pid) == "")):
            return ""
    return "; ".join("a process of another user" if pid is None else f"pid {pid} {describe(pid)}" for pid in holders)


def strangers_on_gpus(
    system: Os, uuids: Sequence[str], tag: str, *, known: Collection[int] = (), least: int = 0
) -> str:
    """Who else has memory on these GPUs, for people; empty when nobody has, or it cannot be known.

    Args:
        system: Asks NVML and `/proc`.
        uuids: The GPUs.
        tag: Of the launch whose own processes do not count.
        known: Processes that had memory there before.
        least: Bytes from which a process counts; one whose memory is not reported counts always.
    """
    users = [
        user
        for user in system.gpu_users(uuids) or ()
        if user.pid not in known
        and (user.memory is None or user.memory >= least)
        and not _may_be_ours(system, user.pid, tag)
    ]
    return "; ".join(_user(user) for user in users)


def _may_be_ours(system: Os, pid: int, tag: str) -> bool:
    """Whether a process carries the launch's tag, or that is unknown: it is gone, or NVML's pid is not one of ours."""
    carried = system.tag_of(pid)
    return carried is None or carried == tag


def _user(user: GpuUser) -> str:
    memory = "memory unknown" if user.memory is None else f"{user.memory / 2**20:.0f} MiB"
    return f"pid {user.pid} ({memory}) {describe(user.pid)}"
