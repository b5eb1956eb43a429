"""`index.html`: one file that opens from disk without a network."""

from __future__ import annotations

import base64
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from search.report.blocks import FOLDS
from search.report.content import ReportContent
from search.report.first_screen import first_screen
from search.report.sections import SECTIONS

# No source is allowed but what stands in the file itself: a hostile name in a study file that
# slipped past escaping still could not fetch or send anything.
CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
PLOTLY = "plotly-basic-4.1.1.min.js.gz"
"""The part of plotly.js that draws lines and marks (npm `plotly.js-basic-dist-min`, MIT), compressed."""


def page(content: ReportContent) -> str:
    """The whole page as text."""
    sections = [(section, tuple(section.blocks(content))) for section in SECTIONS]
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            content=content,
            policy=Markup(CONTENT_POLICY),  # noqa: S704
            screen=first_screen(content),
            sections=[(section, blocks) for section, blocks in sections if blocks],
            folds=FOLDS,
            style=Markup(_static("page.css")),  # noqa: S704  # ours, as shipped
            script=Markup(_static("page.js")),  # noqa: S704
            plotly=_plotly(),
        )
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("search.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    environment.filters["in_script"] = in_script
    return environment


def marked(text: str) -> Markup:
    """Text as HTML, what stands between backticks as code."""
    parts = str(escape(text)).split("`")
    return Markup("".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts)))  # noqa: S704


def in_script(data: str) -> Markup:
    """JSON for inside a script element: only `</` could end it early, and JSON may spell it `<\\/`."""
    return Markup(data.replace("</", "<\\/").replace("<!--", "<\\u0021--"))  # noqa: S704


@cache
def _static(name: str) -> str:
    return resources.files("search.report").joinpath("static", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    return base64.b64encode(resources.files("search.report").joinpath("static", PLOTLY).read_bytes()).decode("ascii")
