"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path

from search.report.content import ReportContent
from search.report.frames import front_frame, trials_frame
from search.report.markdown import summary
from search.report.payload import payload
from search.report.scripts import launch_scripts

SCRIPT_MODE = 0o755
FILE_MODE = 0o644


def write_report(folder: Path, content: ReportContent) -> None:
    """Write every file of the report into `folder` (`reports/<study>`), each atomically."""
    write_tables(folder, content)
    write_page(folder, content)


def write_tables(folder: Path, content: ReportContent) -> None:
    """Write all but the page: cheap enough for after every launch."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "front.csv", front_frame(content).to_csv(index=False))
    write_file(folder / "trials.csv", trials_frame(content).to_csv(index=False))
    write_file(folder / "front.json", json_text(payload(content)) + "\n")
    write_file(folder / "summary.md", summary(content))
    _write_scripts(folder, launch_scripts(content))


def json_text(value: object) -> str:
    """JSON for machines: what is no finite number is null, for JSON knows no other unknown."""
    return json.dumps(_finite(value), indent=1, allow_nan=False)


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {name: _finite(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value


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
    """Write the picks' scripts; those of earlier picks go, or they would read as advice."""
    place = folder / "launch"
    place.mkdir(exist_ok=True)
    for name, text in scripts.items():
        write_file(folder / name, text, mode=SCRIPT_MODE)
    for old in place.glob("*.sh"):
        if f"launch/{old.name}" not in scripts:
            old.unlink()
