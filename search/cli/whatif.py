"""`search whatif`: is a config legal here, what would it measure, is it worth a launch or a patch?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE, RunOptions
from search.cli.guard import command, say
from search.cli.options import DebugOption, DraftOption, JsonOption, ModelOption, SeedOption, StorageOption, StudyOption
from search.errors import UsageError

RecordingOption = Annotated[
    Path | None,
    typer.Option("--recording", metavar="DIR", help="Predict from this recorded table, not from stored launches."),
]


@command
def whatif(
    config: Annotated[
        str | None, typer.Argument(metavar="CONFIG", help='Such as "topk=2 num_steps=2", or a config id.')
    ] = None,
    study: StudyOption = None,
    recording: RecordingOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    seed: SeedOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Say of one config: legal or not, its cost, what to expect, the launch that would decide it, the verdict."""
    if not config:
        raise UsageError(
            '`whatif` takes a config, but there is none. Give one, such as "topk=2 num_steps=2" or v1-k2-s2-d7.'
        )
    if study is None and recording is None:
        raise UsageError(
            "`--study` names the study to ask about, but it is missing. Give it, such as `--study kimi-k25`."
        )
    import json

    from search.app.whatif import ask

    options = RunOptions(here=Path.cwd(), study=study, storage=storage, seed=seed, model=model, draft=draft)
    answer = ask(options, config, recording)
    if as_json:
        say(json.dumps(answer.to_json(), indent=1, allow_nan=False))
        return
    from search.cli.whatif_text import print_answer

    print_answer(answer)
