"""Looks at models and machine, makes the guesses, and holds the text to what `plan` accepts."""

from __future__ import annotations

import os
from pathlib import Path

from search.app.init_guess import (
    Guess,
    deployment_of,
    gpus_found,
    gpus_given,
    guess_algorithm,
    guess_backend,
    guess_release,
    guess_tp,
    legal,
    trees_of,
    versions,
)
from search.app.init_text import Draft, render
from search.config import SpecConfig, SpecVersion
from search.dialects import for_release
from search.host.environment import model_folder
from search.host.hardware import installed_release, probe_hardware
from search.preflight.checkpoint import Checkpoint, read_checkpoint
from search.spec.file import parse_study


def draft_study(*, name: str, asked_as: str, model: str, draft: str, gpus: str | None, python: str) -> Draft:
    """Everything the file will say.

    Raises:
        UsageError: GPUs or release are not known.
    """
    room = gpus_given(gpus) if gpus else gpus_found(probe_hardware())
    target, drafted = _look(model), _look(draft) if draft else None
    architecture = target.architecture if target else ""
    algorithm = guess_algorithm(draft, drafted, architecture)
    tp = guess_tp(room, target, drafted)
    dialect, release = guess_release(installed_release(python), algorithm.value, architecture)
    deployment = deployment_of(
        model=model,
        draft=draft,
        algorithm=algorithm.value,
        architecture=architecture,
        tp=int(tp.value),
        gpus=room,
        release=release.value,
    )
    workers = versions(dialect, algorithm.value)
    backend = guess_backend(deployment, dialect, *trees_of(algorithm.value, workers[0]))
    tried = [config for worker in workers for config in trees_of(algorithm.value, worker)]
    fused = legal((SpecConfig(SpecVersion.OFF, allreduce_fusion="auto"),), deployment, dialect)
    return Draft(
        name=name,
        asked_as=asked_as,
        model=model,
        draft=draft,
        algorithm=algorithm,
        architecture=Guess(architecture),
        tp=tp,
        gpus=room,
        release=release,
        python=python,
        backend=backend,
        versions=workers,
        fusion=any(config.allreduce_fusion != "off" for config in fused),
        known=legal(tuple(tried), deployment, dialect),
        weight_gb=target.weight_bytes / 1e9 if target else 0.0,
        needs_code=target is not None and "auto_map" in target.config,
    )


def checked(draft: Draft, path: Path) -> tuple[str, int]:
    """The text, after it was read as a study, and how many configs it opens.

    Raises:
        UsageError: The study would not be accepted.
    """
    text = render(draft)
    spec = parse_study(text, name=str(path))
    return text, len(spec.space_of(for_release(spec.engine.release)).configs)


def _look(model: str) -> Checkpoint | None:
    folder = model_folder(model, os.environ)
    return read_checkpoint(folder) if folder is not None else None
