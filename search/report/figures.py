"""Plotly figures as JSON. Colours that depend on light or dark are set by the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from search.analysis.findings import ConfigResult, Gain
from search.analysis.results import best_value
from search.config import SpecConfig
from search.metrics import Direction, Objective, gain_percent, is_rate, number
from search.report.content import ReportContent
from search.report.text import bounds, gain_bounds
from search.stats.estimates import Estimate

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe and Ito's palette: distinguishable with colour-blind eyes, on white and on near-black.
FAMILY_STYLE: dict[str, tuple[str, str]] = {
    "off": ("#7a7a7a", "diamond"),
    "v1 chain": ("#0072b2", "circle"),
    "v1 tree": ("#56b4e9", "square"),
    "v2 chain": ("#d55e00", "circle"),
    "v2 tree": ("#e69f00", "square"),
}
FRONT_COLOUR = "#009e73"
LINES_BY_LOAD = 5
TICKS_APART = 0.07
"""Of the axis, between two numbers below it."""
DASHES = ("solid", "dash", "dot", "dashdot")
LABEL_WIDTH, LABEL_HEIGHT, LABEL_OFF = 0.2, 0.05, 0.035
"""Room for a config id, and how far from its mark it stands, as shares of the plot."""
SIDES = {"top center": 1, "bottom center": -1}


def pareto(content: ReportContent) -> str:
    """One objective against the other, as figure JSON; up and right is better, for times are drawn from high to low."""
    import plotly.graph_objects as go

    figure = go.Figure()
    front = [result for result in content.judgement.front if _is_complete(content, result)]
    if len(front) > 1:
        at = [_point(content, result) for result in front]
        figure.add_scatter(
            x=[x for x, _ in at], y=[y for _, y in at], mode="lines", name="front", hoverinfo="skip",
            line={"color": FRONT_COLOUR, "width": 1.5, "shape": "linear"},
        )  # fmt: skip
    for family, (colour, symbol) in FAMILY_STYLE.items():
        members = [
            result
            for result in content.judgement.results
            if result.config.family == family and _is_complete(content, result)
        ]
        if members:
            _add_family(figure, content, family, members, colour, symbol)
    _add_baseline_lines(figure, content)
    first, second = content.axes
    figure.update_layout(xaxis=_axis_layout(first), yaxis=_axis_layout(second), **calm_layout())
    return figure_json(figure)


def by_load(content: ReportContent) -> str:
    """Gain over the best baseline at every measured load, best configs of each family, as figure JSON."""
    import plotly.graph_objects as go

    figure = go.Figure()
    drawn: Counter[str] = Counter()
    shown: list[float] = [0.0]
    for result in _lines_by_load(content):
        colour, symbol = FAMILY_STYLE[result.config.family]
        dash = DASHES[drawn[result.config.family] % len(DASHES)]
        drawn[result.config.family] += 1
        gain_at = {load: gain for load in sorted(result.loads) if (gain := content.gain(result, load)) is not None}
        loads = list(gain_at)
        gains = [100 * (gain.value - 1) for gain in gain_at.values()]
        shown += gains
        name = escape(result.config.config_id)
        _add_band(figure, gain_at, colour, name)
        figure.add_scatter(
            x=loads, y=gains, mode="lines+markers", name=name,
            line={"color": colour, "width": 2, "dash": dash},
            marker={
                "symbol": [f"{symbol}-open" if result.loads[load].extrapolated else symbol for load in loads],
                "size": 8,
            },
            legendgroup=name,
            text=[_load_text(content, result, load) for load in loads],
            hovertemplate=f"{name}<br>%{{text}}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(y=0, line={"color": FAMILY_STYLE["off"][0], "width": 1.5})
    ticks = _apart(content)
    # An interval on assumed scatter may be ten times as wide as all gains: the axis shows the gains.
    room = max(max(shown) - min(shown), 10.0)
    figure.update_layout(
        xaxis={
            "title": "concurrent requests",
            "type": "log",
            "tickvals": ticks,
            "ticktext": [str(load) for load in ticks],
        },
        yaxis={
            "title": "gain over the best baseline",
            "ticksuffix": "%",
            "range": [min(shown) - 0.35 * room, max(shown) + 0.35 * room],
        },
        **calm_layout(),
    )
    return figure_json(figure)


def _add_band(figure: go.Figure, gains: Mapping[int, Gain], colour: str, name: str) -> None:
    """The intervals of a line as one shaded band; a single load has a bar."""
    known = {load: gain for load, gain in gains.items() if gain.lo is not None and gain.hi is not None}
    if not known:
        return
    if len(known) == 1:
        ((load, gain),) = known.items()
        figure.add_scatter(
            x=[load], y=[100 * (gain.value - 1)], mode="markers", marker={"size": 1, "color": colour}, hoverinfo="skip",
            showlegend=False, legendgroup=name, name=f"{name} interval", error_y=error_bars([gain], colour, scale=100),
        )  # fmt: skip
        return
    loads = list(known)
    high = [100 * ((gain.hi or gain.value) - 1) for gain in known.values()]
    low = [100 * ((gain.lo or gain.value) - 1) for gain in known.values()]
    figure.add_scatter(
        x=[*loads, *reversed(loads)], y=[*high, *reversed(low)], mode="lines", fill="toself", name=f"{name} interval",
        fillcolor=_faint(colour), line={"width": 0, "color": colour}, hoverinfo="skip", showlegend=False, legendgroup=name,
    )  # fmt: skip


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def _apart(content: ReportContent) -> list[int]:
    """Loads with a tick of their own: the objectives', and others that leave room for their numbers."""
    loads = list(content.loads)
    if len(loads) < 2:
        return loads
    whole = math.log(loads[-1] / loads[0])
    kept = [loads[0], loads[-1], *content.objective_loads]
    for load in loads:
        if all(abs(math.log(load / other)) / whole >= TICKS_APART for other in kept):
            kept.append(load)
    return sorted(set(kept))


def _lines_by_load(content: ReportContent) -> list[ConfigResult]:
    """Winners, what is ahead or expected to be, then the best of each family: what the words talk about, not everything.

    A family has no line for an extrapolated config where anything that speculates rests on data: its band would cover
    the chart. The baselines are the line at 0.
    """
    winners = content.judgement.winners
    named = [winner.config for winner in winners if not winner.only_expected]
    named += [one.config for winner in winners for one in winner.ahead[:1]]
    named += [winner.config for winner in content.judgement.beyond]
    results = content.judgement.results
    by_config = {result.config: result for result in results}
    speculating = [result for result in results if result.config.speculates]
    grounded = [result for result in speculating if not result.extrapolated_at(content.objective_loads)] or speculating
    chosen = [by_config[config] for config in dict.fromkeys(named) if config.speculates and config in by_config]
    for family in FAMILY_STYLE:
        best = next((one for one in grounded if one.config.family == family), None)
        if best is not None and best not in chosen and not any(one.config.family == family for one in chosen):
            chosen.append(best)
    return chosen[:LINES_BY_LOAD]


def _add_family(
    figure: go.Figure, content: ReportContent, family: str, members: list[ConfigResult], colour: str, symbol: str
) -> None:
    front = {result.config for result in content.judgement.front}
    hollow = {result.config for result in members if result.extrapolated_at(content.objective_loads)}
    labels = _labels(content)
    points = [_point(content, result) for result in members]
    figure.add_scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        name="baseline (off)" if family == "off" else family,
        mode="markers+text",
        text=[escape(result.config.config_id) if result.config in labels else "" for result in members],
        textposition=[labels.get(result.config, "top center") for result in members],
        customdata=[_hover(content, result) for result in members],
        hovertemplate="%{customdata}<extra></extra>",
        marker={
            "color": colour,
            "symbol": [f"{symbol}-open" if result.config in hollow else symbol for result in members],
            "opacity": 1,
            "size": [12 if family == "off" else 11 if result.config in front else 8 for result in members],
            "line": {
                "color": FRONT_COLOUR,
                "width": [2 if result.config in front or result.config in hollow else 0 for result in members],
            },
        },
        error_x=error_bars([_shown(content, result, 0) for result in members], colour),
        error_y=error_bars([_shown(content, result, 1) for result in members], colour),
        cliponaxis=False,
    )


def _labels(content: ReportContent) -> dict[SpecConfig, str]:
    """Front configs with a label and its side of the mark; one that would cover another has none.

    Sides alternate along the front. The name is always in the hover text.
    """
    points = [_point(content, result) for result in content.judgement.results if _is_complete(content, result)]
    widths = [max(axis) - min(axis) or 1.0 for axis in zip(*points, strict=True)] or [1.0, 1.0]
    placed: list[tuple[float, float]] = []
    found: dict[SpecConfig, str] = {}
    for result in content.judgement.front:
        x, y = (value / width for value, width in zip(_point(content, result), widths, strict=True))
        for side, way in SIDES.items():
            up = y + way * LABEL_OFF
            if all(abs(x - other) > LABEL_WIDTH or abs(up - its_up) > LABEL_HEIGHT for other, its_up in placed):
                placed.append((x, up))
                found[result.config] = side
                break
    return found


def _add_baseline_lines(figure: go.Figure, content: ReportContent) -> None:
    """Best baseline at each objective; right of one and above the other, speculation pays at both."""
    for place, add in enumerate((figure.add_vline, figure.add_hline)):
        axis = content.axes[place]
        baselines = [result for result in content.judgement.baselines if _is_complete(content, result)]
        if is_rate(axis):
            winner = content.winner(axis.concurrency)
            value = None if winner is None else winner.baseline_rate.value
        else:
            shown = [_shown(content, result, place) for result in baselines]
            value = best_value(axis, shown).value if shown else None
        if value is not None:
            add(**{"xy"[place]: value}, line={"color": FAMILY_STYLE["off"][0], "width": 1, "dash": "dot"})


def _axis_layout(axis: Objective) -> dict[str, Any]:
    """Title and direction; the rate of a load is drawn in tokens per second, whichever metric it is."""
    if is_rate(axis):
        alone = " (one request at a time)" if axis.concurrency == 1 else ""
        return {"title": {"text": f"output tok/s at C={axis.concurrency}{alone}"}}
    unit = axis.metric.unit
    layout: dict[str, Any] = {"title": {"text": f"{axis.title}{unit and f', {unit}'}"}}
    if axis.direction is Direction.MINIMIZE:
        layout["autorange"] = "reversed"
    return layout if unit else layout | {"tickformat": ".0%"}


def error_bars(estimates: Sequence[Estimate | Gain], colour: str, *, scale: float = 1) -> dict[str, Any]:
    """From each value to the ends of its interval; none where it has none."""
    # Six digits draw as well as sixteen, and a page holds thousands of them.
    above = [None if one.hi is None else float(f"{scale * (one.hi - one.value):.6g}") for one in estimates]
    below = [None if one.lo is None else float(f"{scale * (one.value - one.lo):.6g}") for one in estimates]
    return {
        "type": "data", "symmetric": False, "array": above, "arrayminus": below,
        "color": colour, "thickness": 1, "width": 3,
    }  # fmt: skip


def _hover(content: ReportContent, result: ConfigResult) -> str:
    lines = [f"<b>{escape(result.config.config_id)}</b>"]
    lines += [_load_text(content, result, load) for load in sorted(result.loads)]
    if result.notes:
        lines.append(escape(" ".join(result.notes)))
    return "<br>".join(lines)


def _load_text(content: ReportContent, result: ConfigResult, concurrency: int) -> str:
    load, gain = result.loads[concurrency], content.gain(result, concurrency)
    text = f"C={concurrency}: {number(load.rate.value)}{bounds(load.rate, band=load.band)} tok/s"
    if gain is not None:
        text += f" ({gain_percent(gain.value)}{gain_bounds(gain)})"
    if load.accept_length is not None:
        text += f", accept {load.accept_length:.2f}{bounds(load.accept)}"
    return text + (", extrapolated" if load.extrapolated else "")


def _is_complete(content: ReportContent, result: ConfigResult) -> bool:
    return all(load in result.loads for load in content.objective_loads)


def _shown(content: ReportContent, result: ConfigResult, place: int) -> Estimate:
    """An objective as the figure draws it: the rate of its load where it is that in other units."""
    axis = content.axes[place]
    return result.loads[axis.concurrency].rate if is_rate(axis) else result.values[place]


def _point(content: ReportContent, result: ConfigResult) -> tuple[float, float]:
    return round(_shown(content, result, 0).value, 4), round(_shown(content, result, 1).value, 4)


def calm_layout() -> dict[str, Any]:
    """What all figures share: no ground of their own, the legend above."""
    return {
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 24, "t": 16, "b": 64},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"align": "left"},
    }


def figure_json(figure: go.Figure) -> str:
    """As the page takes it."""
    text: str = figure.to_json()
    return text
