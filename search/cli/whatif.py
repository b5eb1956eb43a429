"""`search whatif`: is a config legal here, what would it measure, is it worth a launch or a patch?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE, RunOptions
from search.cli.guard import command, say
from search.cli.missing import study_missing
from search.cli.options import DebugOption, DraftOption, JsonOption, ModelOption, SeedOption, StorageOption, StudyOption
from search.errors import UsageError

RecordingOption = Annotated[
    Path | None,
    typer.Option("--recording", metavar="DIR", help="Predict from this recorded table, not from stored launches."),
]


@command
def whatif(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CONFIG", help="Such as topk=2 num_steps=2, or a config id.")
    ] = None,
    study: StudyOption = None,
    recording: RecordingOption = None,
    pasted: Annotated[
        str | None,
        typer.Option(
            "--command", metavar="TEXT", help="A launch command, pasted whole, in place of a study and a config."
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="'8x KIND'", help="Of the command; without it, those of this machine."),
    ] = None,
    release: Annotated[
        str,
        typer.Option(
            "--release", metavar="X.Y.Z", help="Of SGLang, for a command or a recording that does not say it."
        ),
    ] = "",
    storage: StorageOption = DEFAULT_STORAGE,
    seed: SeedOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    brief: Annotated[bool, typer.Option("--brief", help="The answer in three lines, without the evidence.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Say of one config: legal or not, its cost, what to expect, the launch that would decide it, the verdict."""
    config = " ".join(words or ())
    if pasted is not None:
        if config or study or recording:
            raise UsageError(
                "A launch command names its own config and models: leave out CONFIG, `--study` and `--recording`."
            )
        _of_command(pasted, gpus=gpus, release=release, as_json=as_json, brief=brief)
        return
    if not config:
        raise UsageError(
            '`whatif` takes a config, but there is none. Give one, such as "topk=2 num_steps=2" or v1-k2-s2-d7.'
        )
    if study is None and recording is None:
        raise study_missing("ask about")
    import json

    from search.app.whatif import ask

    options = RunOptions(here=Path.cwd(), study=study, storage=storage, seed=seed, model=model, draft=draft)
    answer = ask(options, config, recording, release=release)
    if as_json:
        say(json.dumps(answer.to_json(), indent=1, allow_nan=False))
        return
    from search.cli.whatif_text import print_answer

    print_answer(answer, brief=brief)


def _of_command(pasted: str, *, gpus: str | None, release: str, as_json: bool, brief: bool) -> None:
    import json

    from search.app.whatif import ask_of_command

    answer, remarks = ask_of_command(pasted, gpus=gpus, release=release)
    if as_json:
        say(json.dumps(answer.to_json() | {"command": list(remarks)}, indent=1, allow_nan=False))
        return
    from search.cli.whatif_text import print_answer

    print_answer(answer, brief=brief)
    for remark in remarks:
        say(f"the command: {remark}")
    say("`python -m search init --command ...` writes the study file that reproduces it")
