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
    pasted: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="TEXT|FILE",
            help="A launch command to reproduce, pasted whole, or a file that holds it; in place of --model.",
        ),
    ] = None,
    release: Annotated[
        str, typer.Option("--release", metavar="X.Y.Z", help="Of the command's SGLang; without it the installed one.")
    ] = "",
    name: Annotated[str | None, typer.Option("--name", help="Of the study; without it, from the model's.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; without it spaces/NAME.yaml.")
    ] = None,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Write a commented study file for a model and its draft; what it guesses is marked as a guess."""
    if pasted is not None:
        if model or draft:
            raise UsageError("A launch command names its own models: leave out `--model` and `--draft`.")
        _from_command(pasted, name=name, gpus=gpus, release=release, out=out)
        return
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
    _write(path, text)
    say(f"wrote {path}: {launches} configs to choose from")
    for line in text.splitlines():
        if "# GUESS: " in line:
            what, _, why = line.partition("# GUESS: ")
            say(f"  guessed {what.strip().removesuffix(':')} ({why})")
    if not made.known:
        say(f"warning: no config with speculation is legal here; `python -m search plan --study {study}` says why")
    say(f"next, here: python -m search plan --study {study}")
    say(f"next, on the host with the GPUs: python -m search doctor --study {study}")


def _from_command(pasted: str, *, name: str | None, gpus: str | None, release: str, out: Path | None) -> None:
    from search.app.init_command import study_of_command

    file = Path(pasted)
    text = file.read_text(encoding="utf-8") if "\n" not in pasted and len(pasted) < 256 and file.is_file() else pasted
    chosen = name or "command"
    path = out or Path("spaces") / f"{chosen}.yaml"
    if path.exists():
        raise UsageError(f"{path} is there already and is not overwritten. Choose another `--name` or `--out`.")
    made = study_of_command(text, name=chosen, gpus=gpus, release=release, path=path)
    _write(path, made.text)
    study = chosen if out is None else str(out)
    say(f"wrote {path}: the command is {made.config.config_id}, among {made.launches} configs")
    for remark in made.remarks:
        say(f"  {remark}")
    say(f"next: python -m search whatif --study {study} {made.config.config_id}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} was written by somebody else just now and is not overwritten.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Choose another `--out`.") from error
