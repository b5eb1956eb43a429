"""The file of an SQLite database: whether it is still the one that was opened, and a lock for making it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.engine import URL

from search.errors import StorageFault

LOCK_WAIT_S = 60.0
"""How long another process may take to make the tables."""


class DatabaseFile:
    """Notices when a database file is deleted or replaced while it is in use.

    Its connections would go on in the unlinked file, and everything written there is lost at the end.
    """

    def __init__(self, url: URL) -> None:
        is_file = url.get_backend_name() == "sqlite" and not url.query
        self._path = Path(url.database or "").absolute() if is_file else None
        self._mark: tuple[int, int] | None = None

    def check(self) -> None:
        """Remember the file when it is first seen, and compare it from then on.

        Raises:
            StorageFault: It is gone, or another file stands in its place.
        """
        if self._path is None:
            return
        try:
            found = self._path.stat()
            now = (found.st_dev, found.st_ino)
        except FileNotFoundError:
            now = None
        if self._mark is None:
            self._mark = now
        elif now != self._mark:
            what = "was deleted" if now is None else "was replaced by another file"
            raise StorageFault(
                f"The database {self._path} {what} while it was in use, so nothing more can be stored: what was stored "
                "in it is lost unless a copy is kept elsewhere. What to do: put the file back, or name another "
                "`--storage`, then run the same command again; the tables in the report folder still hold the launches "
                "up to here."
            )


@contextmanager
def file_lock(
    path: Path,
    *,
    wait_s: float = LOCK_WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold a lock over all processes of this host that name `path`; nothing is left of it.

    Where the folder cannot be written or its file system has no locks, the block runs without one.

    Args:
        path: Of the lock file.
        wait_s: Until another holder is taken for hung.
        sleep: Passes seconds.
        monotonic: Seconds.

    Raises:
        StorageFault: Another process holds it for longer than `wait_s`.
    """
    end = monotonic() + wait_s
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before has removed the file: a lock on an unlinked file keeps nobody out.
            held = _is_at(handle, path)
        except BlockingIOError:
            held = False
        except OSError:
            os.close(handle)
            yield
            return
        if held:
            break
        os.close(handle)
        if monotonic() >= end:
            raise StorageFault(
                f"Another process has held {path} for over {wait_s:g} s while it makes the tables of a study. End that "
                "process, or choose another `--storage`."
            )
        sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
