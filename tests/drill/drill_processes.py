"""The processes of one case: known by a mark in their environment, so that nothing else is ever counted or killed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil

from search.server.command import LAUNCH_TAG
from search.server.ports import port_is_free

MARK = "SEARCH_DRILL"
"""Variable that every process of a case inherits."""


@contextlib.contextmanager
def nothing_stays(mark: str) -> Iterator[None]:
    """Kill every process of the case on the way out; stopped ones too, which SIGKILL does not ask."""
    try:
        yield
    finally:

        def gone() -> bool:
            for process in (found := marked(mark)):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            return not found

        assert until(gone, 20), f"processes of the drill survive SIGKILL: {named(marked(mark))}"


def marked(mark: str) -> list[psutil.Process]:
    """Living processes of one case."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in psutil.pids():
        try:
            if wanted not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                continue
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (OSError, psutil.Error):
            continue
    return found


def launch_tag(process: psutil.Process) -> str:
    """Of the launch that a process belongs to; empty where it belongs to none."""
    try:
        return process.environ().get(LAUNCH_TAG, "")
    except psutil.Error:
        return ""


def launch_tags(processes: Iterable[psutil.Process]) -> set[str]:
    """Of those that belong to a launch."""
    return {tag for process in processes if (tag := launch_tag(process))}


def is_ours(process: psutil.Process) -> bool:
    """A server's process, a guardian, or an actor."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return bool(launch_tag(process)) or any("guardian.py" in w or "ray::GpuHolder" in w for w in words)


def named(processes: list[psutil.Process]) -> list[str]:
    """One line each, for people."""
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            lines.append(f"{process.pid} {' '.join(process.cmdline())[:60]} ({process.status()})")
    return lines


def can_be_bound(port: int) -> bool:
    """As the next server would find it."""
    return port_is_free(port, ignore_old_connections=True)


def until(true: Callable[[], bool], limit_s: float) -> bool:
    """Whether something came true within the limit."""
    end = time.monotonic() + limit_s
    while True:
        looked = time.monotonic()
        if true():
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(max(0.02, time.monotonic() - looked))  # a look at every process there is may take long
