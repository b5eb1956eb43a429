"""Keeps two users of a host apart: a lock file per GPU, and a look for foreign memory before a launch.

The locks are `flock`s, so the kernel frees them however their holder dies. They live in one
folder for all users of the host: a runtime folder such as `/run/user/1000` is private to its user,
and the temp folder of the environment (`TMPDIR`) may be private to a job; neither would let two
users see one another. Containers on one host see one another when they share that folder
(`SPEC_SEARCH_LOCKS`).

A lock alone is not enough: a killed worker frees its locks at once, while its server may hold
the GPU's memory a moment longer, until its guardian has stopped it (seen with ray#42861).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from search.errors import Interrupted, LaunchFailed
from search.host.nvml import GpuUser
from search.outcomes import Evidence, Reason
from search.server.reaper import describe
from search.server.system import Os

LOCKS_VARIABLE = "SPEC_SEARCH_LOCKS"
_DEFAULT_FOLDER = Path("/tmp/search-gpu-locks")  # noqa: S108 - made sticky, opened without following links
_POLL_S = 0.1
_STAGE = "before the launch"


def lock_folder() -> Path:
    """The folder of this host's lock files."""
    return Path(os.environ.get(LOCKS_VARIABLE) or _DEFAULT_FOLDER)


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How a lease waits and what it tolerates.

    Attributes:
        foreign_bytes: Memory in use on a GPU from which somebody else is assumed on it. Idle GPUs
            show up to some 700 MiB that the driver keeps for itself.
        free_s: How long to wait for foreign memory to go: a guardian that lost its worker needs
            seconds, its lease included at most 45 s.
        lock_s: How long to wait for a lock: a holder that was just killed may still be exiting.
    """

    foreign_bytes: int = 2 * 2**30
    free_s: float = 60.0
    lock_s: float = 2.0


class GpuLease:
    """The right to use some GPUs of this host; freed by `release`, by garbage collection, or by death."""

    def __init__(self, locks: Sequence[_Lock]) -> None:
        self._locks = tuple(locks)

    def note(self, facts: Mapping[str, str]) -> None:
        """Say in the lock files what the GPUs are used for now, for others to read."""
        for lock in self._locks:
            lock.write(facts)

    def release(self) -> None:
        """Free the GPUs; a second call does nothing."""
        locks, self._locks = self._locks, ()
        for lock in locks:
            lock.remove()
            lock.release()


def lease_gpus(
    uuids: Sequence[str], system: Os, *, facts: Mapping[str, str], terms: LeaseTerms, folder: Path | None = None
) -> GpuLease:
    """Take the locks of these GPUs, all or none, in the order of their UUIDs.

    Args:
        uuids: Of whole GPUs.
        system: Clock and sleep.
        facts: What to say in the lock files beside this process's pid, such as study and tag.
        terms: See there.
        folder: Of the lock files; None for `lock_folder()`.

    Raises:
        LaunchFailed: HOST_BUSY, naming the holder, or saying why its lock file cannot be used.
    """
    paths = [(folder or lock_folder()) / f"{uuid}.lock" for uuid in sorted(uuids)]
    end = system.monotonic() + terms.lock_s
    while True:
        try:
            locks, busy = _take_all(paths)
            if busy is None:
                lease = GpuLease(locks)
                lease.note(facts)
                return lease
        except OSError as error:
            line = f"the lock files of the GPUs cannot be used: {error}; another folder: {LOCKS_VARIABLE}"
            raise _busy(line) from error
        if system.monotonic() >= end:
            raise _busy(f"GPU {busy.stem} is in use by {_holder(busy)}")
        system.sleep(_POLL_S)


def wait_for_free_memory(
    uuids: Sequence[str], system: Os, *, terms: LeaseTerms, aborted: Callable[[], bool] = lambda: False
) -> None:
    """Return once nobody holds memory on these GPUs; at once where NVML cannot be asked.

    Args:
        uuids: The GPUs.
        system: Of the host.
        terms: How long to wait, and how much memory counts as use.
        aborted: Asked at each look whether to stop waiting.

    Raises:
        LaunchFailed: HOST_BUSY, naming the processes where they are known.
        Interrupted: `aborted` said so.
    """
    end = system.monotonic() + terms.free_s
    while busy := {uuid: used for uuid, used in (system.gpu_memory(uuids) or {}).items() if used > terms.foreign_bytes}:
        if aborted():
            raise Interrupted("The launch was interrupted while it waited for its GPUs to be free.")
        if system.monotonic() >= end:
            held = ", ".join(f"{used / 2**20:.0f} MiB on {uuid}" for uuid, used in busy.items())
            line = f"{held} in use for {terms.free_s:g} s: {_users(system.gpu_users(tuple(busy)))}"
            raise _busy(line)
        system.sleep(_POLL_S)


def free_stale_locks(folder: Path | None = None) -> tuple[Path, ...]:
    """Remove lock files that nobody holds; returns which. Files of other users may have to stay."""
    removed = []
    for path in sorted((folder or lock_folder()).glob("*.lock")):
        lock = _Lock.take(path, make=False)
        if lock is None:
            continue
        if lock.remove():
            removed.append(path)
        lock.release()
    return tuple(removed)


class _Lock:
    """A held lock file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def take(cls, path: Path, *, make: bool = True) -> _Lock | None:
        """The lock, or None if somebody holds it, or if there is no file and none is to be made."""
        while True:
            try:
                descriptor = _open(path, make=make)
            except FileNotFoundError:
                return None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            if _is_at(descriptor, path):
                return cls(path, descriptor)
            os.close(descriptor)  # it was removed as stale between opening and locking

    def write(self, facts: Mapping[str, str]) -> None:
        """Replace what the file says."""
        text = json.dumps({"pid": os.getpid(), **facts}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)

    def remove(self) -> bool:
        """Remove the file while the lock is held; another user's file in a sticky folder has to stay."""
        try:
            self.path.unlink()
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def release(self) -> None:
        """Free it."""
        self._close()


def _take_all(paths: Sequence[Path]) -> tuple[list[_Lock], Path | None]:
    """All locks, or none and the first file that somebody else holds."""
    locks: list[_Lock] = []
    for path in paths:
        _make_folder(path.parent)
        if (lock := _Lock.take(path)) is None:
            for taken in locks:
                taken.release()
            return [], path
        locks.append(lock)
    return locks, None


def _busy(line: str) -> LaunchFailed:
    return LaunchFailed(Reason.HOST_BUSY, Evidence(line, _STAGE))


def _make_folder(folder: Path) -> None:
    """Make a folder that every user of the host may put files into, but only remove their own from."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    folder.chmod(0o1777)


def _open(path: Path, *, make: bool) -> int:
    """Open for reading and writing, never through a link.

    An existing file is opened without O_CREAT: Linux refuses that flag for files of other users in
    a sticky folder (`fs.protected_regular`).
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            if not make:
                raise
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
            os.fchmod(
                descriptor, stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
            )
            return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    """What a lock file says of its holder, one line; it may be empty, cut or somebody's joke."""
    try:
        with path.open("rb") as file:
            held = json.loads(file.read(4096))
    except (OSError, ValueError):
        held = {}
    if not isinstance(held, dict) or "pid" not in held:
        return "another search on this host (its lock file says no more)"
    facts = ", ".join(f"{name} {value}" for name, value in held.items())
    return "".join(letter if letter.isprintable() else "?" for letter in facts)[:300]


def _users(users: tuple[GpuUser, ...] | None) -> str:
    if not users:
        return "by processes that NVML does not name here (another container, or a driver that has not let go)"
    return "; ".join(_lines(users))


def _lines(users: Sequence[GpuUser]) -> Iterator[str]:
    for user in users:
        memory = "memory unknown" if user.memory is None else f"{user.memory / 2**20:.0f} MiB"
        yield f"pid {user.pid} ({memory}) {describe(user.pid)}"
