"""Launch scripts for the picks: runnable, commented with the numbers that chose them."""

from __future__ import annotations

import re

from search.analysis.findings import Pick
from search.metrics import number
from search.report.content import ReportContent
from search.report.text import bounds, one_line, role_words


def script_names(content: ReportContent) -> dict[str, str]:
    """Config id -> path of its launch script, relative to the report's folder.

    Only picks whose server command is known have one: a replayed table has no commands.
    """
    return {
        pick.result.config.config_id: f"launch/{_file_stem(pick.result.config.config_id)}.sh"
        for pick in content.judgement.picks
        if pick.result.config.config_id in content.commands
    }


def launch_scripts(content: ReportContent) -> dict[str, str]:
    """Path -> text of every launch script."""
    names = script_names(content)
    return {
        names[pick.result.config.config_id]: _script(content, pick)
        for pick in content.judgement.picks
        if pick.result.config.config_id in names
    }


def _file_stem(config_id: str) -> str:
    """A config id as a file name: a knob's value may hold characters that a path must not."""
    return re.sub(r"[^A-Za-z0-9._=+-]", "_", config_id)


def _script(content: ReportContent, pick: Pick) -> str:
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
    header = "".join(f"# {one_line(line)}\n" for line in lines)
    command = content.commands[result.config.config_id].strip()
    return f"#!/usr/bin/env bash\n{header}set -euo pipefail\n\n{command}\n"


def one_line_command(command: str) -> str:
    """The same command without line continuations, as a table's cell holds it."""
    return command.strip().replace(" \\\n  ", " ").removeprefix("exec ")
