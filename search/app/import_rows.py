"""Rows of somebody's table as rows of a recording: numbers with their units, unknown cells, configs and loads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from search.app.import_columns import RATES, SKIP, Columns
from search.app.import_labels import label_config, shape_config
from search.app.import_text import TextTable
from search.config import OPTIONAL_KNOBS, KnobValue, SpecConfig, check_tree, knob_value
from search.errors import ImpossibleTree, UsageError
from search.metrics import pace_of

UNKNOWN: Final = frozenset(
    {"", "-", "\u2013", "\u2014", "?", "x", "n/a", "na", "nan", "none", "null", "tbd", "skip"}
    | {"oom", "fail", "failed", "error", "crash", "timeout", "not run", "not measured"}
)
"""Cells that hold no number."""
_NUMBER = re.compile(
    r"[~≈<>]?\s*(?P<number>[+-]?[\d.,]*\d(?:[eE][+-]?\d+)?)\s*(?P<kilo>[kK](?![a-zA-Z]))?\s*(?P<rest>.*)", re.DOTALL
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_REST = re.compile(
    r"(\(.*\)|\[.*\]|±.*|\+/?-.*|%|x|tok(ens?)?\s*/\s*s(ec)?(ond)?(\s*/\s*\w+)?|t/s|tps|ms|s|gb)*\s*\**", re.IGNORECASE
)
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class Reading:
    """What one row, or one cell of a wide table, says of a config at a load.

    Attributes:
        line: Of the source.
        values: By field, in its unit.
        conditions: Cells that may distinguish two rows of one config and load.
        derived: What was computed to get a value, one sentence each.
    """

    config: SpecConfig
    concurrency: int
    line: int
    values: Mapping[str, float]
    conditions: tuple[tuple[str, str], ...] = ()
    derived: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What the command says of the whole table.

    Attributes:
        worker: `v1` or `v2` of configs that do not say it; empty without.
        config: Of every row.
        at: Concurrency of every row.
        gpus: Of the server.
        only: Column to the cell that its rows have to hold.
        algorithm: What drafted, such as NGRAM; empty where unknown.
    """

    worker: str = ""
    config: SpecConfig | None = None
    at: int | None = None
    gpus: int | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    algorithm: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """All of a table.

    Attributes:
        readings: In the order of the table.
        unknown: Cells without a number.
        unnamed: Labels of rows that were left out because `--map` says so.
    """

    readings: tuple[Reading, ...]
    unknown: int = 0
    unnamed: tuple[str, ...] = ()


def read_number(text: str, *, where: str) -> float | None:
    """A number as people write it: `1,234.5`, `86.8 tok/s`, `142 ±4`, `1.2k`; None where the cell holds none.

    Raises:
        UsageError: It is neither a number nor one of the words for unknown.
    """
    cell = text.strip()
    if cell.lower() in UNKNOWN:
        return None
    match = _NUMBER.fullmatch(cell)
    if match is None or not _REST.fullmatch(match["rest"].strip()):
        raise UsageError(
            f"{where}: a cell holds a number, or `-` where it is not known, but got {cell[:40]!r}. Correct it, or leave its column out "
            "with `--map COLUMN=skip`."
        )
    digits = match["number"]
    if "," in digits:
        if not _THOUSANDS.fullmatch(digits):
            raise UsageError(
                f"{where}: a number has a point before its decimals, but got {cell[:40]!r}. Write 86.8, not 86,8."
            )
        digits = digits.replace(",", "")
    try:
        value = float(digits) * (1000.0 if match["kilo"] else 1.0)
    except ValueError:
        raise UsageError(f"{where}: a cell holds one number, but got {cell[:40]!r}. Correct it.") from None
    if match["rest"].lstrip().startswith("%"):
        value /= 100.0
    if not math.isfinite(value) or not 0.0 <= value <= _MOST:
        raise UsageError(
            f"{where}: a number lies between 0 and {_MOST:g}, but got {cell[:40]!r}. Correct it, or write `-`."
        )
    return value


def read_rows(table: TextTable, columns: Columns, said: Said) -> Read:
    """Every reading of the table.

    Raises:
        UsageError: A row does not say its config or load, or holds what cannot be; with its line.
    """
    found: list[Reading] = []
    unknown = 0
    unnamed: list[str] = []
    for line, row in zip(table.lines, table.rows, strict=True):
        cells = dict(zip(table.header, row, strict=True))
        if any(cells[name].casefold() != value.casefold() for name, value in said.only.items()):
            continue
        where = f"{table.where}:{line}"
        label = cells[columns.fields["config"]] if "config" in columns.fields else ""
        if columns.configs.get(label.casefold()) == SKIP:
            unnamed.append(label)
            continue
        conditions = _conditions(cells, columns)
        for config, load, numbers in _parts(cells, columns, said, where):
            values = {name: value for name, value in numbers.items() if value is not None}
            unknown += len(numbers) - len(values)
            full, derived = _complete(values, load, said, config, where)
            if not any(name in full for name in ("output_tps", "accept_length")):
                continue
            found.append(Reading(config, load, line, full, conditions, derived))
    return Read(tuple(found), unknown, tuple(dict.fromkeys(unnamed)))


def _parts(
    cells: Mapping[str, str], columns: Columns, said: Said, where: str
) -> Iterator[tuple[SpecConfig, int, dict[str, float | None]]]:
    """Config, load and numbers of a row; one for each load or config where columns are those."""
    names = ("output_tps", "user_tps", "tps_per_gpu", "tpot_ms", "ttft_ms", "accept_length", "requests", "duration_s")
    numbers = {name: _number(cells, columns, columns.fields[name], where) for name in names if name in columns.fields}
    if not columns.wide:
        yield _drafted(_config(cells, columns, said, where), said, where), _load(cells, columns, said, where), numbers
        return
    parts: dict[tuple[int | None, str | None], dict[str, float | None]] = {}
    for column, (load, label, metric) in columns.wide.items():
        parts.setdefault((load, label), {})[metric] = _number(cells, columns, column, where)
    for (load, label), own in parts.items():
        config = _named(label, columns, said, where) if label else _config(cells, columns, said, where)
        yield _drafted(config, said, where), load or _load(cells, columns, said, where), own


def _drafted(config: SpecConfig, said: Said, where: str) -> SpecConfig:
    try:
        check_tree(config, said.algorithm)
    except ImpossibleTree as error:
        raise UsageError(f"{where}: {error}") from error
    return config


def _number(cells: Mapping[str, str], columns: Columns, column: str, where: str) -> float | None:
    value = read_number(cells[column], where=f"{where}, column {column!r}")
    return None if value is None else value * columns.scale.get(column, 1.0)


def _whole(cells: Mapping[str, str], columns: Columns, name: str, where: str) -> int | None:
    if name not in columns.fields:
        return None
    value = read_number(cells[columns.fields[name]], where=where)
    if value is not None and not value.is_integer():
        raise UsageError(f"{where}: `{name}` is a whole number, but got {cells[columns.fields[name]]!r}. Correct it.")
    return None if value is None else int(value)


def _load(cells: Mapping[str, str], columns: Columns, said: Said, where: str) -> int:
    load = _whole(cells, columns, "concurrency", where)
    load = said.at if load is None else load
    if load is None or not 1 <= load <= 4096:
        got = f"got {load}" if load is not None else "there is none"
        raise UsageError(
            f"{where}: each row has a concurrency from 1 to 4096, but {got}. Say it of all rows with `--at N`, or name its column with "
            "`--map COLUMN=concurrency`."
        )
    return load


def _config(cells: Mapping[str, str], columns: Columns, said: Said, where: str) -> SpecConfig:
    if said.config is not None:
        return said.config
    worker = cells[columns.fields["spec_version"]].lower() if "spec_version" in columns.fields else ""
    if worker == "off":
        return SpecConfig.from_params({"spec_version": "off", **_knobs(cells, columns)})
    if "config" in columns.fields:
        label = cells[columns.fields["config"]]
        return _named(label, columns, Said(worker=worker or said.worker), where)
    chain = _whole(cells, columns, "chain", where)
    topk, steps = (1, chain) if chain is not None else (_whole(cells, columns, n, where) for n in ("topk", "num_steps"))
    tokens = _whole(cells, columns, "num_draft_tokens", where)
    if steps is None and topk is None and tokens is None and {"num_steps", "topk", "chain"} & columns.fields.keys():
        steps = topk = 0
    if steps is not None and topk is not None:
        found = shape_config(
            topk=topk,
            num_steps=steps,
            num_draft_tokens=tokens,
            worker=worker or said.worker,
            what=where,
            more=_knobs(cells, columns),
        )
        if found is not None:
            return found
    raise UsageError(
        f"{where}: each row says which config it is: by an id or label, or by num_steps, topk and num_draft_tokens. Name the columns with "
        "`--map COLUMN=FIELD`, or say it of all rows with `--config v2-k1-s2-d3`."
    )


def _knobs(cells: Mapping[str, str], columns: Columns) -> dict[str, KnobValue]:
    named = {
        name: cells[columns.fields[name]] for name in ("allreduce_fusion", *OPTIONAL_KNOBS) if name in columns.fields
    }
    return {name: knob_value(value) for name, value in named.items() if value.lower() not in UNKNOWN}


def _named(label: str, columns: Columns, said: Said, where: str) -> SpecConfig:
    meant = columns.configs.get(label.casefold(), label)
    config = label_config(meant, worker=said.worker)
    if config is None:
        raise UsageError(
            f"{where}: each row is a config, but {label[:60]!r} names none. Say which with `--map '{label[:60]}=v2-k1-s2-d3'`, or leave it out "
            f"with `--map '{label[:60]}=skip'`."
        )
    return config


def _complete(
    values: Mapping[str, float], load: int, said: Said, config: SpecConfig, where: str
) -> tuple[dict[str, float], tuple[str, ...]]:
    """With the output rate, from whatever says it; and how it came about."""
    full = {name: value for name, value in values.items() if value > 0.0}
    derived: list[str] = []
    if any(name in values and values[name] == 0.0 for name in RATES):
        raise UsageError(f"{where}: a rate is a positive number, but got 0. Write `-` where nothing was measured.")
    if "output_tps" not in full and "user_tps" in full:
        full["output_tps"] = full["user_tps"] * load
        derived.append("output_tps is the rate of one request times the concurrency.")
    if "output_tps" not in full and "tps_per_gpu" in full:
        if said.gpus is None:
            raise UsageError(f"{where}: rates per GPU need the number of GPUs. Say it with `--gpus '8x KIND'`.")
        full["output_tps"] = full["tps_per_gpu"] * said.gpus
        derived.append("output_tps is the rate of one GPU times their number.")
    if "output_tps" not in full and "tpot_ms" in full:
        full["output_tps"] = pace_of(full["tpot_ms"], load)
        derived.append("output_tps is 1000 times the concurrency / tpot_ms.")
    if not config.speculates:
        full.pop("accept_length", None)
    length = full.get("accept_length")
    longest = (config.num_steps or 0) + 1
    if length is not None and not 1.0 <= length <= longest:
        raise UsageError(
            f"{where}: an accept length counts the bonus token, so it lies between 1 and num_steps + 1 = {longest} for {config}, but got "
            f"{length:g}. Correct it, or leave its column out with `--map COLUMN=skip`."
        )
    return full, tuple(derived)


def _conditions(cells: Mapping[str, str], columns: Columns) -> tuple[tuple[str, str], ...]:
    """Cells of columns that nothing was read from, as far as they say under what a row was measured."""
    kept = [name for name in columns.left_out if name not in columns.dropped]
    return tuple((name, cells[name]) for name in kept if _is_condition(name, cells[name]))


_CONDITION = re.compile(
    r"\b(tp|dp|ep|pp|model|draft|dataset|data|gpu|gpus|temperature|phase|workload|prompt|isl|osl|input len|output len|release|version|"
    r"thinking|category|task|precision|quant\w*)\b"
)


def _is_condition(name: str, cell: str) -> bool:
    number = _NUMBER.fullmatch(cell.strip())
    return bool(_CONDITION.search(name.lower())) or (bool(cell) and number is None)
