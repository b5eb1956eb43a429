"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path

from search.report.content import ReportContent
from search.report.frames import front_csv, trials_csv
from search.report.markdown import summary
from search.report.payload import payload
from search.report.scripts import launch_scripts
from search.storage.shapes import finite

SCRIPT_MODE = 0o755
FILE_MODE = 0o644
MANIFEST = ".made-by-search.json"
"""In `launch/`: which scripts there were made here, with their hashes."""

_log = logging.getLogger(__name__)


def write_report(folder: Path, content: ReportContent) -> None:
    """Write every file of the report into `folder` (`reports/<study>`), each atomically."""
    write_tables(folder, content)
    write_page(folder, content)


def write_tables(folder: Path, content: ReportContent) -> None:
    """Write all but the page: cheap enough for after every launch."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "front.csv", front_csv(content))
    write_file(folder / "trials.csv", trials_csv(content))
    write_file(folder / "front.json", json_text(payload(content)) + "\n")
    write_file(folder / "summary.md", summary(content))
    _write_scripts(folder, launch_scripts(content))


def json_text(value: object) -> str:
    """JSON for machines: what is no finite number is null, for JSON knows no other unknown."""
    return json.dumps(finite(value), indent=1, allow_nan=False)


def write_page(folder: Path, content: ReportContent) -> None:
    """Write `index.html`, some five megabytes with its plotting library."""
    from search.report.page import page

    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "index.html", page(content))


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


def _write_scripts(folder: Path, scripts: dict[str, str]) -> None:
    """Write the picks' scripts; those of earlier picks go, or they would read as advice.

    Only files that were made here are replaced or deleted, as their hashes in the manifest tell: a script that a
    person wrote, changed or linked stays as it is. A `launch` that is a link is nobody's to write into but its owner's.
    """
    place = folder / "launch"
    if place.is_symlink():
        _log.warning("%s is a symbolic link, so no launch script was written through it; remove it to have them", place)
        return
    place.mkdir(exist_ok=True)
    made = _manifest(place)
    kept: dict[str, str] = {}
    for name in sorted({*made, *(Path(path).name for path in scripts)}):
        path, text = place / name, scripts.get(f"launch/{name}")
        is_there = path.is_symlink() or path.exists()
        if is_there and not _is_made(path, made.get(name)):
            if text is not None:
                _log.warning("%s was not written here, or changed since, and is left as it is", path)
        elif text is not None:
            write_file(path, text, mode=SCRIPT_MODE)
            kept[name] = _sha256(text.encode())
        elif is_there:
            path.unlink()
    if kept != made or not (place / MANIFEST).exists():
        write_file(place / MANIFEST, json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _manifest(place: Path) -> dict[str, str]:
    """Name -> hash of the scripts that were made in `place`.

    Without a manifest, as before there was one, those that begin as ours do.
    """
    path = place / MANIFEST
    if path.is_symlink() or not path.is_file():
        found = {old.name: old for old in place.glob("*.sh") if old.is_file() and not old.is_symlink()}
        return {name: _sha256(old.read_bytes()) for name, old in found.items() if _begins_as_ours(old)}
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict):
        return {}
    # A name alone: nothing outside of the folder, whatever stands in the file.
    return {name: str(value) for name, value in told.items() if name == Path(name).name and name.endswith(".sh")}


def _begins_as_ours(path: Path) -> bool:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n", 3)
    return len(lines) > 2 and lines[1].startswith(("# v", "# off")) and lines[2].startswith("# study ")


def _is_made(path: Path, sha256: str | None) -> bool:
    return not path.is_symlink() and path.is_file() and _sha256(path.read_bytes()) == sha256


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
