"""Which studies there are to name: those of files, and those of a storage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from search.spec.file import packaged_spaces
from search.storage.store import Store
from search.storage.urls import storage_url

_TITLE = re.compile(r"^title:\s*(.+?)\s*$", re.MULTILINE)


def study_files(here: Path) -> Iterator[str]:
    """One line for each study file, by name: `kimi-k25   Kimi-K2.5 with EAGLE-3 (packaged)`.

    Args:
        here: The folder whose `spaces` is looked at before the packaged one.
    """
    found: dict[str, tuple[Path, str]] = {}
    for place, where in ((here / "spaces", "in ./spaces"), (packaged_spaces(), "packaged")):
        for path in sorted(place.glob("*.yaml")) if place.is_dir() else ():
            found.setdefault(path.stem, (path, where))
    width = max(map(len, found), default=0)
    for name, (path, where) in sorted(found.items()):
        title = _title(path)
        yield f"  {name:<{width}}  {title}{' ' if title else ''}({where})"


def stored_studies(storage: str) -> Iterator[str]:
    """One line for each study of a storage: its name and how many launches it has; none where there is no database."""
    url = storage_url(storage)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        return
    with Store(storage, read_only=True) as store:
        counted = [(study.name, len(store.launches(study.name))) for study in store.studies()]
    width = max((len(name) for name, _ in counted), default=0)
    for name, launches in counted:
        yield f"  {name:<{width}}  {launches} launch{'' if launches == 1 else 'es'}"


def _title(path: Path) -> str:
    """Of a file that may be wrong in any way: only its own line is looked at, and a pipe is not waited for."""
    if not path.is_file():
        return ""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")[:20_000]
    except OSError:
        return ""
    found = _TITLE.search(text)
    return found[1].strip("'\"") if found else ""
