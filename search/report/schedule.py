"""`schedule.json`: what to run at which load, for programs that route by it; and SGLang's adaptive-steps file.

The format is documented in docs/report.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from search.report.blocks import Block, Cell, Column, Lines, Row, Text, config_cell, gain_cell, table
from search.report.content import ReportContent
from search.report.scripts import script_names
from search.report.text import rounded

FORMAT = 1
RULE = "Take the last entry whose `from` is at most the number of requests in flight."


def schedule_json(content: ReportContent) -> dict[str, Any]:
    """The file's content; without entries where nothing may be said."""
    schedule, scripts = content.schedule, script_names(content)
    stretches = () if schedule is None else schedule.stretches
    single = None if schedule is None else schedule.single
    adaptive = content.adaptive
    return {
        "format": FORMAT,
        "study": content.study.name,
        "label": content.label or "MEASURED",
        "release": content.spec.engine.release,
        "rule": RULE,
        "entries": [
            {
                "from": one.start,
                "config_id": one.config.config_id,
                "measured_at": list(one.measured),
                "shown": one.shown,
                "gain_ratio": rounded(one.gain.value if one.gain else None),
                "gain_ratio_lo": rounded(one.gain.lo if one.gain else None),
                "gain_ratio_hi": rounded(one.gain.hi if one.gain else None),
                "script": scripts[name].serving if (name := one.config.config_id) in scripts else None,
            }
            for one in stretches
        ],
        "single": None if single is None else {"config_id": single.config.config_id, "worse_at": list(single.loses)},
        "adaptive": None
        if adaptive is None or not adaptive.text
        else {
            "file": f"launch/{adaptive.name}",
            "steps_by_load": {str(load): steps for load, steps in adaptive.steps.items()},
            "start": adaptive.start.config_id if adaptive.start else None,
            "flags": list(adaptive.flags),
        },
        "adaptive_why_not": adaptive.why_not if adaptive is not None and not adaptive.text else None,
    }


def schedule(content: ReportContent) -> Iterator[Block]:
    """The section of the page."""
    answer = content.schedule
    if answer is None or not answer.stretches:
        return
    yield Text(
        "What to run from how many requests in flight on, as measured loads say it; between them nothing was measured. "
        "`schedule.json` has it for programs.",
        aside=True,
    )
    yield table(
        (Column("from", numeric=True), Column("run"), Column("gain", numeric=True), Column("measured at")),
        [
            Row(
                (
                    Cell(str(one.start)),
                    config_cell(one.config),
                    Cell("-") if one.gain is None else gain_cell(one.gain),
                    Cell(", ".join(f"C={load}" for load in one.measured)),
                ),
                marked=one.shown,
            )
            for one in answer.stretches
        ],
    )
    yield Lines(tuple(lines(content)))


def lines(content: ReportContent) -> Iterator[str]:
    """Whether a schedule pays against one config, and whether SGLang can run it by itself."""
    by_load, adaptive = content.schedule, content.adaptive
    if by_load is None or not by_load.stretches:
        return
    if by_load.single is not None:
        where = ", ".join(f"C={load}" for load in by_load.single.loses)
        yield f"The best single config over these loads is `{by_load.single.config}`" + (
            f"; something else is shown to be better at {where}."
            if where
            else ", and nothing is shown to be better anywhere."
        )
    if adaptive is None:
        return
    if adaptive.text:
        yield (
            f"SGLang {content.spec.engine.release} can switch by itself: add `{' '.join(adaptive.flags)}` to the command of "
            f"`{adaptive.start}`. Not measured as such: `python -m benchmarks.schedule_race` races it in real starts."
        )
    else:
        yield f"No adaptive-steps file: {adaptive.why_not}."
