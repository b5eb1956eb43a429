"""Where a study writes its files: looked at before the first launch, and again before each one."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

from search.errors import BreakerOpen, UsageError

ROOM_BYTES = 64 * 2**20
"""Least free space before a launch: its server's log and requests, and a report of some five megabytes."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def prepare(folder: Path) -> None:
    """Make the folders of a study's report and launches, and write into them once; nothing of it stays.

    Args:
        folder: `reports/<study>`.

    Raises:
        UsageError: Files cannot be written there.
    """
    place = folder
    try:
        for place in (folder, folder / "launches", folder / "launch"):
            place.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".search-", dir=place)
            try:
                os.write(handle, b"\0" * 4096)
                os.fsync(handle)
            finally:
                os.close(handle)
                Path(name).unlink()
    except OSError as error:
        what = "is a file" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise UsageError(
            f"A study writes its report and logs below `--reports`, but {place} cannot be written: {what}. Nothing was "
            "launched. Name another folder with `--reports`, or make that one writable."
        ) from error
    if (line := _lacking(folder)) is not None:
        raise UsageError(f"{line} Nothing was launched. Make room, or name another folder with `--reports`.")


def check_room(folder: Path) -> None:
    """Go on only while a launch has room for its files: without them it would be measured for nothing.

    Raises:
        BreakerOpen: There is too little.
    """
    if (line := _lacking(folder)) is not None:
        raise BreakerOpen(f"{line} Make room, then run the same command again; what was measured is kept.")


def is_full(error: OSError) -> bool:
    """Whether a file could not be written for want of room, so that the next one cannot be either."""
    return error.errno in _FULL


def _lacking(folder: Path) -> str | None:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None  # it does not say; writing will
    if free >= ROOM_BYTES:
        return None
    return (
        f"A launch needs {ROOM_BYTES // 2**20} MiB of room for its log and report, but the disk of {folder} has "
        f"{free // 2**20} MiB left."
    )
