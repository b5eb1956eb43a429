"""The figures as JSON and as a page with plots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.colors import qualitative
from plotly.subplots import make_subplots

from benchmarks.race.scoring import Score
from benchmarks.race.summary import Summary

NOT_DETERMINISTIC = "seconds"


def as_json(scores: Sequence[Score], summaries: Sequence[Summary], asked: Mapping[str, object]) -> str:
    """All scores and summaries. Equal runs give equal texts but for the samplers' own seconds."""

    def parts(values: Sequence[Score] | Sequence[Summary]) -> list[dict[str, Any]]:
        return [{name: value for name, value in asdict(one).items() if name != NOT_DETERMINISTIC} for one in values]

    return json.dumps(
        {
            "asked": asked,
            "summaries": parts(summaries),
            "scores": parts(scores),
            NOT_DETERMINISTIC: [
                {"group": one.group, "entry": one.entry, "mean": one.seconds[0], "longest": one.seconds[1]}
                for one in summaries
            ],
        },
        indent=1,
    )


def write_plot(path: Path, summaries: Sequence[Summary]) -> None:
    """The mean share of the hypervolume by launches, one plot for each group; a page of its own."""
    groups = list(dict.fromkeys(summary.group for summary in summaries))
    entries = list(dict.fromkeys(summary.entry for summary in summaries))
    colors = {entry: qualitative.Dark24[place % 24] for place, entry in enumerate(entries)}
    figure = make_subplots(rows=len(groups), cols=1, subplot_titles=groups, vertical_spacing=0.3 / (len(groups) + 3))
    for summary in summaries:
        means = [mean for mean, _ in summary.share_at]
        figure.add_trace(
            go.Scatter(
                x=list(range(1, len(means) + 1)),
                y=means,
                error_y={"array": [spread for _, spread in summary.share_at], "thickness": 0.7, "width": 0},
                name=summary.entry,
                legendgroup=summary.entry,
                showlegend=summary.group == groups[0],
                line={"color": colors[summary.entry], "dash": "dot" if summary.entry == "oracle" else "solid"},
            ),
            row=groups.index(summary.group) + 1,
            col=1,
        )
    for target in (0.9, 0.95, 0.99):
        figure.add_hline(y=target, line={"color": "#bbb", "width": 1, "dash": "dash"})
    figure.update_yaxes(title="mean share of the hypervolume", range=[0.4, 1.005])
    figure.update_xaxes(title="launches, the prescribed ones included")
    figure.update_layout(height=450 * len(groups), template="simple_white", title="Race of samplers")
    path.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
