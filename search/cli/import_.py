"""`search import`: somebody's table as a hand-made recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from search.cli.guard import command, say
from search.cli.options import DebugOption


def _option(*names: str, metavar: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(*names, metavar=metavar, help=text)
    return option


@command
def import_(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="CSV, Markdown or JSON lines; `-` for what is pasted.")],
    to: Annotated[Path, _option("--to", metavar="DIR", text="Folder to write, such as recordings/NAME.")],
    source: Annotated[
        str, _option("--source", metavar="TEXT", text="Where the numbers come from, such as a link.")
    ] = "",
    maps: Annotated[
        list[str] | None,
        _option(
            "--map", metavar="A=B", text="COLUMN=FIELD, LABEL=CONFIG, either =skip, or cells=FIELD; as often as needed."
        ),
    ] = None,
    where: Annotated[
        list[str] | None, _option("--where", metavar="COLUMN=VALUE", text="Only rows that hold it.")
    ] = None,
    spec_version: Annotated[
        str, _option("--spec-version", metavar="v1|v2", text="The worker, where rows do not say it.")
    ] = "",
    config: Annotated[str, _option("--config", metavar="CONFIG", text="Of every row, such as v2-k1-s2-d3.")] = "",
    at: Annotated[
        int | None, typer.Option("--at", min=1, max=4096, metavar="N", help="Concurrency of every row.")
    ] = None,
    number: Annotated[int | None, typer.Option("--table", min=1, metavar="N", help="Which table of the text.")] = None,
    model: Annotated[str, _option("--model", metavar="NAME", text="Target model.")] = "",
    draft: Annotated[str, _option("--draft", metavar="NAME", text="Draft model.")] = "",
    algorithm: Annotated[str, _option("--algorithm", metavar="NAME", text="Such as EAGLE3.")] = "",
    gpus: Annotated[str, _option("--gpus", metavar="'8x KIND'", text="What it ran on.")] = "",
    release: Annotated[str, _option("--release", metavar="X.Y.Z", text="Of SGLang.")] = "",
    date: Annotated[str, _option("--date", metavar="DATE", text="Of the numbers.")] = "",
    note: Annotated[str, _option("--note", metavar="TEXT", text="What one must know before believing them.")] = "",
    not_known: Annotated[
        list[str] | None,
        _option("--not-known", metavar="TEXT", text="What the source does not say; as often as needed."),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add to what was imported into DIR before.")] = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Make a recording of a table that somebody published or kept: for what-ifs, priors, comparisons and replays."""
    from search.app.import_meta import About
    from search.app.import_table import HowToRead, import_table

    made = import_table(
        None if table == "-" else Path(table),
        to,
        HowToRead(tuple(maps or ()), tuple(where or ()), spec_version, config, at, number),
        About(source, model, draft, algorithm, gpus, release, date, note, tuple(not_known or ())),
        add=add,
    )
    recording = made.recording
    say(f"{to}: {len({row.config for row in recording.rows})} configs in {len(recording.rows)} rows, hand-made")
    for remark in made.remarks:
        say(remark)
    say(f"ask it with: python -m search whatif --study NAME --recording {to} CONFIG")
