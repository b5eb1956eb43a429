"""The last lines of a run: the answer, the front as a small table, where the files are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search.metrics import gain_percent, number, own_axes
from search.report.content import ReportContent
from search.report.files import json_text
from search.report.payload import payload
from search.report.scripts import script_names
from search.report.text import axis_words, metric_number, score_words
from search.study.events import Ending


def end_lines(content: ReportContent, folder: Path) -> list[str]:
    """What a run ends with, also when it was interrupted."""
    lines = [""]
    if content.label:
        lines.append(f"{content.label}: {content.label_sentence}")
    lines += content.judgement.headlines or ("Nothing has been measured yet.",)
    lines += (f"{answer.name}: {answer.verdict}. {answer.text}" for answer in content.judgement.verdicts)
    if content.judgement.front:
        lines += ["", "front:", *_front(content)]
    lines += ["", f"report  {folder / 'index.html'}"]
    files = ("front.csv", "front.json", "trials.csv", "summary.md", *script_names(content).values())
    return [*lines, *(f"        {folder / name}" for name in files)]


def result_json(content: ReportContent, folder: Path, ending: Ending | None = None) -> str:
    """The result for machines: `front.json`, why the run ended, and where the files are."""
    result = payload(content) | {"report": str(folder)}
    return json_text(result | ({"ending": ending.value} if ending else {}))


def _front(content: ReportContent) -> list[str]:
    own = own_axes(content.axes)
    headers = ["config", *map(axis_words, own), *(f"c{load} tok/s" for load in content.columns), "score"]
    rows = []
    for result in content.judgement.front:
        cells = [result.config.config_id]
        cells += [metric_number(axis.metric, result.values[content.axes.index(axis)].value) for axis in own]
        for load in content.columns:
            at, gain = result.loads.get(load), content.gain(result, load)
            told = (
                f" ({gain_percent(gain.value)})"
                if gain is not None and content.is_compared(result.config, load)
                else ""
            )
            cells.append(number(at.rate.value if at else None) + told)
        rows.append([*cells, score_words(result.score)])
    return aligned(headers, rows)


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A plain table: the first column to the left, the others to the right."""
    widths = [max(len(line[place]) for line in (headers, *rows)) for place in range(len(headers))]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (headers, *rows)
    ]
