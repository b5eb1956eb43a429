"""Launch scripts for the picks, in two forms: to serve with, and to measure again as it was measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from search.analysis.findings import Pick
from search.metrics import number
from search.report.content import ReportContent
from search.report.text import bounds, one_line, role_words


@dataclass(frozen=True, slots=True)
class ScriptPaths:
    """Both scripts of a config, relative to the report's folder."""

    serving: str
    measuring: str


def script_names(content: ReportContent) -> dict[str, ScriptPaths]:
    """Config id -> its launch scripts.

    Only picks whose server command is known have some: a replayed table has no commands.
    """
    return {
        config_id: ScriptPaths(f"launch/{stem}.sh", f"launch/{stem}.measuring.sh")
        for pick in content.judgement.picks
        if (config_id := pick.result.config.config_id) in content.commands
        for stem in (_file_stem(config_id),)
    }


def launch_scripts(content: ReportContent) -> dict[str, str]:
    """Path -> text of every launch script."""
    names, scripts = script_names(content), dict[str, str]()
    for pick in content.judgement.picks:
        config_id = pick.result.config.config_id
        if config_id not in names:
            continue
        if (serving := content.serving.get(config_id)) is not None:
            changes = ["To serve. Not as it was measured:", *(f"- {one_line(change)}" for change in serving.changes)]
            scripts[names[config_id].serving] = _script(content, pick, changes, serving.text)
        measured = ["To measure: as every start of the study was launched, but for its port."]
        scripts[names[config_id].measuring] = _script(content, pick, measured, content.commands[config_id])
    return scripts


def _file_stem(config_id: str) -> str:
    """A config id as a file name: a knob's value may hold characters that a path must not."""
    return re.sub(r"[^A-Za-z0-9._=+-]", "_", config_id)


def _script(content: ReportContent, pick: Pick, form: Sequence[str], command: str) -> str:
    result = pick.result
    lines = [
        f"{result.config.config_id}: {', '.join(role_words(role) for role in pick.roles)}",
        f"study {content.study.name}, SGLang {content.spec.engine.release}",
        f"{content.label or 'MEASURED'}: {content.label_sentence}",
    ]
    for load, at in sorted(result.loads.items()):
        against = content.against(result, load)
        extrapolated = ", extrapolated" if at.extrapolated else ""
        lines.append(
            f"concurrency {load}: {number(at.rate.value)}{bounds(at.rate, band=at.band)} tok/s{against and f' ({against})'}{extrapolated}"
        )
    if result.notes:
        lines.append(f"notes: {' '.join(result.notes)}")
    header = "".join(f"# {one_line(line)}\n" for line in (*lines, *form))
    return f"#!/usr/bin/env bash\n{header}set -euo pipefail\n\n{command.strip()}\n"


def one_line_command(command: str) -> str:
    """The same command without line continuations, as a table's cell holds it."""
    return command.strip().replace(" \\\n  ", " ").removeprefix("exec ")
