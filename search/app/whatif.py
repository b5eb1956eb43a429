"""Gathers what a prediction rests on: stored launches, a recording, or the cost model's own numbers."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path

from search.app.assembly import read_spec
from search.app.init_command import study_of_command
from search.app.init_guess import gpus_given
from search.app.options import DEFAULT_STORAGE, RunOptions
from search.app.recordings import spec_of_recording
from search.app.stored import require_database, spec_of
from search.dialects import for_release
from search.engines.recording import Recording, read_recording
from search.errors import UsageError
from search.physics.files import load_physics
from search.preflight.checkpoint_facts import knowing
from search.samplers.warm_start import earlier_evidence
from search.spec.file import parse_study
from search.spec.fingerprint import study_name
from search.spec.served import HardwareSpec
from search.spec.stored import stored_spec
from search.spec.study import StudySpec
from search.storage.store import Store
from search.storage.urls import storage_url
from search.whatif.answer import WhatIf
from search.whatif.ask import what_if
from search.whatif.evidence import Basis, basis_of_launches, basis_of_physics, basis_of_recording

_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\.?\w+)?")
_WHAT_MEASURES = ("model", "hardware", "engine", "measure")
"""Parts of a study file that change its numbers."""


def ask(options: RunOptions, text: str, recording: Path | None, *, release: str = "") -> WhatIf:
    """Answer a question from the best evidence there is. Needs no GPU and no database, and makes none.

    Args:
        options: With the study, or without one where the recording says enough.
        text: The config.
        recording: A recorded table to predict from.
        release: Of SGLang, for a recording that does not say it.

    Raises:
        UsageError: Study, recording, storage or config is wrong.
    """
    table = read_recording(recording) if recording is not None else None
    spec = read_spec(options) if options.study else _spec_of(table, options, release)
    dialect = for_release(spec.engine.release)
    physics = load_physics(spec.simulation.physics)
    basis = _recorded(spec, table) if table is not None else _stored(spec, options.storage)
    if basis is None:
        basis = basis_of_physics(spec, physics, spec.space_of(dialect).baselines)
    if spec.earlier:
        earlier = earlier_evidence(spec, spec.space_of(dialect))
        basis = replace(basis, earlier=earlier, words=(*basis.words, *earlier.words))
    return what_if(spec, text, dialect=dialect, physics=physics, basis=basis, study_option=options.study or "")


def ask_of_command(command: str, *, gpus: str | None, release: str) -> tuple[WhatIf, tuple[str, ...]]:
    """Answer about a pasted launch command, by priors alone; and say what was resolved or left out of it.

    Raises:
        UsageError: The command is not understood, the release would refuse it, or GPUs or release are not known.
    """
    made = study_of_command(command, name="command", gpus=gpus, release=release, path=Path("command"))
    spec = knowing(parse_study(made.text, name="command"), os.environ)
    dialect = for_release(spec.engine.release)
    physics = load_physics(spec.simulation.physics)
    basis = basis_of_physics(spec, physics, spec.space_of(dialect).baselines)
    return what_if(spec, made.config.config_id, dialect=dialect, physics=physics, basis=basis), made.remarks


def _spec_of(recording: Recording | None, options: RunOptions, release: str) -> StudySpec:
    assert recording is not None, "without a study there is a recording"
    spec = spec_of_recording(recording).with_models(target=options.model, draft=options.draft)
    if not spec.engine.release:
        spec = _of_table(spec, recording, release)
    return spec if options.seed is None else spec.model_copy(update={"seed": options.seed})


def _of_table(spec: StudySpec, recording: Recording, release: str) -> StudySpec:
    """The least study of a table, on the release and GPUs that the table or the command names."""
    versions = recording.meta.get("versions")
    sglang = str(versions.get("sglang", "")).strip() if isinstance(versions, dict) else ""
    # "0.5.9, patched" is not 0.5.9.
    name = release or (sglang if _RELEASE.fullmatch(sglang) else "")
    if not name:
        raise UsageError(
            f"Recording {recording.name!r} holds no study file and names no release, so it does not say what is legal. Name a study with "
            "`--study`, or the release with `--release`."
        )
    engine = spec.engine.model_copy(update={"release": name})
    try:
        gpus = gpus_given(str(recording.meta.get("gpus", "")))
    except UsageError:
        return spec.model_copy(update={"engine": engine})
    known = HardwareSpec(gpus=gpus.count, **asdict(gpus.hardware))
    model = spec.model.model_copy(update={"tp": gpus.count})
    return spec.model_copy(update={"engine": engine, "hardware": known, "model": model})


def _recorded(spec: StudySpec, recording: Recording) -> Basis:
    basis = basis_of_recording(spec, recording)
    if basis is None:
        first, second = spec.objective_names
        raise UsageError(
            f"A prediction needs one config with both {first} and {second}, but recording {recording.name!r} has none."
        )
    return basis


def _stored(spec: StudySpec, storage: str) -> Basis | None:
    """From the study's own launches; None where there are none."""
    url = storage_url(storage)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        if storage != DEFAULT_STORAGE:
            require_database(storage)
        return None
    name = study_name(spec.study, "measured")
    with Store(storage, read_only=True) as store:
        found = store.study(name)
        launches = store.launches(name) if found is not None else ()
    if found is None or not launches:
        return None
    then, now = stored_spec(spec_of(found)), stored_spec(spec)
    changed = [part for part in _WHAT_MEASURES if then[part] != now[part]]
    basis = basis_of_launches(spec, launches, name=name, changed=changed)
    return basis and replace(basis, words=(*basis.words, *found.notes))
