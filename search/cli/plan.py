"""`search plan`: the space after all rules, the order of the first launches, the hours to expect."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from search.app.options import RunOptions
from search.cli.guard import command, say
from search.cli.missing import study_missing
from search.cli.options import (
    DebugOption,
    DraftOption,
    HoursOption,
    JsonOption,
    LaunchesOption,
    ModelOption,
    StudyOption,
)


@command
def plan(
    study: StudyOption = None,
    launches: LaunchesOption = None,
    hours: HoursOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    listed: Annotated[bool, typer.Option("--list", help="Every config and every dropped point.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Show what a study would launch, what its rules drop or lock and why, and how long it may take."""
    if study is None:
        raise study_missing("plan")
    import json

    from search.app.assembly import read_spec
    from search.app.plan import plan_of
    from search.preflight.gather import draft_findings

    spec = read_spec(RunOptions(here=Path.cwd(), study=study, model=model, draft=draft))
    made = plan_of(spec, launches=launches or spec.budget.launches, hours=hours)
    findings = draft_findings(spec)
    if as_json:
        say(json.dumps(made.to_json() | {"draft": [asdict(finding) for finding in findings]}, indent=1))
        return
    for line in made.lines(listed=listed):
        say(line)
    for finding in findings:
        say(f"{finding.level}: {finding.check}: {finding.says}; {finding.way_out}")
