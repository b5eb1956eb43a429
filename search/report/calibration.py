"""The figure of what the search expected of its launches beside what they measured."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from search.analysis.findings import PredictedValue
from search.metrics import gain_percent
from search.report.content import ReportContent
from search.report.figures import calm_layout, error_bars, figure_json
from search.report.text import metric_bounds, metric_number
from search.stats.estimates import Estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = ("#0072b2", "#d55e00")
"""Of the first and the second objective."""
BESIDE = 0.14
"""The two loads of one launch stand this far left and right of it."""
FEW_TICKS = 12
"""Fewer launches than this have a tick each; without saying so, the axis would show halves of them."""


def predictions_figure(content: ReportContent) -> str:
    """Measured / expected of each launch with the band it should have met, as figure JSON."""
    import plotly.graph_objects as go

    figure = go.Figure()
    every = [(one, one.ratio) for one in content.judgement.predictions.numbers]
    shown = [(one, ratio) for one, ratio in every if ratio is not None]
    kinds = dict.fromkeys((one.concurrency, one.metric.name) for one, _ in shown)
    for place, kind in enumerate(sorted(kinds, key=lambda kind: content.objective_loads.index(kind[0]))):
        numbers = [(one, ratio) for one, ratio in shown if (one.concurrency, one.metric.name) == kind]
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


def _add_load(figure: go.Figure, numbers: Sequence[tuple[PredictedValue, float]], *, colour: str, shift: float) -> None:
    load, metric = numbers[0][0].concurrency, numbers[0][0].metric
    name = f"C={load}" if metric.name == "output_tps" else f"C={load} {metric.title}"
    at = [one.launch + shift for one, _ in numbers]
    bands = [_band(one) for one, _ in numbers]
    figure.add_scatter(
        x=at, y=[0.0] * len(at), mode="markers", marker={"size": 1, "color": colour}, hoverinfo="skip", showlegend=False,
        error_y=error_bars(bands, colour, scale=100) | {"thickness": 5, "width": 0},
        opacity=0.3,
    )  # fmt: skip
    figure.add_scatter(
        x=at, y=[round(100 * (ratio - 1), 3) for _, ratio in numbers], mode="markers", name=name,
        marker={
            "color": colour, "size": 9,
            "symbol": ["circle" if one.held else "x" for one, _ in numbers],
        },
        text=[escape(_words(one, ratio)) for one, ratio in numbers],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _band(predicted: PredictedValue) -> Estimate:
    """The ends of the expected band, each as how much better than the middle it would be."""
    low, middle, high = predicted.expected
    ends = [predicted.metric.ratio(end, middle) for end in (low, high)]
    known = sorted(end for end in ends if end is not None)
    return Estimate(1.0, *known) if len(known) == len(ends) else Estimate(1.0)


def _words(predicted: PredictedValue, ratio: float) -> str:
    (slow, middle, fast), metric = predicted.expected, predicted.metric
    band = metric_bounds(metric, Estimate(middle, slow, fast))
    return (
        f"{predicted.config}, launch {predicted.launch}, C={predicted.concurrency}: measured {metric.words(predicted.measured.value)}, "
        f"expected {metric_number(metric, middle)}{band} ({gain_percent(ratio)})"
    )
