"""`--replay`: a study on a recorded table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from search.app.assembly import Assembly, RawWords, assembly_of, virtual_executor
from search.app.options import RunOptions
from search.errors import UsageError
from search.space import Space
from search.study.context import Recorded


def assemble_replayed(options: RunOptions, raw: RawWords) -> Assembly:  # noqa: ARG001
    """The parts of a study that launches nothing; its space is the table's."""
    from search.app.recordings import STUDY_FILE, recording_facts, require_baseline, spec_of_recording
    from search.engines import ReplayEngine
    from search.engines.recording import read_recording

    folder = options.replay
    assert folder is not None
    if options.study or options.model or options.draft:
        raise UsageError("A recording names its own study and models: leave out `--study`, `--model` and `--draft`.")
    recording = read_recording(folder)
    spec = spec_of_recording(recording)
    require_baseline(recording, spec)
    if options.seed is not None:
        spec = spec.model_copy(update={"seed": options.seed})
    assembly = assembly_of(
        options,
        spec,
        kind="replay",
        space=Space.recorded(recording.space()),
        facts=recording_facts(recording, folder),
        open_executor=virtual_executor(options, partial(ReplayEngine, recording)),
        dialect=None,
        name=recording.name,
    )
    # A table that no study wrote may hold any number of repeats for a reason of its own.
    repeats = recording.repeats_of_launch if STUDY_FILE in recording.meta else None
    starts = {config: len(numbers) for config, numbers in recording.starts().items()}
    return replace(assembly, recorded=Recorded(lambda config: starts.get(config, 0), repeats))
