"""`index.html`: one file that opens from disk without a network."""

from __future__ import annotations

from html import escape
from importlib import resources

from search.metrics import own_axes
from search.report import figures
from search.report.calibration import predictions, predictions_figure
from search.report.content import ReportContent
from search.report.sections import (
    answers,
    configs,
    failures,
    knobs,
    left_out,
    picks,
    provenance,
    questions,
    remarks,
    setting,
    times,
)

# No source is allowed but what stands in the file itself: a hostile name in a study file that
# slipped past escaping still could not fetch or send anything.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def page(content: ReportContent) -> str:
    """The whole page as text. Imports plotly."""
    from plotly.offline import get_plotlyjs

    title = escape(f"{content.label + ': ' if content.label else ''}{content.title}")
    sections = "\n".join(
        (
            answers(content),
            *(_plots(content) if content.judgement.results else ()),
            questions(content),
            knobs(content),
            picks(content),
            configs(content),
            remarks(content),
            times(content),
            failures(content),
            _predictions(content),
            left_out(content),
            provenance(content),
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{_static("page.css")}</style>
</head>
<body>
{_banner(content)}
<main>
<h1>{escape(content.title)}</h1>
{setting(content)}
{sections}
</main>
<script>{get_plotlyjs()}</script>
<script>
{_static("page.js")}</script>
</body>
</html>
"""


def _banner(content: ReportContent) -> str:
    if not content.label:
        return ""
    sentence = escape(content.label_sentence)
    return f'<div class="label" role="note"><p><strong>{content.label}</strong>{sentence}</p></div>'


def _plots(content: ReportContent) -> tuple[str, str]:
    label = f' <span class="tag warn">{content.label}</span>' if content.label else ""
    hollow = " Hollow: extrapolated." if any(result.extrapolated for result in content.judgement.results) else ""
    return (
        _plot(
            "pareto",
            f"{_title(content)}{label}",
            f"Each mark is one config. {_ways(content)} "
            f"Dotted lines: the best baseline. Joined: the front, which nothing beats on both.{hollow}",
            figures.pareto(content),
        ),
        _plot(
            "by-load",
            f"Gain at every load{label}",
            "Output tok/s against the best baseline at the same concurrency: winners and the best of each family.",
            figures.by_load(content),
            "low",
        ),
    )


def _title(content: ReportContent) -> str:
    if not own_axes(content.axes):
        return "Latency against throughput"
    first, second = content.axes
    return escape(f"{first.title[:1].upper()}{first.title[1:]} against {second.title}")


def _ways(content: ReportContent) -> str:
    first, second = content.axes
    if not own_axes(content.axes):
        return (
            f"To the right: faster for one request (C={first.concurrency}). Up: more for all (C={second.concurrency})."
        )
    return f"To the right: better {first.title}. Up: better {second.title}."


def _predictions(content: ReportContent) -> str:
    said = predictions(content)
    if not content.judgement.predictions.numbers:
        return f"<section><h2>Predicted and measured</h2>{said}</section>" if said else ""
    return _plot(
        "predicted",
        "Predicted and measured",
        "Each mark is one launch at one load: how far it measured from what the search expected of it before. Bars: "
        "where nine of ten should lie. A cross: the model was wrong here.",
        predictions_figure(content),
        "low",
        below=said,
    )


def _plot(name: str, title: str, caption: str, figure: str, size: str = "", *, below: str = "") -> str:
    # Inside a script element only `</` could end it early; JSON may spell it `<\\/`.
    data = figure.replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return f"""<section>
<h2>{title}</h2>
<p class="aside">{escape(caption)}</p>
<div id="{name}" class="plot {size}" data-figure="{name}-figure" role="img" aria-label="{escape(caption)}"></div>
<script type="application/json" id="{name}-figure">{data}</script>
{below}</section>"""


def _static(name: str) -> str:
    return resources.files("search.report").joinpath("static", name).read_text(encoding="utf-8")
