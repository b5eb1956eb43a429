"""Masks the secrets that versions before the masking left in databases, recordings, reports and logs of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from search.contracts import LaunchPaths
from search.engines.recording import MEASUREMENTS, META
from search.errors import UsageError
from search.masking import Masker
from search.report.files import change_own
from search.report.manifest import FolderBusy, write_file
from search.server.scrub import scrub
from search.spec import fingerprint as fingerprints
from search.spec.stored import secrets_of, without_secrets
from search.storage.heartbeat import owners_alive
from search.storage.owner import Mark
from search.storage.scrubbing import scrub_database, stored_specs
from search.storage.store import Store
from search.storage.urls import is_sqlite, shown, storage_url

_SPEC_KEYS = ("study_file", "spec")
_FINGERPRINT_KEYS = ("conditions", "fingerprint")
_NUMBER = 8
"""Characters up to which a value that reads as a number is taken for one, and looked for in no text."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where secrets are looked for.

    Attributes:
        storage: The database; one that is not there has none.
        reports: Holds a folder for each study.
        recordings: Holds a folder for each recording.
    """

    storage: str
    reports: Path
    recordings: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What holds secrets, or held them.

    Attributes:
        masked: One line for each file or column.
        left: What may still hold some, with the reason.
    """

    masked: tuple[str, ...]
    left: tuple[str, ...]


def scrub_places(places: Places, *, known: Iterable[Mapping[str, Any]] = (), write: bool) -> Found:
    """Mask what is a secret in what this program wrote; other files are not opened.

    A secret is known by its value from the stored study files, from `known` and from the variables with secret names of
    this process, and by its look everywhere else, as when it would be written today.

    Args:
        places: Where.
        known: Further study files, as data: a database that is masked already does not tell its secrets any more.
        write: Change the files; else they are only looked at.

    Raises:
        UsageError: To write, while a driver is at work in the database.
        StorageFault: The database cannot be used.
    """
    has_database = _has_database(places.storage)
    specs = [*known, *(stored_specs(places.storage) if has_database else ())]
    recordings = [place for place in _folders(places.recordings) if (place / META).is_file()]
    metas = [meta for place in recordings if isinstance(meta := _json_of(place / META), dict)]
    specs += [spec for meta in metas if isinstance(spec := meta.get("study_file"), dict)]
    inherited = Masker.of(env={}, inherited=os.environ).secrets
    masker = Masker(chain(inherited, (value for spec in specs for value in secrets_of(spec) if not _is_number(value))))
    masked: list[str] = []
    left: list[str] = []
    if has_database and write:
        _refuse_living_drivers(places.storage)
    files: list[tuple[Path, Callable[[Path], bool]]] = []
    for folder in _folders(places.reports):
        files += _of_launches(folder, masker, write=write)
        try:
            own = change_own(folder, masker.known, write=write)
        except FolderBusy as busy:
            left.append(str(busy))
        else:
            masked += map(str, own)
    for folder in recordings:
        files += _of_recording(folder, masker, write=write)
    open_files = _open_files()
    for path, change in files:
        if path.is_symlink() or not path.is_file():
            continue
        if path.resolve() in open_files:
            left.append(f"{path}: a process has it open; do this again when its launch is over")
            continue
        try:
            if change(path):
                masked.append(str(path))
        except OSError as error:
            left.append(f"{path}: {error.strerror}")
    # Last: what is stored there tells what to look for, also in a second attempt.
    if has_database:
        url = shown(storage_url(places.storage))
        changed = scrub_database(places.storage, _cell_of(masker), write=write)
        masked += [f"{url}: {one.place}, {one.rows} row{'' if one.rows == 1 else 's'}" for one in changed]
        if changed and write and not is_sqlite(storage_url(places.storage)):
            left.append(f"{url}: its server keeps old rows on disk until `VACUUM FULL`")
    return Found(tuple(masked), tuple(left))


def _cell_of(masker: Masker) -> Callable[[str, str, Any], Any]:
    def masked(_table: str, name: str, value: Any) -> Any:
        if name in ("why", "text") and isinstance(value, str):
            return masker.text(value)
        if name == "effective" and isinstance(value, dict):
            pairs = value.get("details")
            if not isinstance(pairs, list):
                return value
            details = [[pair[0], masker.tree(pair[1], str(pair[0]))] if _is_pair(pair) else pair for pair in pairs]
            return {**value, "details": details}
        return _tree(value, masker, name)

    return masked


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _tree(value: Any, masker: Masker, name: str = "") -> Any:
    """JSON data masked: study files and fingerprints in it as they are stored today."""
    if isinstance(value, dict) and name in _SPEC_KEYS:
        return without_secrets(value, masker)
    if isinstance(value, dict) and name in _FINGERPRINT_KEYS:
        return fingerprints.without_secrets(value, masker)
    if isinstance(value, dict) and any(key in value for key in (*_SPEC_KEYS, *_FINGERPRINT_KEYS)):
        return {key: _tree(inner, masker, key) for key, inner in value.items()}
    return masker.tree(value, name)


def _of_launches(folder: Path, masker: Masker, *, write: bool) -> Iterator[tuple[Path, Callable[[Path], bool]]]:
    """Every file of a report folder that has no manifest, and what masks it and says whether it held any secret."""

    def whole(path: Path) -> bool:
        return scrub(path, masker, write=write)

    yield folder / "run.log", whole
    for launch in _folders(folder / "launches"):
        paths = LaunchPaths(launch)
        for log in (paths.server_log, paths.shared_log, paths.stacks):
            yield log, whole
        yield paths.server_info, lambda path: _rewritten(path, lambda text: _json_text(text, masker), write=write)
        yield paths.command, lambda path: _rewritten(path, masker.known, write=write)


def _of_recording(folder: Path, masker: Masker, *, write: bool) -> Iterator[tuple[Path, Callable[[Path], bool]]]:
    yield folder / META, lambda path: _rewritten(path, lambda text: _json_text(text, masker), write=write)
    yield folder / MEASUREMENTS, lambda path: _rewritten(path, masker.known, write=write)


def _rewritten(path: Path, change: Callable[[str], str], *, write: bool) -> bool:
    text = path.read_bytes().decode("utf-8", errors="surrogateescape")
    new = change(text)
    if new == text:
        return False
    if write:
        write_file(path, new, mode=path.stat().st_mode & 0o777)
    return True


def _json_text(text: str, masker: Masker) -> str:
    """JSON masked value by value, as it is where none is a secret; damaged JSON as any text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return masker.text(text)
    masked = _tree(value, masker)
    return text if masked == value else json.dumps(masked, indent=1, ensure_ascii=False) + "\n"


def _json_of(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _folders(place: Path) -> list[Path]:
    """The folders in a folder, in order; links are somebody's own."""
    return sorted(path for path in place.iterdir() if path.is_dir() and not path.is_symlink()) if place.is_dir() else []


def _is_number(text: str) -> bool:
    """Whether a value is a setting and no secret: as a number it stands in tables everywhere."""
    try:
        float(text)
    except ValueError:
        return False
    return len(text) <= _NUMBER


def _has_database(storage: str) -> bool:
    url = storage_url(storage)
    return not is_sqlite(url) or Path(url.database or "").is_file()


def _refuse_living_drivers(storage: str) -> None:
    with Store(storage, read_only=True) as store:
        lives = owners_alive(store)
        living = [owner for owner in store.beats() if lives(owner)]
    if living:
        mark = Mark.read(living[0])
        who = f"process {mark.pid} on {mark.host}" if mark else living[0]
        raise UsageError(
            f"Secrets are masked while no driver is at work in the database, but {who} is. Wait for its end or stop it, then run "
            "the same command again."
        )


def _open_files() -> frozenset[Path]:
    """The files that processes of this user have open now."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            found.add(link.readlink())
    return frozenset(found)
