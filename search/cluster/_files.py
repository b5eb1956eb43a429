"""Brings the files of a launch home when its server ran where the driver's folder is not."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from search.contracts import LaunchPaths
from search.outcomes import Evidence

TAIL_BYTES = 8 * 2**20
"""Of each file; a server that floods its log must not flood the driver's disk and Ray's memory."""


class Workplace:
    """The folder in which one launch writes, on the host of its server.

    The driver's own folder where it is there, else a temporary one whose files are sent home.

    Args:
        home: As the driver has it, absolute.
        driver_host: Its host name.
    """

    def __init__(self, home: LaunchPaths, driver_host: str) -> None:
        self._home = home
        self._is_away = socket.gethostname() != driver_host or not home.root.is_dir()
        # Named as at home: the engine builds the launch's tag from it.
        self._base = Path(tempfile.mkdtemp(prefix="search-launch-")) if self._is_away else None
        self.paths = LaunchPaths(self._base / home.root.name) if self._base else home
        self.paths.root.mkdir(parents=True, exist_ok=True)

    def as_at_home(self, evidence: Evidence) -> Evidence:
        """Evidence with the files of this folder where they will be read."""
        if not self._is_away:
            return evidence
        here, there = str(self.paths.root), str(self._home.root)
        return replace(
            evidence,
            log_path=evidence.log_path.replace(here, there),
            root_line=evidence.root_line.replace(here, there),
        )

    def pack(self) -> dict[str, bytes]:
        """The ends of all files, by name, and the folder is gone; nothing when it is the driver's own."""
        if self._base is None or not self._base.is_dir():
            return {}
        files = {path.name: _tail(path) for path in sorted(self.paths.root.iterdir()) if path.is_file()}
        shutil.rmtree(self._base, ignore_errors=True)
        return files


def unpack(files: Mapping[str, bytes], home: LaunchPaths) -> None:
    """Write what `Workplace.pack` gave; `command.sh` may be run, and all are their owner's alone to change."""
    if not files:
        return
    home.root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = home.root / Path(name).name  # never outside the folder, whatever a node sends
        path.write_bytes(content)
        if path == home.command:
            path.chmod(0o700)


def _tail(path: Path) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - TAIL_BYTES))
        content = stream.read(TAIL_BYTES)
    if size <= TAIL_BYTES:
        return content
    return b"[%d bytes before this were left on the server's host]\n" % (size - TAIL_BYTES) + content
