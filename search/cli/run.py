"""`search run`: the main job."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE, RunOptions
from search.cli.guard import command, interrupts, say
from search.cli.options import (
    AcceptOption,
    DebugOption,
    DraftOption,
    ExecutorOption,
    HoursOption,
    JsonOption,
    LaunchesOption,
    ModelOption,
    QuietOption,
    RayAddressOption,
    ReplayOption,
    ReportsOption,
    SamplerOption,
    SeedOption,
    SimulateOption,
    StorageOption,
    StudyOption,
    VersionOption,
)


@command
def run(
    ctx: typer.Context,
    study: StudyOption = None,
    simulate: SimulateOption = False,
    replay: ReplayOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    launches: LaunchesOption = None,
    hours: HoursOption = None,
    seed: SeedOption = None,
    sampler: SamplerOption = None,
    executor: ExecutorOption = None,
    ray_address: RayAddressOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    accept_changes: AcceptOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,  # noqa: ARG001
    version: VersionOption = False,  # noqa: ARG001
) -> None:
    """Search a study: measure its configs, keep what was measured, write the report. Resumes by default."""
    options = RunOptions(
        here=Path.cwd(),
        study=study,
        simulate=simulate,
        replay=replay,
        storage=storage,
        reports=reports,
        launches=launches,
        hours=hours,
        seed=seed,
        sampler=sampler,
        executor=executor,
        ray_address=ray_address,
        model=model,
        draft=draft,
        accept_changes=accept_changes,
    )
    pressed = interrupts(ctx)
    if not quiet:
        # Before the imports that take a second or two: a person should see that something happens.
        what = f"replay of {replay}" if replay else f"study {study}" if study else "no study named"
        say(json.dumps({"event": "asked", "what": what}) if as_json else f"search: {what}", err=as_json)
    from search.app.run import Display
    from search.app.run import run as run_study
    from search.cli.display import display_for

    def display() -> Display:
        return display_for(sys.stderr if as_json else sys.stdout, quiet=quiet, as_json=as_json)

    run_study(options, display, pressed)
