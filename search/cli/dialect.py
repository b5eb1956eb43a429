"""`search dialect`: record what an installed SGLang itself says of argument sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.cli.guard import command, say
from search.cli.options import DebugOption
from search.errors import UsageError


@command
def dialect(
    source: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="ENVIRONMENT", help="A virtual environment that holds SGLang, or its interpreter."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to write; without it `verdicts/` of the checkout."),
    ] = None,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Record the verdicts of an installed release, from which its dialect is read; needs a checkout, no GPU."""
    if not source:
        raise UsageError(
            "`--from` names the environment whose SGLang is recorded, such as `--from /opt/sglang-0.5.24`."
        )
    from search.app.dialect import record_release

    for line in record_release(Path(source), out):
        say(line)
