"""What the columns of somebody's table hold: by their names where those are clear, else as `--map` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from search.app.import_labels import label_config
from search.app.import_text import TextTable
from search.config import OPTIONAL_KNOBS
from search.errors import UsageError

SKIP = "skip"
CELLS = "cells"
"""Stands for the numbers of a table whose columns are loads or configs."""

ALIASES: Final[Mapping[str, str]] = {
    "config": "config|config id|configuration|setting|settings|mode|method|variant|label|tag|arm|name",
    "spec_version": "spec version|worker|worker version|version of worker",
    "topk": "topk|top k|eagle topk|speculative eagle topk",
    "num_steps": "num steps|steps|speculative num steps|spec steps|draft steps|depth",
    "num_draft_tokens": "num draft tokens|draft tokens|num draft|speculative num draft tokens|verify tokens",
    "chain": "num speculative tokens|speculative tokens|draft length|chain length|mtp k|n max|k",
    "concurrency": "max concurrency|concurrency|c|cc|conc|bs|batch|batch size|batchsize|concurrent requests|load|users|parallel",
    "output_tps": "output tps|output throughput|output token throughput|throughput|output tok s|out tok s|output tokens per second|"
    "generation throughput|gen throughput|aggregate tok s|decode throughput",
    "user_tps": "user tps|tok s user|per user throughput|per request tok s|per req tok s|tok s per user|interactivity",
    "tps_per_gpu": "tps per gpu|tok s gpu|tok s per gpu|output tps per gpu|throughput per gpu",
    "tpot_ms": "tpot ms|tpot|mean tpot ms|mean tpot|time per output token|avg tpot",
    "ttft_ms": "ttft ms|ttft|mean ttft ms|mean ttft|time to first token|avg ttft",
    "accept_length": "accept length|acceptance length|accept len|acc len|accept lengths|mean acceptance length|avg accept len|"
    "average accept length|average acceptance length|avg acceptance length|spec accept length|al|a len|mean accept length",
    "position": "position|pos|draft position|token position",
    "accept_at": "accept at",
    "accept_given": "accept given",
    "requests": "requests|num requests|completed|successful requests|num prompts",
    "duration_s": "duration s|duration|benchmark duration",
}
"""Field to the names that mean it, in lower case without units and signs; the first that is there counts."""

UNCLEAR: Final[Mapping[str, tuple[str, ...]]] = {
    "tps|tok s|toks s|tokens s|token s|t s|tokens per second|tokens second|decode tok s|speed": (
        "output_tps",
        "user_tps",
        "tps_per_gpu",
    ),
    "acceptance|acceptance rate|accept rate|rate|acc|acc rate|per position acceptance": ("accept_at", "accept_given"),
}
"""Names that may mean either: all requests together, one of them, one GPU; of all passes, or of those that came so far."""

SAID: Final[Mapping[str, str]] = {
    "output_tps": "tokens per second of all requests together",
    "user_tps": "of one request",
    "tps_per_gpu": "of one GPU",
    "accept_at": "share of all verify passes that accept the draft at this position",
    "accept_given": "share of those that accepted all before it",
}
RATES: Final = ("output_tps", "user_tps", "tps_per_gpu", "tpot_ms")
METRICS: Final = (*RATES, "ttft_ms", "accept_length")
_CONFIG_FIELDS: Final = ("config", "topk", "num_steps", "chain", "position")

_LOAD = re.compile(
    r"(?:(?:bs|batch(?: size)?|c|cc|conc|concurrency|load|users|n|x) ?)?(?P<load>\d{1,5})(?: (?P<rest>.+))?"
)
_UNIT = re.compile(r"[(\[](?P<unit>[^)\]]*)[)\]]\s*$")


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by what they hold.

    Attributes:
        fields: Field to column.
        wide: Columns that hold one metric of one load or one config: column to (load, label, metric).
        configs: What `--map` says of labels: label in lower case to a config's name, or `skip`.
        scale: Column to what its numbers are multiplied by, as 1000 for seconds where milliseconds are meant.
        left_out: Columns that hold nothing of use.
        dropped: Of those, the ones that `--map` names.
    """

    fields: Mapping[str, str]
    wide: Mapping[str, tuple[int | None, str | None, str]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    scale: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    dropped: frozenset[str] = frozenset()


def known(name: str) -> str:
    """A column's name as the aliases have it: lower case, without unit, signs and doubled blanks."""
    return " ".join(re.sub(r"[^a-z0-9]+", " ", _UNIT.sub("", name).lower()).split())


def columns_of(table: TextTable, maps: Sequence[str], *, worker: str, one_load: bool) -> Columns:
    """Find out what each column holds.

    Args:
        table: With its header.
        maps: `COLUMN=FIELD`, `LABEL=CONFIG`, either `=skip`, or `cells=FIELD`.
        worker: Of configs that do not say it, to distinguish labels from other text.
        one_load: The command names one load for the whole table.

    Raises:
        UsageError: A column is unclear, a map fits nothing, or nothing says which configs these are.
    """
    said, configs, cells = _mapped(table, maps)
    fields: dict[str, str] = {}
    for name, meaning in said.items():
        if meaning == SKIP:
            continue
        if meaning in fields:
            raise UsageError(
                f"One column holds `{meaning}`, but `--map` says so of {fields[meaning]!r} and {name!r}. Leave one out."
            )
        fields[meaning] = name
    for meaning, names in ALIASES.items():
        found = [
            name for alias in names.split("|") for name in table.header if known(name) == alias and name not in said
        ]
        if meaning not in fields and found:
            fields[meaning] = found[0]
    taken = {*fields.values(), *said}
    wide = dict(_wide(table, taken, fields, configs, cells, worker))
    taken |= wide.keys()
    for names, choices in UNCLEAR.items():
        about = [name for name in table.header if known(name) in names.split("|") and name not in taken]
        # At one load of 1, all requests together are one request.
        alone = "concurrency" not in fields and not wide and not one_load
        if about and _matters(choices, fields) and not _clear_at_one(table, fields, choices, alone=alone):
            raise UsageError(_question(about[0], choices, table.where))
        if about and _matters(choices, fields):
            fields[choices[0]] = about[0]
            taken.add(about[0])
    knobs = {name: column for column in table.header if (name := known(column).replace(" ", "_")) in _KNOBS}
    fields |= {name: column for name, column in knobs.items() if column not in taken}
    taken |= set(fields.values())
    return Columns(
        fields,
        wide,
        configs,
        scale={name: factor for name in table.header if (factor := _factor(name)) != 1.0},
        left_out=tuple(name for name in table.header if name not in taken or said.get(name) == SKIP),
        dropped=frozenset(name for name, meaning in said.items() if meaning == SKIP),
    )


_KNOBS: Final = ("allreduce_fusion", *OPTIONAL_KNOBS)


def _mapped(table: TextTable, maps: Sequence[str]) -> tuple[dict[str, str], dict[str, str], str | None]:
    """`--map`: columns to fields, labels to configs, and what the cells of a wide table are."""
    headers = {name.casefold(): name for name in table.header}
    labels = {cell.casefold() for row in table.rows for cell in row if cell and not cell[0].isdigit()}
    fields: dict[str, str] = {}
    configs: dict[str, str] = {}
    cells: str | None = None
    for text in maps:
        cuts = [place for place, letter in enumerate(text) if letter == "="]
        parts = [(text[:cut].strip().casefold(), text[cut + 1 :].strip()) for cut in reversed(cuts)]
        name, meaning = next(((a, b) for a, b in parts if a in headers or a in labels or a == CELLS), ("", ""))
        if not name:
            raise UsageError(
                f"`--map` names a column or a label of the table, but got {text!r}. Its columns: {', '.join(table.header)[:300]}."
            )
        is_field = meaning in ALIASES or meaning in _KNOBS
        if name == CELLS and name not in headers:
            if meaning not in METRICS:
                raise UsageError(f"`--map cells=...` is one of {', '.join(METRICS)}, but got {meaning!r}.")
            cells = meaning
        elif name in headers and (is_field or meaning == SKIP):
            fields[headers[name]] = meaning
        elif meaning == SKIP or _is_config(meaning, ""):
            configs[name] = meaning
        else:
            raise UsageError(
                f"`--map` gives a column one of {', '.join(ALIASES)}, a label a config such as v2-k1-s2-d3, or either `skip`, but got {text!r}."
            )
    return fields, configs, cells


def _wide(
    table: TextTable,
    taken: set[str],
    fields: Mapping[str, str],
    configs: Mapping[str, str],
    cells: str | None,
    worker: str,
) -> Iterator[tuple[str, tuple[int | None, str | None, str]]]:
    """Columns that are a load or a config of their own."""
    free = [name for name in table.header if name not in taken]
    if "concurrency" not in fields:
        loads = [(name, match) for name in free if (match := _LOAD.fullmatch(known(name)))]
        needs = any(not match["rest"] for _, match in loads)
        for name, match in loads:
            metric = _metric(match["rest"]) if match["rest"] else _cells_metric(table, cells, loads=True)
            if metric is not None:
                yield name, (int(match["load"]), None, metric)
        if loads or needs:
            return
    if any(name in fields for name in _CONFIG_FIELDS) or "concurrency" not in fields:
        return
    for name in free:
        label = configs.get(name.casefold())
        if label == SKIP:
            continue
        if label is not None or _is_config(name, worker):
            yield name, (None, label or name, _cells_metric(table, cells, loads=False))


def _is_config(name: str, worker: str) -> bool:
    # A worker that is missing is asked for later; here it would hide what the label says.
    return label_config(_UNIT.sub("", name).strip(), worker=worker or "v2") is not None


def _metric(rest: str) -> str | None:
    return next((name for name in METRICS if rest in ALIASES[name].split("|") or rest == name.replace("_", " ")), None)


def _cells_metric(table: TextTable, cells: str | None, *, loads: bool) -> str:
    if cells is not None:
        return cells
    caption = table.caption.lower()
    if "throughput" in caption and "total" not in caption and "per user" not in caption:
        return "output_tps"
    what = "loads" if loads else "configs"
    raise UsageError(
        f"{table.where}: the columns of this table are {what}, and nothing says what its numbers are. Say it with `--map cells=FIELD`, "
        f"one of {', '.join(METRICS)}; output_tps is {SAID['output_tps']}, user_tps {SAID['user_tps']}."
    )


def _matters(choices: Sequence[str], fields: Mapping[str, str]) -> bool:
    if "accept_at" in choices:
        return "position" in fields and not any(name in fields for name in choices)
    return not any(name in fields for name in RATES)


def _clear_at_one(table: TextTable, fields: Mapping[str, str], choices: Sequence[str], *, alone: bool) -> bool:
    if "user_tps" not in choices or alone or "concurrency" not in fields:
        return False
    place = table.header.index(fields["concurrency"])
    return all(row[place] in ("1", "") for row in table.rows)


def _question(name: str, choices: Sequence[str], where: str) -> str:
    meant = " or ".join(f"`--map '{name}={choice}'` ({SAID[choice]})" for choice in choices)
    return f"{where}: a column says what its numbers are, but {name!r} may mean several things. Say {meant}."


def _factor(name: str) -> float:
    """Of a column whose unit is seconds where the field's is milliseconds."""
    unit = _UNIT.search(name)
    meaning = next((key for key in ("tpot_ms", "ttft_ms") if known(name) in ALIASES[key].split("|")), None)
    return 1000.0 if unit is not None and unit["unit"].strip().lower() in ("s", "sec", "seconds") and meaning else 1.0
