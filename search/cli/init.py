"""`search init`: a first study file for a model and its draft."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.cli.guard import command, say
from search.cli.options import DebugOption
from search.errors import UsageError


@command
def init(
    model: Annotated[
        str | None, typer.Option("--model", metavar="PATH", help="The target: a folder or hub id.")
    ] = None,
    draft: Annotated[
        str, typer.Option("--draft", metavar="PATH", help="Its draft; without one, the target's own layers or NGRAM.")
    ] = "",
    gpus: Annotated[
        str | None, typer.Option("--gpus", metavar="'8x KIND'", help="The GPUs; without it, those of this machine.")
    ] = None,
    python: Annotated[
        str, typer.Option("--python", metavar="PATH", help="The interpreter SGLang lives in, if not our own.")
    ] = "",
    name: Annotated[str | None, typer.Option("--name", help="Of the study; without it, from the model's.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; without it spaces/NAME.yaml.")
    ] = None,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Write a commented study file for a model and its draft; what it guesses is marked as a guess."""
    if not model:
        raise UsageError("`--model` names the target, such as `--model /models/Kimi-K2.5`.")
    from search.app.init_guess import study_name
    from search.app.init_study import checked, draft_study

    chosen = name or study_name(model)
    path = out or Path("spaces") / f"{chosen}.yaml"
    if path.exists():
        raise UsageError(f"{path} is there already and is not overwritten. Choose another `--name` or `--out`.")
    study = chosen if out is None else str(out)
    made = draft_study(name=chosen, asked_as=study, model=model, draft=draft, gpus=gpus, python=python)
    text, launches = checked(made, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} was written by somebody else just now and is not overwritten.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Choose another `--out`.") from error
    say(f"wrote {path}: {launches} configs to choose from")
    for line in text.splitlines():
        if "# GUESS: " in line:
            what, _, why = line.partition("# GUESS: ")
            say(f"  guessed {what.strip()} ({why})")
    if not made.known:
        say(f"warning: no config with speculation is legal here; `python -m search plan --study {study}` says why")
    say(f"next: python -m search doctor --study {study}")
