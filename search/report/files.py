"""Writes a report's files; a reader never sees half of one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from search.report.content import ReportContent
from search.report.frames import front_csv, trials_csv
from search.report.manifest import FILE_MODE, MANIFEST, FolderBusy, own_files, write_file
from search.report.markdown import summary
from search.report.payload import payload
from search.report.schedule import schedule_json
from search.report.scripts import launch_scripts
from search.storage.shapes import finite

__all__ = [
    "FILE_MODE",
    "MANIFEST",
    "SCRIPT_MODE",
    "json_text",
    "write_file",
    "write_page",
    "write_report",
    "write_tables",
]

SCRIPT_MODE = 0o755

_log = logging.getLogger(__name__)

_LOOKS_OURS = {
    "front.csv": lambda text: text.startswith("rank,config_id,"),
    "trials.csv": lambda text: text.startswith("launch,stage,config_id,"),
    "schedule.json": lambda text: text.startswith("{") and '"format"' in text,
    "front.json": lambda text: text.startswith("{") and '"study"' in text,
    "summary.md": lambda text: text.startswith("# "),
    "index.html": lambda text: text.startswith("<!doctype html>"),
}
_LOOKS_OUR_SCRIPT = {"*.sh": lambda text: _begins_as_ours(text), "*.json": lambda text: "candidate_steps" in text}


def write_report(folder: Path, content: ReportContent) -> None:
    """Write every file of the report into `folder` (`reports/<study>`), each atomically."""
    write_tables(folder, content)
    write_page(folder, content)


def write_tables(folder: Path, content: ReportContent) -> None:
    """Write all but the page: cheap enough for after every launch."""
    tables = {
        "front.csv": front_csv(content),
        "trials.csv": trials_csv(content),
        "front.json": json_text(payload(content)) + "\n",
        "schedule.json": json_text(schedule_json(content)) + "\n",
        "summary.md": summary(content),
    }
    _write(folder, tables)
    adaptive = {} if content.adaptive is None else {content.adaptive.name: content.adaptive.text}
    _write_scripts(folder, launch_scripts(content), {name: text for name, text in adaptive.items() if name})


def change_own(folder: Path, change: Callable[[str], str], *, write: bool) -> tuple[Path, ...]:
    """Rewrite what was made here in a report's folder and its `launch`; what a person wrote or changed is not opened.

    Args:
        folder: `reports/<study>`.
        change: From a file's text to its text.
        write: Change the files; else they are only looked at.

    Returns:
        The files that change.

    Raises:
        FolderBusy: Another program writes there.
    """
    changed: list[Path] = []
    for place, looks_ours in ((folder, _LOOKS_OURS), (folder / "launch", _LOOKS_OUR_SCRIPT)):
        if place.is_symlink() or not place.is_dir():
            continue
        with own_files(place, looks_ours, store=write) as own:
            for name in filter(own.owns, own.names):
                text = (place / name).read_bytes().decode("utf-8", errors="replace")
                if (new := change(text)) != text:
                    changed.append(place / name)
                    if write:
                        own.write(name, new, mode=(place / name).stat().st_mode & 0o777)
    return tuple(changed)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with own_files(folder, _LOOKS_OURS) as own:
            for name, text in texts.items():
                own.write(name, text)
    except FolderBusy as busy:
        _log.warning("%s", busy)


def json_text(value: object) -> str:
    """JSON for machines: what is no finite number is null, for JSON knows no other unknown."""
    return json.dumps(finite(value), indent=1, allow_nan=False)


def write_page(folder: Path, content: ReportContent) -> None:
    """Write `index.html`, some five megabytes with its plotting library."""
    from search.report.page import page

    _write(folder, {"index.html": page(content)})


def _write_scripts(folder: Path, scripts: Mapping[str, str], beside: Mapping[str, str]) -> None:
    """Write the picks' scripts, and what they name `beside` them; those of earlier picks go, or they would read as advice.

    A `launch` that is a link is nobody's to write into but its owner's.
    """
    place = folder / "launch"
    if place.is_symlink():
        _log.warning("%s is a symbolic link, so no launch script was written through it; remove it to have them", place)
        return
    place.mkdir(exist_ok=True)
    wanted = {Path(path).name: text for path, text in scripts.items()}
    try:
        with own_files(place, _LOOKS_OUR_SCRIPT) as own:
            for name in set(own.names) - wanted.keys() - beside.keys():
                own.remove(name)
            for name, text in wanted.items():
                own.write(name, text, mode=SCRIPT_MODE)
            for name, text in beside.items():
                own.write(name, text)
    except FolderBusy as busy:
        _log.warning("%s", busy)


def _begins_as_ours(text: str) -> bool:
    lines = text.split("\n", 3)
    return len(lines) > 2 and lines[1].startswith(("# v", "# off")) and lines[2].startswith("# study ")
