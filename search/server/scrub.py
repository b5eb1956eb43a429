"""Takes the secrets out of a log once nobody writes it any more."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from search.masking import Masker

_log = logging.getLogger(__name__)

_LONGEST = 2**20
"""Bytes of a line that are looked at together."""
_BORDERS = b" \t,;\"'()[]{}"


def scrub(path: Path, masker: Masker, *, write: bool = True) -> bool:
    """Mask every secret in a file that its writers have closed; a missing one stays missing.

    The file is replaced as a whole and only where something changes, so that a reader never sees half of one.
    Where it cannot be rewritten, such as on a full disk, it is left as it is, its owner's alone to read, and that is
    said: it is what shows why a launch failed.

    Returns:
        Whether it holds any; without `write` it is only looked at.
    """
    if not write:
        return _holds_secrets(path, masker)
    try:
        mode = path.stat().st_mode & 0o777
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        clean = Path(name)
        try:
            if changed := _masked(path, handle, masker):
                clean.chmod(mode)
                clean.replace(path)
            return changed
        finally:
            clean.unlink(missing_ok=True)
    except FileNotFoundError:
        return False
    except OSError as error:
        _log.warning("%s may hold secrets, because it could not be rewritten: %s", path, error)
        return False


def _holds_secrets(path: Path, masker: Masker) -> bool:
    try:
        with path.open("rb") as source:
            texts = (piece.decode("utf-8", errors="surrogateescape") for piece in _pieces(source))
            return any(masker.text(text) != text for text in texts)
    except OSError:
        return False


def _masked(path: Path, handle: int, masker: Masker) -> bool:
    """Copy a file into an open one with its secrets masked; whether anything is other than before."""
    changed = False
    with path.open("rb") as source, os.fdopen(handle, "wb") as target:
        for piece in _pieces(source):
            text = piece.decode("utf-8", errors="surrogateescape")
            masked = masker.text(text)
            changed |= masked != text
            target.write(masked.encode("utf-8", errors="surrogateescape"))
    return changed


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    """Lines; an endless one in parts that end between words where they can."""
    rest = b""
    while line := source.readline(_LONGEST):
        line = rest + line
        rest = b""
        if not line.endswith(b"\n") and len(line) >= _LONGEST:
            cut = max(line.rfind(border) for border in (bytes([byte]) for byte in _BORDERS)) + 1
            if cut > 0 and len(line) - cut < _LONGEST // 2:
                line, rest = line[:cut], line[cut:]
        yield line
    if rest:
        yield rest
