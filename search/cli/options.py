"""The options that commands share, spelled once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from search import __version__
from search.spec.samplers import SAMPLERS

StudyOption: TypeAlias = Annotated[
    str | None, typer.Option("--study", metavar="NAME", help="A study's name (in ./spaces, then packaged) or file.")
]
SimulateOption: TypeAlias = Annotated[
    bool, typer.Option("--simulate", help="Use the calibrated cost model instead of GPUs.")
]
ReplayOption: TypeAlias = Annotated[
    Path | None, typer.Option("--replay", metavar="DIR", help="Use a recorded table; the study is in its meta.json.")
]
StorageOption: TypeAlias = Annotated[
    str, typer.Option("--storage", metavar="URL", help="Database: a path, sqlite:///… or postgresql://…")
]
ReportsOption: TypeAlias = Annotated[Path, typer.Option("--reports", metavar="DIR", help="Where reports go.")]
LaunchesOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--launches", min=1, metavar="N", help="Measurements of the study's whole life; a start holds one, or several."
    ),
]
HoursOption: TypeAlias = Annotated[
    float | None, typer.Option("--hours", min=0.01, metavar="H", help="Hours of the study's whole life.")
]
SeedOption: TypeAlias = Annotated[
    int | None, typer.Option("--seed", min=0, max=2**32 - 1, metavar="N", help="Of sampler and simulation.")
]
SamplerOption: TypeAlias = Annotated[
    str | None, typer.Option("--sampler", metavar="NAME", help=f"One of {', '.join(SAMPLERS)}.")
]
ExecutorOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--executor", metavar="ray|inline", help="Where servers are held: Ray actors, or this process."),
]
RayAddressOption: TypeAlias = Annotated[
    str | None, typer.Option("--ray-address", metavar="ADDRESS", help="A running Ray cluster; a local one without it.")
]
ModelOption: TypeAlias = Annotated[
    str | None, typer.Option("--model", metavar="PATH", help="Another target model than the study file's.")
]
DraftOption: TypeAlias = Annotated[
    str | None, typer.Option("--draft", metavar="PATH", help="Another draft model than the study file's.")
]
AcceptOption: TypeAlias = Annotated[
    bool,
    typer.Option("--accept-changes", help="Go on although the environment or study file changed; the study is marked."),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="The result as JSON on stdout, events as JSON lines on stderr.")
]


def _say_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"search {__version__}\n")
        raise typer.Exit


VersionOption: TypeAlias = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Its version.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("-q", "--quiet", help="Only the end.")]
DebugOption: TypeAlias = Annotated[bool, typer.Option("--debug", help="Errors with their traceback.")]
