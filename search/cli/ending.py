"""The last lines of a run: the front as a table, the files in one line, and the decision last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from search.metrics import gain_percent, number, own_axes
from search.report.content import ReportContent
from search.report.decision import Decision, decide
from search.report.files import json_text
from search.report.payload import payload
from search.report.scripts import script_names
from search.report.text import axis_words, metric_number, score_words
from search.study.events import Ending

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_LOADS_SHOWN = 5


def end_of(content: ReportContent, folder: Path) -> Iterator[RenderableType]:
    """What a run ends with, also when it was interrupted: everything else first, then what to do."""
    from rich.text import Text

    decision = decide(content)
    if content.judgement.front and not content.is_rehearsal:
        yield Text()
        yield _front(content)
    for answer in content.judgement.verdicts:
        yield Text.assemble((answer.name, "bold"), f": {answer.verdict}")
    yield Text()
    yield _files(content, folder)
    yield from _decision(content, decision)


def _decision(content: ReportContent, decision: Decision) -> Iterator[Text]:
    from rich.text import Text

    yield Text()
    if content.label:
        yield Text.assemble((f"{content.label}: ", "bold yellow"), content.label_sentence)
    for line in decision.warnings:
        yield Text.assemble(("! ", "bold yellow"), marked(line))
    for line in decision.basis:
        yield Text.assemble("  ", marked(line), style="dim")
    yield marked(decision.sentence, style="bold")
    if decision.next:
        yield marked(decision.next)


def marked(line: str, *, style: str = "") -> Text:
    """A line whose ids and commands, which stand between backticks, stand out."""
    from rich.text import Text

    text = Text(style=style)
    for place, part in enumerate(re.split("`", line)):
        text.append(part, "cyan" if place % 2 else "")
    return text


def result_json(content: ReportContent, folder: Path, ending: Ending | None = None) -> str:
    """The result for machines: `front.json`, why the run ended, and where the files are."""
    result = payload(content) | {"report": str(folder)}
    return json_text(result | ({"ending": ending.value} if ending else {}))


def _files(content: ReportContent, folder: Path) -> Text:
    from rich.text import Text

    scripts = [paths.serving for paths in script_names(content).values()]
    names = ["front.csv", "trials.csv", "summary.md", *scripts]
    return Text.assemble("report ", (str(folder / "index.html"), "bold"), f", beside it {', '.join(names)}")


def _front(content: ReportContent) -> Table:
    own = own_axes(content.axes)
    loads = content.columns
    if len(loads) > _LOADS_SHOWN:
        loads = tuple(load for load in loads if load in content.spec.loads)[:_LOADS_SHOWN]
    headers = ["front", *map(axis_words, own), *(f"C={load} tok/s" for load in loads), "score"]
    table = plain_table(headers)
    for result in content.judgement.front:
        cells = [result.config.config_id]
        cells += [metric_number(axis.metric, result.values[content.axes.index(axis)].value) for axis in own]
        for load in loads:
            at, gain = result.loads.get(load), content.gain(result, load)
            gained = (
                f" ({gain_percent(gain.value)})"
                if gain is not None and content.is_compared(result.config, load)
                else ""
            )
            cells.append(number(at.rate.value if at else None) + gained)
        table.add_row(*cells, score_words(result.score))
    return table


def plain_table(headers: list[str], *, text_columns: int = 1) -> Table:
    """A table without rules: the first columns to the left and whole, the others to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, header in enumerate(headers):
        table.add_column(
            header, justify="left" if place < text_columns else "right", overflow="fold", no_wrap=place < 1
        )
    return table
