"""`summary.md`: the report to paste into a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from search.analysis.findings import ConfigResult
from search.metrics import gain_percent, number, own_axes
from search.report.content import ReportContent
from search.report.decision import decide, plain
from search.report.knobs import KNOB_HEADERS, KNOB_KEY, knob_cells
from search.report.scripts import script_names
from search.report.text import (
    GAIN_KEY,
    axis_words,
    bounds,
    counted,
    duration,
    gain_bounds,
    lossless_words,
    metric_bounds,
    metric_number,
    one_line,
    role_words,
    score_bounds,
    score_words,
)


def summary(content: ReportContent) -> str:
    """The summary as Markdown text."""
    judgement = content.judgement
    spent = duration(sum(launch.duration_s or 0 for launch in content.launches))
    parts = [f"# {_text(content.title)}"]
    if content.label:
        parts.append(f"**{content.label}.** {content.label_sentence}")
    decision = decide(content)
    parts.append(f"**{_text(plain(decision.sentence))}**")
    sentences = [*decision.warnings, *decision.basis, *filter(None, [decision.next])]
    parts.append("\n".join(f"- {_text(plain(line))}" for line in sentences))
    if lines := [line for line in judgement.headlines if line not in judgement.cautions]:
        parts += ["## The answer at each load", "\n".join(f"- {_text(line)}" for line in lines)]
    if content.workloads is not None:
        sentences = [plain(line) for line in (*content.workloads.warnings, *content.workloads.lines)]
        parts += ["## Workloads", "\n".join(f"- {_text(line)}" for line in sentences)]
    if content.escalation is not None:
        sentences = [plain(line) for line in (*content.escalation.lines, *content.escalation.details)]
        parts += ["## Escalation", "\n".join(f"- {_text(line)}" for line in sentences)]
    if judgement.front:
        parts += ["## Front", front_table(content, judgement.front), GAIN_KEY]
    if judgement.picks:
        scripts = script_names(content)
        picks = (
            f"- {', '.join(role_words(role) for role in pick.roles)}: `{pick.result.config.config_id}`"
            + (", extrapolated" if pick.extrapolated else "")
            + (f" ({scripts[pick.result.config.config_id].serving})" if pick.result.config.config_id in scripts else "")
            for pick in judgement.picks
        )
        parts += ["## Picks", "\n".join(picks)]
    if judgement.verdicts:
        verdicts = (
            f"- **{_text(question.name)}: {question.verdict}.** {_text(question.text)}"
            for question in judgement.verdicts
        )
        parts += ["## Questions", "\n".join(verdicts)]
    if judgement.knobs:
        parts += ["## What each knob is worth", KNOB_KEY, _table(KNOB_HEADERS, map(knob_cells, judgement.knobs))]
    if judgement.remarks:
        parts += ["## Remarks", "\n".join(f"- {_text(line)}" for line in judgement.remarks)]
    if judgement.predictions.sentences:
        parts += [
            "## Predicted and measured",
            "\n".join(f"- {_text(line)}" for line in judgement.predictions.sentences),
        ]
    if judgement.failures:
        rows = (
            (str(failure.launch), failure.config.config_id, failure.reason, failure.blame, failure.root_line)
            for failure in judgement.failures
        )
        parts += ["## Failures", _table(("launch", "config", "reason", "blame", "first root line"), rows)]
    if lines := [*content.provenance, *(f"Assumed: {line}" for line in content.spec.assumptions)]:
        parts += ["## Where the numbers come from", "\n".join(f"- {_text(line)}" for line in lines)]
    how = "computed" if content.study.kind == "simulated" else "measured"
    parts.append(
        f"{counted(len(content.launches), 'launch')} in {spent}; "
        f"{counted(len(judgement.results), 'config')} {how}; study `{content.study.name}`."
    )
    return "\n\n".join(parts) + "\n"


def front_table(content: ReportContent, results: Iterable[ConfigResult]) -> str:
    """Configs with their rate and gain at every load, as a Markdown table."""
    own = own_axes(content.axes)
    headers = ["config", *map(axis_words, own), *(f"C={load} tok/s" for load in content.columns), "score", "outputs"]
    rows = []
    for result in results:
        cells = [result.config.config_id]
        for axis in own:
            value = result.values[content.axes.index(axis)]
            cells.append(metric_number(axis.metric, value.value) + metric_bounds(axis.metric, value))
        for load in content.columns:
            at, gain = result.loads.get(load), content.gain(result, load)
            gained = (
                f" ({gain_percent(gain.value)}{gain_bounds(gain)})"
                if gain is not None and content.is_compared(result.config, load)
                else ""
            )
            cells.append(number(at.rate.value if at else None) + (bounds(at.rate, band=at.band) if at else "") + gained)
        score = score_words(result.score) + score_bounds(result.score_ci, band=content.is_band(result))
        rows.append((*cells, score, lossless_words(result.lossless) or "-"))
    return _table(headers, rows)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(text: str) -> str:
    """User text on one line, unable to open a tag, a link or a table cell."""
    return re.sub(r"([|<>\[\]`\\])", r"\\\1", one_line(text))
