"""`search doctor`: what stands between a study and its first GPU minute."""

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
    from search.preflight.examine import Finding

_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


@command
def doctor(
    study: StudyOption = None,
    model: ModelOption = None,
    draft: DraftOption = None,
    reports: ReportsOption = DEFAULT_REPORTS,
    errors_only: Annotated[bool, typer.Option("--errors", help="Leave out what is fine.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Check GPUs, links, versions, weights, disk, ports and the plan itself before the first GPU minute."""
    if study is None:
        raise study_missing("check")
    say(f"search: checking {study}; asking an installed SGLang takes some seconds", err=True)
    import json
    from dataclasses import asdict

    from search.app.assembly import read_spec
    from search.dialects import for_release
    from search.preflight.examine import Level, examine, worst
    from search.preflight.gather import gather

    spec = read_spec(RunOptions(here=Path.cwd(), study=study, model=model, draft=draft))
    dialect = for_release(spec.engine.release)
    facts = gather(spec, dialect, reports=reports)
    findings = examine(spec, dialect, facts)
    gravest = worst(findings)
    if as_json:
        answer = {
            "study": spec.study,
            "worst": gravest.value,
            "findings": [asdict(finding) for finding in findings],
            "hardware": facts.machine.hardware.facts(),
        }
        say(json.dumps(answer, indent=1))
    else:
        _show(findings if not errors_only else tuple(each for each in findings if each.level is not Level.OK))
        counts = [sum(finding.level is level for finding in findings) for level in Level]
        ready = "cannot run here" if counts[2] else "can run here"
        say(f"{spec.study} {ready}: {counts[0]} ok, {counts[1]} warnings, {counts[2]} errors")
    if gravest is Level.ERROR:
        raise typer.Exit(int(ExitCode.HOST_UNFIT))


def _show(findings: tuple[Finding, ...]) -> None:
    """One line for each finding, and its way out below it; coloured on a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    width = max((len(finding.check) for finding in findings), default=0)
    for finding in findings:
        level = finding.level.value
        line = Text.assemble((f"{level:<8}", _STYLES[level]), (f"{finding.check:<{width}}  ", "bold"), finding.says)
        console.print(line)
        if finding.way_out:
            console.print(Text(f"{'':<8}{'':<{width}}  -> {finding.way_out}"))
