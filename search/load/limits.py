"""The client's own limits: open files, connections, a processor that comes too late. None of them is a config's fault."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass

from search.errors import LoadFailed
from search.outcomes import Evidence, Reason

SPARE_CONNECTIONS = 8
"""Beyond one per stream, for requests that are not streams."""

SPARE_FILES = 64
"""What this process may open meanwhile beside its streams: logs, a database, Ray's sockets."""

LATE_S = 0.02
"""From here on a record is stamped noticeably later than it came: a record of 250 streams takes some 10 ms to read."""

_LATE_SHARE = 0.1
_LOOK_EVERY_S = 0.05
_FEWEST_LOOKS = 20

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
"""What the kernel refuses to the client itself: files, files of the whole host, local ports, memory."""


def reserve_files(concurrency: int) -> None:
    """Make sure that this process may open a socket for every stream; raises the soft limit where it is too low.

    Raises:
        LoadFailed: CLIENT_LIMITED; the hard limit is lower than what the phase needs.
    """
    used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    needed = used + concurrency + SPARE_CONNECTIONS + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise limited(
            f"the client needs {needed} open files ({used} are open, {concurrency} streams, "
            f"{SPARE_CONNECTIONS + SPARE_FILES} to spare), but may have {hard} (RLIMIT_NOFILE); "
            "raise it with `ulimit -Hn` or `LimitNOFILE=`, or measure a lower concurrency",
            concurrency,
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def limited(line: str, concurrency: int) -> LoadFailed:
    """The failure of a phase that the client could not carry; no other config would do better."""
    return LoadFailed(Reason.CLIENT_LIMITED, Evidence(line, f"c={concurrency}"))


def refused_to_us(error: BaseException) -> str:
    """What the kernel refused to the client, in words; empty where the error says something else."""
    number = getattr(error, "errno", None)
    if number not in _OURS:
        return ""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"the client itself was refused a connection: {os.strerror(number)} "
        f"(open files: {len(os.listdir('/proc/self/fd'))} of {soft}, at most {hard})"  # noqa: PTH208
    )


@dataclass(slots=True)
class Lateness:
    """How late the event loop comes back from short sleeps, while a phase runs.

    Processor time alone does not reveal a client that gets none: in a container with half a core,
    or beside a busy server, its loop uses little and is late all the same.
    """

    looks: int = 0
    late: int = 0

    async def watch(self, clock: Callable[[], float]) -> None:
        """Look until cancelled."""
        while True:
            due = clock() + _LOOK_EVERY_S
            await asyncio.sleep(_LOOK_EVERY_S)
            self.looks += 1
            self.late += clock() - due > LATE_S

    @property
    def is_near_limit(self) -> bool:
        """Whether over a tenth of the looks came 20 ms late; under a second of them nothing is said."""
        return self.looks >= _FEWEST_LOOKS and self.late > _LATE_SHARE * self.looks
