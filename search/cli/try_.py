"""`search try`: one launch now, outside the search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE, RunOptions
from search.cli.guard import command, interrupts, say
from search.cli.missing import study_missing
from search.cli.options import (
    DebugOption,
    DraftOption,
    ExecutorOption,
    JsonOption,
    ModelOption,
    QuietOption,
    RayAddressOption,
    ReplayOption,
    ReportsOption,
    SeedOption,
    SimulateOption,
    StorageOption,
    StudyOption,
)

RAW = "--raw"
_RAW_WORDS = "search.raw"


class RawCommand(TyperCommand):
    """Keeps every word after `--raw` from being parsed: they belong to the server."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        """See typer; the raw words go to `ctx.meta`."""
        if RAW in args:
            place = args.index(RAW)
            ctx.meta[_RAW_WORDS] = tuple(args[place + 1 :])
            args = args[: place + 1]
        return super().parse_args(ctx, args)


@command
def try_(
    ctx: typer.Context,
    config_words: Annotated[
        list[str] | None, typer.Argument(metavar="[CONFIG]", help="Such as topk=2 num_steps=2, or a config id.")
    ] = None,
    study: StudyOption = None,
    simulate: SimulateOption = False,
    replay: ReplayOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    seed: SeedOption = None,
    executor: ExecutorOption = None,
    ray_address: RayAddressOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    raw: Annotated[
        bool,
        typer.Option(RAW, help="Send all words after it to the server exactly: NAME=VALUE first, then arguments."),
    ] = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Launch one config now, measure it, and say what really ran."""
    if study is None and replay is None:
        raise study_missing("launch a config of")
    options = RunOptions(
        here=Path.cwd(),
        study=study,
        simulate=simulate,
        replay=replay,
        storage=storage,
        reports=reports,
        seed=seed,
        executor=executor,
        ray_address=ray_address,
        model=model,
        draft=draft,
    )
    if not quiet:
        label = " [SIMULATED]" if simulate else " [REPLAY]" if replay is not None else ""
        say(f"search: one launch for study {study or replay}{label}", err=as_json)
    import json

    from search.app.try_one import try_config
    from search.cli.try_text import tried_lines, tried_result

    words = ctx.meta.get(_RAW_WORDS, ()) if raw else None

    def launching(asked: object) -> None:
        if not quiet:
            say(f"launching {asked}", err=as_json)

    def remarked(line: str) -> None:
        say(line, err=True)

    config = " ".join(config_words or ()) or None
    tried = try_config(options, config, words, launching=launching, remarked=remarked, interrupts=interrupts(ctx))
    lines = [json.dumps(tried_result(tried.record), indent=1, allow_nan=False)] if as_json else tried_lines(tried)
    for line in lines:
        say(line)
    if tried.error is not None:
        raise tried.error
