"""Looks at models and machine, makes the guesses, and holds the text to what `plan` accepts."""

from __future__ import annotations

import os
from pathlib import Path

from search.app.init_guess import (
    Guess,
    chains_only,
    deployment_of,
    gpus_found,
    gpus_given,
    guess_algorithm,
    guess_backend,
    guess_release,
    guess_tp,
    legal,
    steps_of,
    trees_of,
    versions,
)
from search.app.init_text import Draft, render
from search.config import SpecConfig, SpecVersion
from search.dialects import for_release, known_releases
from search.errors import UsageError
from search.host.environment import model_folder
from search.host.hardware import installed_release, probe_hardware
from search.load.chat_template import read_chat_template
from search.preflight.checkpoint import Checkpoint, read_checkpoint
from search.preflight.checkpoint_facts import facts_of
from search.preflight.models import algorithm_of, only_drafts
from search.preflight.requirements import is_local
from search.spec.file import parse_study


def draft_study(*, name: str, asked_as: str, model: str, draft: str, gpus: str | None, python: str) -> Draft:
    """Everything the file will say.

    Args:
        name: Of the study.
        asked_as: The command that asked for it, for the file's first comment.
        model: Path or hub name of the target.
        draft: Of the draft; empty without one.
        gpus: As `8xH200`; None for those of this machine.
        python: The interpreter that has SGLang.

    Raises:
        UsageError: GPUs or release are not known; a model's folder is not there or cannot be read; the target is
            a draft head, or the draft belongs to an algorithm that is not driven.
    """
    room = gpus_given(gpus) if gpus else gpus_found(probe_hardware())
    target, drafted = _look("--model", model), _look("--draft", draft) if draft else None
    if target is not None and only_drafts(target):
        raise UsageError(
            f"`--model` names what is served, but {target.architecture} in {model} only drafts, for "
            f"{algorithm_of(target)}. Name the model that it was made for, and it as `--draft`."
        )
    architecture = target.architecture if target else ""
    installed = installed_release(python)
    algorithm = guess_algorithm(draft, drafted, target, installed or known_releases()[-1])
    tp = guess_tp(room, target, drafted)
    dialect, release = guess_release(installed, algorithm.value, architecture)
    facts = facts_of(target) if target is not None else None
    deployment = deployment_of(
        model=model,
        draft=draft,
        algorithm=algorithm.value,
        architecture=architecture,
        tp=int(tp.value),
        gpus=room,
        release=release.value,
        target_facts=facts,
        draft_facts=facts_of(drafted) if drafted is not None else None,
    )
    workers = versions(dialect, algorithm.value)
    chains = chains_only(deployment, dialect)
    if chains:
        workers = workers[-1:]
    chain, tree = trees_of(algorithm.value, workers[0])
    backend = Guess("") if chains else guess_backend(deployment, dialect, chain, tree)
    tried = [config for worker in workers for config in trees_of(algorithm.value, worker)[: 1 if chains else 2]]
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
        topk=(1,) if chains else (1, 2, 4),
        steps=steps_of(deployment),
        block=deployment.draft_facts.block_size if deployment.draft_facts else 0,
        fusion=any(config.allreduce_fusion != "off" for config in fused),
        known=legal(tuple(tried), deployment, dialect),
        weight_gb=target.weight_bytes / 1e9 if target else 0.0,
        needs_code=target is not None and "auto_map" in target.config,
        chat=target is not None and _has_chat_template(model),
    )


def _has_chat_template(model: str) -> bool:
    folder = model_folder(model, os.environ)
    try:
        return folder is not None and bool(read_chat_template(folder).text)
    except UsageError:
        return False


def checked(draft: Draft, path: Path) -> tuple[str, int]:
    """The text, after it was read as a study, and how many configs it opens.

    Raises:
        UsageError: The study would not be accepted.
    """
    text = render(draft)
    spec = parse_study(text, name=str(path))
    return text, len(spec.space_of(for_release(spec.engine.release)).configs)


def _look(option: str, model: str) -> Checkpoint | None:
    """What lies under a path, or in the hub's cache; None for a hub id that is not there.

    Raises:
        UsageError: A path with nothing there, or a configuration that cannot be read.
    """
    folder = model_folder(model, os.environ)
    if folder is None:
        if is_local(model):
            raise UsageError(f"`{option}` names a folder or a hub id, but nothing is at {model}. Correct the path.")
        return None
    found = read_checkpoint(folder)
    if not found.config:
        raise UsageError(f"`{option}` needs the model's config.json, but in {folder} {found.faults[0]}. Copy it there.")
    return found
