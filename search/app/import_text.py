"""Text that somebody pasted, as a table: CSV of any delimiter, Markdown, JSON lines or a JSON array."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from search.errors import UsageError

MOST_BYTES = 2**24
MOST_ROWS = 20_000
MOST_COLUMNS = 500
_LONGEST_CELL = 2_000
_DELIMITERS = ",\t;|"
_RULE = re.compile(r"[|\s:\-]*-[|\s:\-]*")
"""The line below a Markdown table's header: dashes, bars and colons."""
_CAPTION_LINES = 3


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as they stand in the text, stripped.

    Attributes:
        where: Name of the source, for errors.
        header: One name for each column.
        rows: As wide as the header.
        lines: Of the source, from 1, one for each row.
        caption: The lines of text right above a Markdown table.
    """

    where: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    caption: str = ""


def read_text(source: Path | None) -> str:
    """The text of a file, or of standard input for None.

    Raises:
        UsageError: It is no regular file of text, or too large.
    """
    if source is None:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        try:
            if not source.exists():
                raise UsageError(f"A table is a file, but there is no {source}. Name one, or `-` for what is pasted.")
            if not source.is_file():
                raise UsageError(
                    f"A table is a regular file, but {source} is none. Name one, or `-` for what is pasted."
                )
            with source.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"{source}: cannot be read: {error}.") from error
    where = source or "standard input"
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{where}: a table has at most {MOST_BYTES >> 20} MiB, but this one has more. Cut out the part you need."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: a table is UTF-8 text, but it is not: {error}. Save it as UTF-8.") from error


def table_of(text: str, *, where: str, number: int | None = None) -> TextTable:
    """The table in a text.

    Args:
        text: Anything that holds one.
        where: Name of the source, for errors.
        number: Which one, from 1, where a Markdown text holds several.

    Raises:
        UsageError: There is none, several and no `number`, or it is malformed; with the line.
    """
    if "\0" in text:
        raise UsageError(f"{where}: a table is text, but this holds NUL. Save it as UTF-8.")
    if text.lstrip()[:1] in ("{", "["):
        found = [_of_records(text, where)]
    else:
        found = list(_markdown(text, where)) or [_csv(text, where)]
    if number is None and len(found) > 1:
        listed = "; ".join(f"{place}: {' | '.join(one.header)[:80]}" for place, one in enumerate(found[:9], 1))
        raise UsageError(
            f"{where}: one table is imported at a time, but there are {len(found)} ({listed}). Choose one with `--table N`."
        )
    if number is not None and not 1 <= number <= len(found):
        raise UsageError(f"{where}: `--table` is 1 to {len(found)}, but got {number}.")
    return _sound(found[(number or 1) - 1])


def _sound(table: TextTable) -> TextTable:
    where = table.where
    if not table.rows:
        raise UsageError(f"{where}: a table has a header and at least one row, but there is none. Paste it whole.")
    if len(table.rows) > MOST_ROWS or len(table.header) > MOST_COLUMNS:
        raise UsageError(
            f"{where}: a table has at most {MOST_ROWS:,} rows and {MOST_COLUMNS} columns, but this one has "
            f"{len(table.rows):,} and {len(table.header)}. Cut out the part you need."
        )
    header = tuple(name or f"column {place}" for place, name in enumerate(table.header, 1))
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise UsageError(
            f"{where}: each column has a name of its own, but {twice[0]!r} is there twice. Rename one of them."
        )
    for line, row in zip(table.lines, table.rows, strict=True):
        if any(len(cell) > _LONGEST_CELL for cell in row):
            raise UsageError(
                f"{where}:{line}: a cell has at most {_LONGEST_CELL:,} letters, but one has more. Shorten it."
            )
    return replace(table, header=header)


def _markdown(text: str, where: str) -> Iterator[TextTable]:
    """Every table with a rule of dashes below its header."""
    lines = text.splitlines()
    place = 1
    while place < len(lines):
        above, rule = lines[place - 1], lines[place]
        if not ("|" in rule and "|" in above and _RULE.fullmatch(rule.strip())):
            place += 1
            continue
        header = _cells(above)
        rows, numbers = [], []
        end = place + 1
        while end < len(lines) and "|" in lines[end]:
            cells = _cells(lines[end])
            if len(cells) > len(header):
                raise UsageError(
                    f"{where}:{end + 1}: a row has at most the {len(header)} cells of its header, but this one has {len(cells)}. "
                    "Write a bar inside a cell as `\\|`."
                )
            rows.append((*cells, *[""] * (len(header) - len(cells))))
            numbers.append(end + 1)
            end += 1
        caption = [line for line in lines[: place - 1][-_CAPTION_LINES - 1 :] if line.strip() and "|" not in line]
        yield TextTable(where, header, tuple(rows), tuple(numbers), " ".join(caption))
        place = end + 1


def _cells(line: str) -> tuple[str, ...]:
    inner = line.strip()
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return tuple(plain(cell.replace("\\|", "|")) for cell in re.split(r"(?<!\\)\|", inner))


def plain(cell: str) -> str:
    """A cell without what makes it bold, code or struck out."""
    return re.sub(r"\*\*|__|`|~~|<br\s*/?>", " ", cell).strip(" \t\r\n*")


def _csv(text: str, where: str) -> TextTable:
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    if not first.count(delimiter):
        raise UsageError(
            f"{where}: a table is CSV, Markdown or JSON lines, but its first line has one column: {first[:60]!r}. "
            "Paste it with its header, columns parted by commas, semicolons, tabs or bars."
        )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    header: tuple[str, ...] | None = None
    rows: list[tuple[str, ...]] = []
    numbers: list[int] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = tuple(plain(cell) for cell in cells)
                continue
            if len(cells) != len(header):
                raise UsageError(
                    f"{where}:{reader.line_num}: a row has the {len(header)} cells of its header, but this one has {len(cells)}. "
                    "Put cells that hold the delimiter in quotes."
                )
            rows.append(tuple(plain(cell) for cell in cells))
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise UsageError(f"{where}:{reader.line_num}: not a CSV table: {error}.") from error
    return TextTable(where, header or (), tuple(rows), tuple(numbers))


def _of_records(text: str, where: str) -> TextTable:
    """JSON lines, or an array of objects; what is nested one level down counts as a column of its own."""
    records: list[tuple[int, dict[str, Any]]] = []
    for line, item in _documents(text, where):
        if not isinstance(item, dict):
            raise UsageError(
                f"{where}:{line}: each record is an object, but got {str(item)[:40]!r}. Write one object a line."
            )
        records.append((line, _flat(item)))
    header = tuple(dict.fromkeys(name for _, record in records for name in record))
    rows = tuple(tuple(record.get(name, "") for name in header) for _, record in records)
    return TextTable(where, header, rows, tuple(line for line, _ in records))


def _documents(text: str, where: str) -> Iterator[tuple[int, Any]]:
    try:
        if text.lstrip().startswith("["):
            yield from ((1, item) for item in json.loads(text))
            return
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield number, json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where}: not JSON lines: {error.msg} in {error.doc[:40]!r}. Write one object a line, or an array."
        ) from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{where}: cannot be read as JSON: {error}.") from error


def _flat(item: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in item.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, part in inner:
            if isinstance(part, str | int | float) or part is None:
                found.setdefault(key or name, "" if part is None else str(part).strip())
    return found
