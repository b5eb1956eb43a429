"""The sections of the page. Everything that users, logs or servers wrote goes through `escape`."""

from __future__ import annotations

import math
from html import escape

from search.analysis.findings import ConfigResult, LoadWinner
from search.metrics import Direction, Objective, number
from search.outcomes import Note
from search.report.content import ReportContent
from search.report.knobs import KNOB_HEADERS, KNOB_KEY, knob_cells
from search.report.markup import (
    NOTHING,
    ci_span,
    config_code,
    gain_span,
    list_of,
    number_cell,
    sortable,
    table_of,
    tag_span,
)
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
    role_words,
    score_bounds,
    score_words,
)
from search.stats.estimates import Estimate

TIES_SHOWN = 3


def setting(content: ReportContent) -> str:
    """One line under the title: what this is about, and how much went into it."""
    model, engine, hardware = content.spec.model, content.spec.engine, content.spec.hardware
    hours = sum(launch.duration_s or 0 for launch in content.launches)
    parts = (
        f"{model.target} with {model.draft} ({model.algorithm})",
        hardware.kind if hardware.gpus == 1 else f"{hardware.gpus} x {hardware.kind}",
        f"SGLang {engine.release}",
        f"{counted(len(content.launches), 'launch')} in {duration(hours)}",
    )
    return f'<p class="setting">{escape(" · ".join(parts))}</p>'


def answers(content: ReportContent) -> str:
    """First screen: the headlines in words, then the winner of each load."""
    said = "".join(f"<li>{escape(line)}</li>" for line in content.judgement.headlines)
    if not content.judgement.winners:
        return f'<section><ul class="answers">{said or "<li>Nothing has been measured yet.</li>"}</ul></section>'
    rows = []
    for winner in content.judgement.winners:
        rows.append(_winner_cells(winner))
        rows += [
            _beyond_cells(beyond)
            for beyond in content.judgement.beyond
            if beyond.concurrency == winner.concurrency and beyond.config != winner.config
        ]
    headers = ["load", "winner", "tok/s", "gain", "best baseline", "gain at equal fusion", "remarks", "ties with"]
    told = [place for place in range(len(headers)) if any(row[place] for row in rows)]
    cells = [[row[place] for place in told] for row in rows]
    wide = {place for place, column in enumerate(told) if headers[column] in ("remarks", "ties with")}
    table = table_of([headers[place] for place in told], cells, numeric={2, 3}, wide=wide)
    return f'<section><ul class="answers">{said}</ul>{table}</section>'


def _winner_cells(winner: LoadWinner) -> list[str]:
    """Cells in the order of the headers; an empty one has nothing to say."""
    is_baseline = winner.config == winner.baseline
    ties = [config_code(config) for config in winner.tied if config != winner.config]
    more = f" and {len(ties) - TIES_SHOWN} more" if len(ties) > TIES_SHOWN else ""
    return [
        f"C={winner.concurrency}",
        f"<strong>{config_code(winner.config)}</strong>",
        number(winner.rate.value) + ci_span(bounds(winner.rate, band=winner.gain.band or winner.only_expected)),
        NOTHING if is_baseline else gain_span(winner.gain.value) + ci_span(gain_bounds(winner.gain)),
        "itself"
        if is_baseline
        else f"{config_code(winner.baseline)} {number(winner.baseline_rate.value)}"
        + ci_span(bounds(winner.baseline_rate, band=winner.only_expected)),
        ""
        if winner.equal_fusion_gain is None
        else gain_span(winner.equal_fusion_gain.value) + ci_span(gain_bounds(winner.equal_fusion_gain)),
        (tag_span("extrapolated", "warn") if winner.extrapolated else "")
        + (tag_span(_standing(winner)) if not winner.claimed and not is_baseline else ""),
        ", ".join(ties[:TIES_SHOWN]) + more,
    ]


def _standing(winner: LoadWinner) -> str:
    return "expected, not measured" if winner.only_expected else "gain not shown"


def _beyond_cells(winner: LoadWinner) -> list[str]:
    """A row under the load's winner: what only extrapolation says."""
    cells = _winner_cells(winner)
    cells[0], cells[1], cells[6] = "", config_code(winner.config), tag_span("extrapolated: worth a launch", "warn")
    return cells


def picks(content: ReportContent) -> str:
    """Configs worth a launch, with the command to copy."""
    if not content.judgement.picks:
        return ""
    scripts, parts = script_names(content), []
    for pick in content.judgement.picks:
        config_id = pick.result.config.config_id
        roles = ", ".join(role_words(role) for role in pick.roles)
        numbers = "; ".join(
            f"C={load} {number(at.rate.value)}{bounds(at.rate, band=at.band)} tok/s"
            for load, at in sorted(pick.result.loads.items())
        )
        confirmed = "" if pick.result.confirmed else tag_span(f"from {counted(len(pick.result.launches), 'launch')}")
        if pick.result.extrapolated:
            confirmed += tag_span("extrapolated", "warn")
        parts.append(f"<h3>{escape(roles)}: {config_code(pick.result.config)}{confirmed}</h3><p>{escape(numbers)}</p>")
        if config_id in scripts:
            parts.append(
                f"<details><summary>{escape(scripts[config_id])}</summary>"
                f"<pre>{escape(content.commands[config_id])}</pre></details>"
            )
    return f"<section><h2>Picks</h2>{''.join(parts)}</section>"


def configs(content: ReportContent) -> str:
    """Every measured config; the columns sort."""
    results = content.judgement.results
    if not results:
        return ""
    head = [sortable("config")]
    head += [sortable(axis_words(axis), numeric=True, low_is_good=_low(axis)) for axis in _value_columns(content)]
    head += [sortable(f"C={load} tok/s", numeric=True) for load in content.columns]
    accepts = (f"accept C={load}" for load in content.objective_loads)
    head += [sortable(name, numeric=True) for name in (*accepts, "score", "launches")]
    head.append("<th>notes</th>")
    front = {result.config for result in content.judgement.front}
    rows = "".join(_config_row(content, result, on_front=result.config in front) for result in results)
    return (
        "<section><h2>All measured configs</h2>"
        '<p class="aside">Bold: on the front. Percent: against the best baseline at the same load. Score: geometric mean '
        "of both speed-ups. Accept: output tokens per verify pass, 1 means that drafts never help. "
        f"{escape(GAIN_KEY)} "
        "Click a heading to sort.</p>"
        f'<div class="scroll"><table id="configs"><thead><tr>{"".join(head)}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></section>"
    )


def _config_row(content: ReportContent, result: ConfigResult, *, on_front: bool) -> str:
    config_id = result.config.config_id
    cells = [f'<td data-v="{escape(config_id)}"><code>{escape(config_id)}</code></td>']
    for axis in _value_columns(content):
        value = result.values[content.axes.index(axis)]
        cells.append(
            number_cell(
                value.value,
                text=metric_number(axis.metric, value.value),
                beside=ci_span(metric_bounds(axis.metric, value, band=result.loads[axis.concurrency].band)),
            )
        )
    for load in content.columns:
        at = result.loads.get(load)
        cells.append(
            number_cell(
                at.rate.value if at else None,
                beside=ci_span(bounds(at.rate, band=at.band)) + _gain_cell(content, result, load) if at else "",
            )
        )
    for load in content.objective_loads:
        at = result.loads.get(load)
        cells.append(number_cell(at.accept_length if at else None, beside=ci_span(bounds(at.accept)) if at else ""))
    sort = "" if math.isnan(result.score) else f"{result.score:.6f}"
    cells.append(
        f'<td class="n" data-v="{sort}">{score_words(result.score)}{ci_span(score_bounds(result.score_ci, band=content.is_band(result)))}</td>'
    )
    cells.append(f'<td class="n" data-v="{len(result.launches)}">{len(result.launches)}</td>')
    # The banner says it for the whole page where every number is computed.
    notes = [note for note in result.notes if not (content.label and note is Note.SYNTHETIC)]
    tag = tag_span("extrapolated", "warn") if result.extrapolated else ""
    lossless = lossless_words(result.lossless)
    told = tag_span(lossless, "" if lossless == "lossless" else "warn") if lossless else ""
    cells.append(f"<td>{escape(' '.join(notes))}{tag}{told}</td>")
    kind = ' class="front"' if on_front else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _gain_cell(content: ReportContent, result: ConfigResult, load: int) -> str:
    gain = content.gain(result, load)
    return gain_span(gain.value if gain else None) + ci_span(gain_bounds(gain))


def _value_columns(content: ReportContent) -> list[Objective]:
    """Objectives with a column of their own: all but a throughput, which stands among the loads."""
    return [axis for axis in content.axes if axis.metric.name != "output_tps" or axis.concurrency == 1]


def _low(axis: Objective) -> bool:
    return axis.direction is Direction.MINIMIZE


def times(content: ReportContent) -> str:
    """Times that requests waited, with their range over repeats; only what was told."""
    names = [
        name for name in TIMES if any(name in at.tails for r in content.judgement.results for at in r.loads.values())
    ]
    if not names:
        return ""
    rows = [
        [config_code(result.config), str(load), *(_range_cell(at.tails.get(name)) for name in names)]
        for result in content.judgement.results
        for load, at in sorted(result.loads.items())
        if at.tails
    ]
    headers = ("config", "load", *(TIMES[name] for name in names))
    numeric = set(range(1, len(headers)))
    return (
        "<section><h2>Times of requests</h2>"
        '<p class="aside">Means over repeats; in brackets the lowest and the highest repeat. One repeat has none.</p>'
        f"<details><summary>Time to first token, between tokens, end to end</summary>"
        f"{table_of(headers, rows, numeric=numeric)}</details></section>"
    )


TIMES = {
    "ttft_ms": "first token, ms",
    "ttft_p50_ms": "first token median, ms",
    "ttft_p99_ms": "first token p99, ms",
    "itl_ms": "between records, ms",
    "itl_p99_ms": "between records p99, ms",
    "e2e_ms": "end to end, ms",
    "e2e_p99_ms": "end to end p99, ms",
    "goodput": "share within limits",
    "goodput_rps": "good requests/s",
}
"""Columns of the table of times, by the names of `PhaseResult`."""


def _range_cell(told: Estimate | None) -> str:
    return NOTHING if told is None else number(told.value) + ci_span(bounds(told))


def remarks(content: ReportContent) -> str:
    """What to know of single configs: outputs, accept lengths, repeats that stand apart, host drift."""
    if not content.judgement.remarks:
        return ""
    return f"<section><h2>Remarks</h2>{list_of(content.judgement.remarks)}</section>"


def questions(content: ReportContent) -> str:
    """Verdicts on the study's questions."""
    if not content.judgement.verdicts:
        return ""
    parts = "".join(
        f"<h3>{escape(answer.name)}: {escape(answer.verdict)}</h3><p>{escape(answer.text)}</p>"
        for answer in content.judgement.verdicts
    )
    return f"<section><h2>Questions</h2>{parts}</section>"


def knobs(content: ReportContent) -> str:
    """What each knob is worth."""
    if not content.judgement.knobs:
        return ""
    rows = [[escape(cell) for cell in knob_cells(worth)] for worth in content.judgement.knobs]
    table = table_of(KNOB_HEADERS, rows, numeric={4}, wide={6})
    return (
        f'<section><h2>What each knob is worth</h2><p class="aside">{escape(KNOB_KEY)}</p>'
        f"<details><summary>{counted(len(rows), 'comparison')}</summary>{table}</details></section>"
    )


def failures(content: ReportContent) -> str:
    """Launches without a measurement, with the first root line and where to read on."""
    if not content.judgement.failures:
        return ""
    rows = [
        [
            str(failure.launch),
            config_code(failure.config),
            escape(failure.outcome),
            escape(failure.reason),
            escape(failure.blame),
            f"<code>{escape(failure.root_line)}</code>",
            escape(failure.log_path),
        ]
        for failure in content.judgement.failures
    ]
    headers = ("launch", "config", "outcome", "reason", "blame", "first root line", "log")
    return f"<section><h2>Failures</h2>{table_of(headers, rows, wide={5})}</section>"


def left_out(content: ReportContent) -> str:
    """What the rules keep out of the space, and what would let it in."""
    space = content.space
    if space is None:
        return ""
    dropped = sum(reason.count for reason in space.dropped)
    said = (
        f"{counted(len(space.launchable), 'config')} can be launched, {len(content.judgement.results)} measured; "
        f"{len(space.locked)} locked (understood, but refused by this release or GPU) and {dropped:,} dropped."
    )
    rows = [
        [
            kind,
            str(reason.count),
            f"<code>{escape(reason.rule_id)}</code>",
            escape(reason.words),
            escape(reason.unlock) or NOTHING,
        ]
        for kind, reasons in (("locked", space.locked_by), ("dropped", space.dropped))
        for reason in reasons
    ]
    table = table_of(("", "configs", "rule", "why", "what would unlock it"), rows, numeric={1}, wide={3, 4})
    return f"<section><h2>The space</h2><p>{said}</p>{table if rows else ''}</section>"


def provenance(content: ReportContent) -> str:
    """Where the numbers come from, what they rest on, and the conditions they hold under."""
    said = list_of([*content.provenance, *(f"Assumed: {line}" for line in content.spec.assumptions)])
    if content.details:
        said += f"<details><summary>In full</summary>{list_of(content.details)}</details>"
    pairs = [
        ("study", content.study.name),
        ("created", f"{content.study.created_at:%Y-%m-%d %H:%M} UTC"),
        ("last launch ended", f"{content.last_change:%Y-%m-%d %H:%M} UTC"),
        *((f"patch {patch.name}", patch.note) for patch in content.spec.engine.patches),
        *content.study.fingerprint.items(),
    ]
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<section><h2>Where the numbers come from</h2>{said}<h3>Conditions</h3><dl>{items}</dl></section>"
