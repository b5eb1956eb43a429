"""`search compare`: studies or recordings beside one another."""

from __future__ import annotations

from typing import Annotated

import typer

from search.app.options import DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.options import DebugOption, JsonOption, StorageOption


@command
def compare(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="A B [C ...]", help="Studies or folders of recordings, the oldest first."),
    ] = None,
    storage: StorageOption = DEFAULT_STORAGE,
    same_host: Annotated[
        bool, typer.Option("--same-host", help="One machine ran all of them: speeds compare, not gains alone.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Say what is better, worse or the same in B than in A, which decision changes, and where a change came in."""
    from search.app.compare import compare_tables
    from search.cli.compare_text import compared_json, compared_lines

    comparison = compare_tables(tables or (), storage, same_host=same_host)
    if as_json:
        import json

        say(json.dumps(compared_json(comparison), indent=1, allow_nan=False))
        return
    for line in compared_lines(comparison, same_host=same_host):
        say(line)
