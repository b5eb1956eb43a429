"""Which files of a report folder were made here: no other is written over or deleted.

A file is known by its name and the hash of what was written last. Before a file is replaced, the manifest holds both
its old and its new hash, so that a writer that is killed in between leaves nothing that looks like a person's. Drivers
that share a folder write in turn, under a lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

FILE_MODE = 0o644
MANIFEST = ".made-by-search.json"
LOCK_S = 10.0
"""How long another writer of the folder is waited for; then this renewal of the report is left out."""

_PAUSE_S = 0.05
_log = logging.getLogger(__name__)


class FolderBusy(Exception):
    """Another writer has held the folder for `LOCK_S`."""


def write_file(path: Path, text: str, *, mode: int = FILE_MODE) -> None:
    """Replace `path` in one step; a symbolic link at `path` is replaced, not followed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class OwnFiles:
    """The files in one folder that were made here. See `own_files`.

    Attributes:
        names: Of those that the manifest knows.
    """

    def __init__(self, folder: Path, known: Mapping[str, tuple[str, ...]]) -> None:
        self._folder = folder
        self._known = dict(known)
        self._stored = dict(known) if (folder / MANIFEST).is_file() else None

    @property
    def names(self) -> tuple[str, ...]:
        """See the class."""
        return tuple(self._known)

    def owns(self, name: str) -> bool:
        """Whether what is there now is what was written here last."""
        return (there := _hash_of(self._folder / name)) is not None and there in self._known.get(name, ())

    def write(self, name: str, text: str, *, mode: int = FILE_MODE) -> bool:
        """Write a file, unless a person wrote, changed or linked the one that is there; whether it was written."""
        path, wanted = self._folder / name, _sha256(text.encode())
        there = _hash_of(path)
        if there is not None and there not in self._known.get(name, ()):
            _log.warning("%s was not written here, or changed since, and is left as it is; move it to have ours", path)
            self._known.pop(name, None)
            return False
        if there == wanted:
            self._known[name] = (wanted,)
            return True
        self._known[name] = (wanted,) if there is None else (there, wanted)
        self.store()
        write_file(path, text, mode=mode)
        self._known[name] = (wanted,)
        return True

    def remove(self, name: str) -> None:
        """Delete a file that was made here; one that was changed since is a person's."""
        path = self._folder / name
        if (there := _hash_of(path)) is not None and there in self._known.get(name, ()):
            path.unlink()
        self._known.pop(name, None)

    def store(self) -> None:
        """Renew the manifest where anything is other than it says."""
        if self._known == self._stored:
            return
        hashes_of = {name: hashes[0] if len(hashes) == 1 else list(hashes) for name, hashes in self._known.items()}
        write_file(self._folder / MANIFEST, json.dumps(hashes_of, indent=1, sort_keys=True) + "\n")
        self._stored = dict(self._known)


@contextmanager
def own_files(
    folder: Path, looks_ours: Mapping[str, Callable[[str], bool]], *, store: bool = True
) -> Iterator[OwnFiles]:
    """The own files of a folder, locked against other writers until the block ends.

    Args:
        folder: Is there.
        looks_ours: By pattern of a name: whether a text begins as ours do; asked while there is no manifest, as before
            there was one.
        store: Renew the manifest in the end; else it is only looked at.

    Raises:
        FolderBusy: Another writer holds it.
    """
    with _locked(folder):
        own = OwnFiles(folder, _known(folder, looks_ours))
        try:
            yield own
        finally:
            if store:
                own.store()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the folder itself: no file is left behind
    try:
        end = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise FolderBusy(
                        f"the report in {folder} was not renewed: another program has been writing there for {LOCK_S:g} s"
                    ) from None
                time.sleep(_PAUSE_S)
            except OSError:
                break  # a file system without locks: writers there are on their own
        yield
    finally:
        os.close(handle)


def _known(folder: Path, looks_ours: Mapping[str, Callable[[str], bool]]) -> dict[str, tuple[str, ...]]:
    """Name -> hashes of what may be there of ours."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        found: dict[str, tuple[str, ...]] = {}
        for pattern, ours in looks_ours.items():
            for old in folder.glob(pattern):
                if old.is_symlink() or not old.is_file():
                    continue
                with suppress(OSError), old.open(encoding="utf-8", errors="replace") as stream:
                    if ours(stream.read(4096)):
                        found[old.name] = (_sha256(old.read_bytes()),)
        return found
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    # A name alone: nothing outside of the folder, whatever stands in the file.
    return {
        name: tuple(map(str, value)) if isinstance(value, list) else (str(value),)
        for name, value in data.items()
        if name == Path(name).name and any(Path(name).match(pattern) for pattern in looks_ours)
    }


def _hash_of(path: Path) -> str | None:
    """Of what is there; None where nothing is, and of no hash's form where it is no plain file."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return "no file"
    return _sha256(path.read_bytes()) if path.exists() else None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
