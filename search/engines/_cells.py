"""One row of a recording: from cells to a value and back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from search.config import CORE_KNOBS, TREE_KNOBS, KnobValue, SpecConfig, is_knob_name
from search.errors import InvalidConfig, UsageError
from search.metrics import BESIDE
from search.outcomes import Note, Outcome, Reason

COLUMNS: Final = (
    "config_id",
    *CORE_KNOBS,
    "launch",
    "outcome",
    "reason",
    "notes",
    "concurrency",
    "repeat",
    "requests",
    "output_tps",
    "tpot_ms",
    "ttft_ms",
    "accept_length",
    "accept_histogram",
    "boot_s",
    "duration_s",
)
"""The columns every recording has, in this order; those of shared starts, other metrics and knob columns follow."""

STARTS: Final = ("start", "place", "switch_s")
"""Columns of a recording in which a server start measured several configs; absent from others."""

_WHOLE = re.compile(r"-?\d+")
_GAVE_NUMBERS = frozenset({Outcome.MEASURED, Outcome.GATED})
T = TypeVar("T")


_LEAST, _MOST = 1e-9, 1e12
"""Between which every rate and time lies that anybody measured: reciprocals and products of such numbers stay finite."""

_A_POSITIVE = "a positive number from 1e-9 to 1e12"


@dataclass(frozen=True, slots=True)
class Row:
    """One repeat of a phase, or a launch (or phase) that failed.

    Attributes:
        launch: The launch it belongs to, from 1.
        reason: Why there are no numbers; None when there are.
        concurrency: None for a launch that never measured.
        accept_histogram: Verify passes that accepted 0, 1, 2, … drafts; empty where not reported.
        boot_s: Seconds to the first token, or to the failure.
        duration_s: Seconds of the phase.
        beside: Further fields of `PhaseResult` (`BESIDE`) that an objective of the study reads.
        start: The launch whose server it was measured on; None for a launch that is its own start.
        place: Place among the measurements of that start, from 0.
        switch_s: Seconds of the switch to this config; None where there was none.
    """

    config: SpecConfig
    launch: int
    outcome: Outcome
    reason: Reason | None = None
    notes: tuple[Note, ...] = ()
    concurrency: int | None = None
    repeat: int | None = None
    requests: int | None = None
    output_tps: float | None = None
    tpot_ms: float | None = None
    ttft_ms: float | None = None
    accept_length: float | None = None
    accept_histogram: tuple[int, ...] = ()
    boot_s: float | None = None
    duration_s: float | None = None
    beside: tuple[tuple[str, float], ...] = ()
    start: int | None = None
    place: int = 0
    switch_s: float | None = None

    @property
    def start_number(self) -> int:
        """The start it was measured in: numbers are equal for measurements of one server process."""
        return self.launch if self.start is None else self.start

    @property
    def measured(self) -> bool:
        """Whether the row holds a rate."""
        return self.output_tps is not None

    @property
    def tells_only_acceptance(self) -> bool:
        """Whether the row holds an accept length and no rate, as of a published curve."""
        return self.output_tps is None and self.accept_length is not None


def knob_columns(header: Sequence[str], *, where: str) -> tuple[str, ...]:
    """Check a header; return the names of its knob columns.

    Raises:
        UsageError: A column is missing, twice there, or not the name of a knob.
    """
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise UsageError(
            f"{where}: the header names every column of a recording; missing: {', '.join(missing)}. Add them; a cell may be empty."
        )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise UsageError(f"{where}: each column is there once, but {', '.join(twice)} is there twice. Remove one.")
    knobs = tuple(name for name in header if name not in (*COLUMNS, *STARTS, *BESIDE))
    for name in knobs:
        if not is_knob_name(name):
            raise UsageError(
                f"{where}: a further column is a knob such as `page_size` or `NCCL_PROTO`, but got {name!r}. Rename or remove it."
            )
    return knobs


def parse_row(cells: Mapping[str, str], *, knobs: Sequence[str], where: str) -> Row:
    """Read one row; `where` is `file:line` for errors.

    Raises:
        UsageError: A cell is not what its column holds, or the cells contradict one another.
    """

    def cell(name: str, read: Callable[[str], T], expected: str) -> T | None:
        if not cells.get(name):
            return None
        try:
            return read(cells[name])
        except ValueError:
            raise UsageError(f"{where}: `{name}` is {expected}, but got {cells[name]!r}.") from None

    def need(name: str, read: Callable[[str], T], expected: str) -> T:
        value = cell(name, read, expected)
        if value is None:
            raise UsageError(f"{where}: `{name}` is {expected}, but the cell is empty. Fill it.")
        return value

    row = Row(
        config=_config(cells, knobs=knobs, where=where),
        launch=need("launch", _count, "a whole number from 1"),
        outcome=need("outcome", Outcome, f"one of {', '.join(Outcome)}"),
        reason=cell("reason", Reason, "one of the closed list of reasons"),
        notes=cell("notes", _notes, "notes of the closed list, joined by `;`") or (),
        concurrency=cell("concurrency", _count, "a whole number from 1"),
        repeat=cell("repeat", _count, "a whole number from 1"),
        requests=cell("requests", _count, "a whole number from 1"),
        output_tps=cell("output_tps", _positive, _A_POSITIVE),
        tpot_ms=cell("tpot_ms", _positive, _A_POSITIVE),
        ttft_ms=cell("ttft_ms", _positive, _A_POSITIVE),
        accept_length=cell("accept_length", _accept, "a number from 1"),
        accept_histogram=cell("accept_histogram", _histogram, "counts such as `21/14/69`") or (),
        boot_s=cell("boot_s", _seconds, "seconds from 0"),
        duration_s=cell("duration_s", _seconds, "seconds from 0"),
        beside=tuple(
            (name, value)
            for name in BESIDE
            if name in cells and (value := cell(name, _seconds, "a number from 0")) is not None
        ),
        start=cell("start", _count, "the number of a launch"),
        place=cell("place", _place, "a whole number from 0") or 0,
        switch_s=cell("switch_s", _seconds, "seconds from 0"),
    )
    _check(row, where=where)
    return row


def row_cells(row: Row) -> dict[str, str]:
    """The cells of a row; `parse_row` reads an equal row back."""
    params = {name: _cell(value) for name, value in row.config.params.items()}
    return params | {
        "config_id": row.config.config_id,
        "launch": _cell(row.launch),
        "outcome": row.outcome.value,
        "reason": row.reason.value if row.reason else "",
        "notes": ";".join(row.notes),
        "concurrency": _cell(row.concurrency),
        "repeat": _cell(row.repeat),
        "requests": _cell(row.requests),
        "output_tps": _cell(row.output_tps),
        "tpot_ms": _cell(row.tpot_ms),
        "ttft_ms": _cell(row.ttft_ms),
        "accept_length": _cell(row.accept_length),
        "accept_histogram": "/".join(map(str, row.accept_histogram)),
        "boot_s": _cell(row.boot_s),
        "duration_s": _cell(row.duration_s),
        **({} if row.start is None else _start_cells(row)),
        **{name: _cell(value) for name, value in row.beside},
    }


def _start_cells(row: Row) -> dict[str, str]:
    return {"start": _cell(row.start), "place": _cell(row.place), "switch_s": _cell(row.switch_s)}


def _config(cells: Mapping[str, str], *, knobs: Sequence[str], where: str) -> SpecConfig:
    knob_values = {name: _knob(cells[name]) for name in (*CORE_KNOBS, *knobs) if cells[name]}
    try:
        config = SpecConfig.from_params(knob_values)
    except InvalidConfig as error:
        raise UsageError(f"{where}: {error}") from error
    except ValueError as error:
        raise UsageError(f"{where}: {', '.join(TREE_KNOBS)} are whole numbers: {error}.") from error
    if config.params != knob_values | {"allreduce_fusion": config.allreduce_fusion}:
        raise UsageError(f"{where}: `off` has no tree knobs, but got {knob_values}. Leave their cells empty.")
    if config.config_id != cells["config_id"]:
        raise UsageError(
            f"{where}: `config_id` is the id of the row's knobs, {config.config_id}, but got {cells['config_id']!r}. Correct the one that is wrong."
        )
    return config


def _check(row: Row, *, where: str) -> None:
    if row.start_number > row.launch or (row.start is None and (row.place or row.switch_s is not None)):
        raise UsageError(
            f"{where}: a measurement after the first of a start names in `start` an earlier launch, but launch {row.launch} "
            f"with place {row.place} names {row.start}. Correct the cells, or empty `start`, `place` and `switch_s`."
        )
    if row.measured and row.reason is not None:
        raise UsageError(f"{where}: a row has numbers or a `reason`, but this one has both. Empty one of them.")
    if row.outcome in _GAVE_NUMBERS:
        # A published curve shows how many drafts are accepted, and no rate.
        if (row.measured or row.accept_length is not None) and row.concurrency and row.repeat:
            longest = (row.config.num_steps or 0) + 1
            if row.accept_length is not None and row.accept_length > longest:
                raise UsageError(
                    f"{where}: `accept_length <= num_steps + 1 = {longest}` must hold, but got {row.accept_length}."
                )
            return
        missing = [name for name in ("concurrency", "repeat", "output_tps") if getattr(row, name) is None]
        raise UsageError(
            f"{where}: a row that is {row.outcome} has {', '.join(missing)}, but the cells are empty. Fill them, or change `outcome`."
        )
    if row.measured:
        raise UsageError(
            f"{where}: a row that is {row.outcome} has no numbers, but `output_tps` is {row.output_tps}. Empty the numbers, or change `outcome`."
        )
    if row.reason is None:
        raise UsageError(
            f"{where}: a row that is {row.outcome} says why in `reason`, but the cell is empty. Fill it with a reason of `search/outcomes.py`."
        )


def _cell(value: KnobValue | float | None) -> str:
    return "" if value is None else str(value)


def _knob(text: str) -> KnobValue:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if _WHOLE.fullmatch(text) and len(text) <= 18 else text


def _count(text: str) -> int:
    value = int(text) if _WHOLE.fullmatch(text) else 0
    if value < 1:
        raise ValueError(text)
    return value


def _place(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(text)
    return value


def _positive(text: str) -> float:
    value = _seconds(text)
    if not _LEAST <= value <= _MOST:
        raise ValueError(text)
    return value


def _accept(text: str) -> float:
    value = _seconds(text)
    if value < 1:
        raise ValueError(text)
    return value


def _histogram(text: str) -> tuple[int, ...]:
    counts = tuple(int(part) for part in text.split("/"))
    if min(counts) < 0:
        raise ValueError(text)
    return counts


def _notes(text: str) -> tuple[Note, ...]:
    return tuple(Note(part) for part in text.split(";"))
