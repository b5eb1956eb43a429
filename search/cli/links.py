"""`search links`: what an all-reduce costs between the GPUs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from search.app.options import DEFAULT_REPORTS, RunOptions
from search.cli.guard import command, say
from search.cli.missing import study_missing
from search.cli.options import DebugOption, DraftOption, JsonOption, ModelOption, ReportsOption, StudyOption
from search.errors import ExitCode

if TYPE_CHECKING:
    from search.preflight.links import LinkProbe

_SHOWN = (1, 4, 16, 64, 128, 512)


@command
def links(
    study: StudyOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    reports: ReportsOption = DEFAULT_REPORTS,
    hidden: Annotated[int | None, typer.Option(min=1, help="Hidden size, where no config.json says it.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the target, likewise.")] = None,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="Try the probe itself without GPUs; shows nothing of links.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Time NCCL's all-reduce between the GPUs of one server, under each NCCL setting of the study."""
    if study is None:
        raise study_missing("probe")
    import json

    from pydantic import TypeAdapter

    from search.app.assembly import read_spec
    from search.app.links import (
        StoredLinks,
        keep_links,
        measure_links,
        pass_words,
        setting_words,
        slower_than_twins,
        stored_links,
    )

    spec = read_spec(RunOptions(here=Path.cwd(), study=study, model=model, draft=draft))
    folder = Path(reports) / spec.study
    earlier = stored_links(folder)
    say(f"search: timing all-reduces of {spec.study} on {spec.model.tp} GPUs, some seconds a setting", err=True)
    found = measure_links(spec, hidden=hidden, layers=layers, backend="gloo" if cpu else "nccl")
    if as_json:
        say(json.dumps(TypeAdapter(StoredLinks).dump_python(found, mode="json"), indent=1))
    else:
        _show(found.probes)
        for probe in found.probes:
            if words := pass_words(probe, found.layers, (1, 4, 16, 128)):
                say(f"{setting_words(probe)}: {words}")
        for line in slower_than_twins(found, earlier):
            say(f"slower than its twin: {line}")
        say("NCCL alone: SGLang's custom all-reduce and fused kernels are others, and are not timed.")
    if any(probe.points for probe in found.probes) and not cpu:
        keep_links(folder, found)
    if not all(probe.points for probe in found.probes):
        raise typer.Exit(int(ExitCode.HOST_UNFIT))


def _show(probes: tuple[LinkProbe, ...]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from search.app.links import setting_words

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for name in ("latency us", "us a token", "knee", *(f"{tokens} tok" for tokens in _SHOWN), "GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    console = Console(soft_wrap=True, highlight=False)
    for probe in probes:
        fit = probe.fit
        if fit is None:
            continue
        by_size = {point.tokens: f"{point.us:.0f}" for point in probe.points}
        knee = "-" if fit.knee is None else f"{fit.knee:.0f}"
        largest = probe.bus_gbps(probe.points[-1].tokens)
        table.add_row(
            setting_words(probe), f"{fit.latency_us:.0f}", f"{fit.token_us:.2f}", knee,
            *(by_size.get(tokens, "-") for tokens in _SHOWN), "-" if largest is None else f"{largest:.1f}",
        )  # fmt: skip
    if table.row_count:
        console.print(table)
    for probe in probes:
        if probe.trouble:
            console.print(f"{setting_words(probe)}: {probe.trouble}")
