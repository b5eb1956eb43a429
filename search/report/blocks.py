"""What a section of the page is made of: values that the templates spell, so that no section writes HTML of its own.

All text in them is plain; the templates escape it. A pair of backticks marks what is typed or is an id.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from search.analysis.findings import Gain
from search.config import SpecConfig
from search.metrics import gain_percent, number
from search.report.text import bounds, gain_bounds
from search.stats.estimates import Estimate


@dataclass(frozen=True, slots=True)
class Tag:
    """A small label; `warns` where it changes what to do."""

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, what stands small below it, and what it sorts by.

    Attributes:
        ci: The interval, on a line of its own.
        gain: A percentage with its interval, coloured by `tone`, on a line of its own.
        gain_ci: Its interval.
        tone: `up`, `down` or empty.
        sort: What the column sorts by; the number in its text, or the text, where it is empty.
        code: Whether the text is an id.
        strong: Whether it stands out.
        tags: After the text.
        more: Further lines, small.
    """

    text: str = ""
    ci: str = ""
    gain: str = ""
    gain_ci: str = ""
    tone: str = ""
    sort: str = ""
    code: bool = False
    strong: bool = False
    tags: tuple[Tag, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.text or self.gain or self.tags or self.more)


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers stand to the right and sort from high to low first, unless low is good."""

    title: str
    numeric: bool = False
    low_is_good: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A row; `marked` ones stand out, such as configs on the front."""

    cells: tuple[Cell, ...]
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows become cards where the page is too narrow for its columns.

    Attributes:
        sorts: Whether a click on a heading sorts, and a word above it filters.
        name: Anchor; needed where it sorts.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    name: str = ""
    sorts: bool = False

    @property
    def fold(self) -> str:
        """Class of the page width below which its rows become cards: what the columns need beside one another."""
        need = sum(_needs(column, [row.cells[place] for row in self.rows]) for place, column in enumerate(self.columns))
        return f"fold-{next((width for width in FOLDS if need <= width), FOLDS[-1])}"


def _needs(column: Column, cells: Sequence[Cell]) -> int:
    """Pixels that a column takes, its padding included, as the style sheet sets it."""
    if column.wide:
        return _WIDE
    title = max((len(word) for word in column.title.split()), default=0) * _LETTER + (_ARROW if column.title else 0)
    return math.ceil(max([title, *map(_width, cells)])) + _PADDING


def _width(cell: Cell) -> int:
    text = len(cell.text) * (_CODE if cell.code else _LETTER)
    small = max((len(line) for line in (cell.ci, cell.gain_ci, *cell.more)), default=0) * _SMALL
    tag = max((len(tag.text) for tag in cell.tags), default=0) * _SMALL + (16 if cell.tags else 0)
    return math.ceil(max(text, len(cell.gain) * _LETTER, small, tag))


FOLDS = (480, 560, 640, 720, 800, 900, 1000, 1100, 1200, 1300, 1400, 1500, 1600)
"""Widths of the page in pixels at which tables become cards."""
_WIDE, _PADDING, _ARROW = 170, 16, 16
_LETTER, _CODE, _SMALL = 7.9, 8.4, 6.3


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `aside` in soft ink."""

    kind: ClassVar[str] = "text"
    text: str
    aside: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    """A list."""

    kind: ClassVar[str] = "lines"
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str
    tags: tuple[Tag, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """Words to copy into a shell."""

    kind: ClassVar[str] = "command"
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A Plotly figure as JSON text; `low` of two thirds of the usual height."""

    kind: ClassVar[str] = "figure"
    name: str
    caption: str
    data: str
    low: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """What is shown on a click."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: tuple[Block, ...]


Block: TypeAlias = "Text | Lines | Heading | Command | Facts | Figure | Table | Fold"
"""Each kind has a macro of its name in `templates/blocks.html.j2`."""


def config_cell(config: SpecConfig, *tags: Tag, strong: bool = False) -> Cell:
    """A config id."""
    return Cell(config.config_id, code=True, strong=strong, tags=tags)


def number_cell(value: float | None, *, text: str = "", ci: str = "", gain: Gain | None = None) -> Cell:
    """A number that sorts by its value, with its interval and a gain below it; empty where it is None.

    Args:
        value: What the column sorts by.
        text: In place of the number as people read it.
        ci: Its interval in words.
        gain: Stands below it.
    """
    if value is None:
        return Cell()
    percent, percent_ci, tone = gain_parts(gain)
    words = text or number(value)
    return Cell(words, ci.strip(), percent, percent_ci, tone, sort="" if _reads(words) else f"{value:.6g}")


def _reads(words: str) -> bool:
    """Whether a number sorts by its text, so that the page need not carry it twice."""
    try:
        float(words.replace(",", ""))
    except ValueError:
        return False
    return True


def estimate_cell(estimate: Estimate | None, *, band: bool = False, gain: Gain | None = None) -> Cell:
    """An estimate with its interval below it."""
    return number_cell(estimate.value if estimate else None, ci=bounds(estimate, band=band), gain=gain)


def gain_cell(gain: Gain | None) -> Cell:
    """A gain alone."""
    if gain is None:
        return Cell()
    percent, percent_ci, tone = gain_parts(gain)
    return Cell("", "", percent, percent_ci, tone)


def gain_parts(gain: Gain | None) -> tuple[str, str, str]:
    """Percentage, interval and tone of a gain; empty where there is none."""
    if gain is None:
        return "", "", ""
    tone = "up" if gain.value > 1.0005 else "down" if gain.value < 0.9995 else ""
    return gain_percent(gain.value), gain_bounds(gain).strip(), tone


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell] | Row], *, name: str = "", sorts: bool = False
) -> Table:
    """A table without the columns in which no row says anything.

    Args:
        columns: Headings.
        rows: Cells in their order.
        name: Anchor; needed where it sorts.
        sorts: Whether headings sort it.
    """
    made = [row if isinstance(row, Row) else Row(tuple(row)) for row in rows]
    shown = [place for place in range(len(columns)) if any(not row.cells[place].empty for row in made)]
    return Table(
        tuple(columns[place] for place in shown),
        tuple(Row(tuple(row.cells[place] for place in shown), row.marked) for row in made),
        name,
        sorts,
    )
