"""What the search expected of its launches beside what they measured."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from search.analysis.findings import Prediction
from search.report.content import ReportContent
from search.report.figures import calm_layout, error_bars, figure_json
from search.report.markup import config_code, doubt_span, gain_span, list_of, table_of, tag_span
from search.report.text import bounds, number, percent
from search.stats.estimates import Estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#0072b2", "#d55e00")
"""Of the low and the high load."""
BESIDE = 0.14
"""The two loads of one launch stand this far left and right of it."""
FEW_TICKS = 12
"""Fewer launches than this have a tick each; without saying so, the axis would show halves of them."""


def predictions(content: ReportContent) -> str:
    """Sentences, then every number in a table; empty where nothing was expected. The page has the heading."""
    told = content.judgement.predictions
    rows = [_row(one) for one in told.numbers]
    headers = ("launch", "config", "load", "expected tok/s", "measured tok/s", "off by", "")
    table = table_of(headers, rows, numeric={0, 2, 3, 4, 5})
    details = f"<details><summary>Every number</summary>{table}</details>" if rows else ""
    return list_of(told.sentences) + details


def predictions_figure(content: ReportContent) -> str:
    """Measured / expected of each launch with the band it should have met, as figure JSON."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for place, load in enumerate((content.latency_load, content.throughput_load)):
        numbers = [one for one in content.judgement.predictions.numbers if one.concurrency == load]
        if numbers:
            _add_load(figure, numbers, colour=COLOURS[place], shift=(2 * place - 1) * BESIDE)
    figure.add_hline(y=0, line={"color": "#7a7a7a", "width": 1, "dash": "dot"})
    launches = [one.launch for one in content.judgement.predictions.numbers]
    few = max(launches) - min(launches) < FEW_TICKS
    figure.update_layout(
        xaxis={"title": "launch", **({"dtick": 1} if few else {})},
        yaxis={"title": "measured against expected, %", "ticksuffix": "%"},
        **calm_layout(),
    )
    return figure_json(figure)


def _add_load(figure: go.Figure, numbers: list[Prediction], *, colour: str, shift: float) -> None:
    load = numbers[0].concurrency
    at = [one.launch + shift for one in numbers]
    bands = [Estimate(1.0, slow / middle, fast / middle) for slow, middle, fast in (one.expected for one in numbers)]
    figure.add_scatter(
        x=at, y=[0.0] * len(at), mode="markers", marker={"size": 1, "color": colour}, hoverinfo="skip", showlegend=False,
        error_y=error_bars(bands, colour, scale=100) | {"thickness": 5, "width": 0},
        opacity=0.3,
    )  # fmt: skip
    figure.add_scatter(
        x=at, y=[100 * (one.ratio - 1) for one in numbers], mode="markers", name=f"C={load}",
        marker={
            "color": colour, "size": 9,
            "symbol": ["circle" if one.held else "x" for one in numbers],
        },
        text=[escape(_words(one)) for one in numbers],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _row(told: Prediction) -> list[str]:
    slow, middle, fast = told.expected
    return [
        str(told.launch),
        config_code(told.config),
        f"C={told.concurrency}",
        number(middle) + doubt_span(f" [{number(slow)}, {number(fast)}]"),
        number(told.measured.value) + doubt_span(bounds(told.measured)),
        gain_span(told.ratio - 1),
        "" if told.held else tag_span("the model was wrong here", "warn"),
    ]


def _words(told: Prediction) -> str:
    slow, middle, fast = told.expected
    return (
        f"{told.config}, launch {told.launch}, C={told.concurrency}: measured {number(told.measured.value)} tok/s, "
        f"expected {number(middle)} [{number(slow)}, {number(fast)}] ({percent(told.ratio - 1)})"
    )
