"""Small pieces of HTML that the sections share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from html import escape

from search.config import SpecConfig
from search.metrics import gain_percent, number

NOTHING = '<span class="none">-</span>'


def table_of(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Set[int] = frozenset(),
    wide: Set[int] = frozenset(),
) -> str:
    """A table whose cells are HTML already; `numeric` and `wide` are column numbers."""

    def kind(column: int) -> str:
        return ' class="n"' if column in numeric else ' class="wide"' if column in wide else ""

    head = "".join(f"<th{kind(place)}>{escape(text)}</th>" for place, text in enumerate(headers))
    body = "".join(
        f"<tr>{''.join(f'<td{kind(place)}>{cell}</td>' for place, cell in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def list_of(lines: Sequence[str]) -> str:
    """A list of plain lines."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="lines">{items}</ul>' if lines else ""


def sortable(text: str, *, numeric: bool = False, low_is_good: bool = False) -> str:
    """A heading that sorts its column: descending first for numbers, unless low ones are good."""
    attributes = (' class="n"' if numeric else "") + (" data-low" if low_is_good else "")
    return f'<th{attributes}><button type="button">{escape(text)}</button></th>'


def number_cell(value: float | None, *, text: str = "", beside: str = "") -> str:
    """A cell that sorts by its value, written as `text` where that is given; `beside` is HTML."""
    sort = "" if value is None else f"{value:.6g}"
    return f'<td class="n" data-v="{sort}">{text or number(value)}{beside and f" {beside}"}</td>'


def gain_span(gain: float | None) -> str:
    """A ratio as a signed percentage, coloured."""
    if gain is None:
        return NOTHING
    kind = "up" if gain > 1.0005 else "down" if gain < 0.9995 else "none"
    return f'<span class="gain {kind}">{gain_percent(gain)}</span>'


def ci_span(words: str) -> str:
    """An interval beside its value, in small; nothing for nothing."""
    return f'<span class="ci">{escape(words)}</span>' if words else ""


def config_code(config: SpecConfig) -> str:
    """A config id."""
    return f'<code class="id">{escape(config.config_id)}</code>'


def tag_span(text: str, kind: str = "") -> str:
    """A small label; `kind` may be `warn`."""
    return f'<span class="tag {kind}">{escape(text)}</span>'
