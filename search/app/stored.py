"""What is already in a storage: never makes a database just to look into it."""

from __future__ import annotations

import difflib
from pathlib import Path

from search.errors import UsageError
from search.spec.study import StudySpec
from search.storage.records import StudyRecord
from search.storage.store import Store
from search.storage.urls import storage_url


def require_database(storage: str) -> None:
    """Refuse a storage that has no file yet.

    Raises:
        UsageError: There is none; opening it would make an empty one.
    """
    url = storage_url(storage)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        raise UsageError(
            f"There is no database {url.database}. Name one with `--storage`, or make one with `python -m search run`."
        )


def stored_study(store: Store, name: str) -> StudyRecord:
    """A study by its name; `kimi-k25` means `kimi-k25.simulated` or `kimi-k25.replay` where only one is there.

    Raises:
        UsageError: There is no such study, or several; the known ones are listed.
    """
    if (exact := store.study(name)) is not None:
        return exact
    known = [study.name for study in store.studies()]
    variants = [other for other in known if other in (f"{name}.simulated", f"{name}.replay")]
    if len(variants) == 1:
        found = store.study(variants[0])
        assert found is not None
        return found
    if variants:
        raise UsageError(f"`--study` must name one study, but {name!r} may be {' or '.join(variants)}.")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(f"There is no study {name!r} in this storage.{hint} Known studies: {', '.join(known) or 'none'}.")


def spec_of(study: StudyRecord) -> StudySpec:
    """The study file as it was stored.

    Raises:
        UsageError: It was written by a version with other keys.
    """
    from pydantic import ValidationError

    try:
        return StudySpec.model_validate(dict(study.spec))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"The stored study file of {study.name!r} does not fit this version: `{place}`: {first['msg']}. "
            "Report it with the version that wrote it."
        ) from error
