"""`search record`: a study as a replayable table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.missing import stored_study_missing
from search.cli.options import DebugOption, StorageOption, StudyOption
from search.errors import UsageError


@command
def record(
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder to write, such as recordings/NAME.")],
    study: StudyOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Export a study's launches as a recording that `run --replay` takes."""
    if study is None:
        raise stored_study_missing("record", storage)
    if (to / "meta.json").exists():
        raise UsageError(f"`--to` names a new recording, but {to} holds one. Remove it, or choose another name.")
    from search.app.recordings import recording_of
    from search.app.stored import require_database, spec_of, stored_study
    from search.engines.recording import write_recording
    from search.storage.store import Store

    require_database(storage)
    with Store(storage, read_only=True) as store:
        found = stored_study(store, study)
        launches = store.launches(found.name)
    recording = recording_of(found, spec_of(found), launches, name=to.resolve().name)
    write_recording(to, recording)
    say(f"{to}: {len(recording.space())} configs in {len(recording.rows)} rows")
    say(f"replay it with: python -m search.run --replay {to}")
