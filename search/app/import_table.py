"""`search import`: somebody's table becomes a hand-made recording with its source, never a measurement of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search.app.import_columns import columns_of
from search.app.import_curve import read_curve
from search.app.import_labels import label_config
from search.app.import_meta import About, check_about, meta_of
from search.app.import_rows import Read, Reading, Said, read_rows
from search.app.import_text import TextTable, read_text, table_of
from search.config import check_tree
from search.engines.recording import META, Recording, Row, read_recording, write_recording
from search.errors import UsageError
from search.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class HowToRead:
    """How a table is read, where it does not say so itself.

    Attributes:
        maps: `COLUMN=FIELD`, `LABEL=CONFIG`, either `=skip`, or `cells=FIELD`.
        where: `COLUMN=VALUE`: only rows that hold it.
        worker: `v1` or `v2`, of configs that do not say.
        config: Of every row.
        at: Concurrency of every row.
        table: Which table of the text, from 1.
    """

    maps: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    worker: str = ""
    config: str = ""
    at: int | None = None
    table: int | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A recording, and what people should know of how it came about, one sentence each."""

    recording: Recording
    remarks: tuple[str, ...]


def import_table(source: Path | None, to: Path, how: HowToRead, about: About, *, add: bool) -> Imported:
    """Read a table and write it as a recording; one that was imported before gets further rows with `add`.

    Args:
        source: The file; None for standard input.
        to: Folder of the recording.
        how: What the table does not say of its columns.
        about: What the table does not say of its numbers.
        add: To a recording that is there.

    Raises:
        UsageError: The table, a map or the folder is wrong; nothing is written.
    """
    there = (to / META).exists()
    if there and not add:
        raise UsageError(
            f"`--to` names a new recording, but {to} holds one. Choose another name, or add to it with `--add`."
        )
    before = read_recording(to) if there else None
    if before is not None and not before.meta.get("imported"):
        raise UsageError(f"`--add` extends what was imported, but {to} was not. Choose another folder.")
    made = imported(
        read_text(source), how, about, name=to.resolve().name, where=str(source or "standard input"), before=before
    )
    try:
        write_recording(to, made.recording)
    except OSError as error:
        raise UsageError(
            f"`--to` names a folder that can be written, but got {to}: {error}. Choose another."
        ) from error
    return made


def imported(
    text: str, how: HowToRead, about: About, *, name: str, where: str, before: Recording | None = None
) -> Imported:
    """A text with a table in it as a hand-made recording.

    Args:
        text: CSV, Markdown, JSON lines, or prose around a Markdown table.
        how: What it does not say of its columns.
        about: What it does not say of its numbers.
        name: Of the recording.
        where: Name of the text, for errors.
        before: The recording that its rows are added to.

    Raises:
        UsageError: Something is unclear, contradicts itself or cannot be; with the line and the way out.
    """
    check_about(about, name)
    if how.worker not in ("", "v1", "v2"):
        raise UsageError(f"`--spec-version` is v1 or v2, but got {how.worker!r}.")
    table = table_of(text, where=where, number=how.table)
    config = label_config(how.config, worker=how.worker) if how.config else None
    if how.config and config is None:
        raise UsageError(f"`--config` names the config of every row, such as v2-k1-s2-d3, but got {how.config!r}.")
    said = Said(how.worker, config, how.at, _gpu_count(about.gpus), dict(_only(table, how.where)), about.algorithm)
    if config is not None:
        check_tree(config, about.algorithm)
    columns = columns_of(table, how.maps, worker=how.worker, one_load=how.at is not None)
    read = read_curve(table, columns, said) if "position" in columns.fields else read_rows(table, columns, said)
    if not read.readings:
        raise UsageError(
            f"{where}: a table gives a rate or an accept length of at least one config, but this one gives none. Its columns: "
            f"{', '.join(table.header)[:300]}. Name them with `--map COLUMN=output_tps` or `--map COLUMN=accept_length`."
        )
    _alike(table, read.readings)
    earlier = before.rows if before is not None else ()
    rows = tuple(_rows(read.readings, earlier))
    if before is not None:
        about = replace(about, model="", draft="", algorithm="", gpus="", date="", note="")  # as it was read at first
    derived = dict.fromkeys(line for reading in read.readings for line in reading.derived)
    meta = meta_of(about, name, (*earlier, *rows), table, columns.fields, derived, before)
    return Imported(
        Recording(meta, (*earlier, *rows)), tuple(_remarks(read, columns.left_out, derived, (*earlier, *rows)))
    )


def _only(table: TextTable, where: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in where:
        name, sign, value = text.partition("=")
        match = next((header for header in table.header if header.casefold() == name.strip().casefold()), None)
        if not sign or match is None:
            raise UsageError(
                f"`--where` is COLUMN=VALUE with a column of the table, one of {', '.join(table.header)[:300]}, but got {text!r}."
            )
        found[match] = value.strip()
    return found


def _gpu_count(gpus: str) -> int | None:
    match = re.match(r"\s*(\d{1,4})\s*x\b", gpus, re.IGNORECASE)
    return int(match[1]) if match else None


def _alike(table: TextTable, readings: Sequence[Reading]) -> None:
    """Refuse two rows of one config and load that were measured under unlike conditions: they are no repeats."""
    first: dict[tuple[str, int], Reading] = {}
    for reading in readings:
        other = first.setdefault((reading.config.config_id, reading.concurrency), reading)
        unlike = [
            (name, mine, theirs)
            for (name, mine), (_, theirs) in zip(reading.conditions, other.conditions, strict=True)
            if mine != theirs
        ]
        if unlike:
            name, mine, theirs = unlike[0]
            raise UsageError(
                f"{table.where}: lines {other.line} and {reading.line} are both {reading.config} at concurrency {reading.concurrency}, but "
                f"differ in {name!r} ({theirs!r} and {mine!r}). Choose with `--where '{name}={theirs}'`, or call them repeats with `--map '{name}=skip'`."
            )


def _rows(readings: Sequence[Reading], earlier: Sequence[Row]) -> list[Row]:
    """One launch for each config, one repeat for each time it is there."""
    last = max((row.launch for row in earlier), default=0)
    launches: dict[str, int] = {}
    repeats: dict[tuple[str, int], int] = {}
    found = []
    for reading in readings:
        name, values = reading.config.config_id, reading.values
        launches.setdefault(name, last + len(launches) + 1)
        key = (name, reading.concurrency)
        repeats[key] = repeats.get(key, 0) + 1
        found.append(
            Row(
                config=reading.config,
                launch=launches[name],
                outcome=Outcome.MEASURED,
                concurrency=reading.concurrency,
                repeat=repeats[key],
                requests=int(values["requests"]) if values.get("requests", 0.0) >= 1 else None,
                output_tps=_digits(values.get("output_tps")),
                tpot_ms=_digits(values.get("tpot_ms")),
                ttft_ms=_digits(values.get("ttft_ms")),
                accept_length=values.get("accept_length"),
                duration_s=_digits(values.get("duration_s")),
            )
        )
    return sorted(found, key=lambda row: (row.launch, row.concurrency or 0, row.repeat or 0))


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.8g}")


def _remarks(read: Read, left_out: Sequence[str], derived: Mapping[str, None], rows: Sequence[Row]) -> list[str]:
    said = list(derived)
    if left_out:
        said.append(f"columns that were left out: {', '.join(left_out)[:300]}")
    if read.unnamed:
        said.append(f"rows that were left out: {', '.join(read.unnamed)[:300]}")
    if read.unknown:
        said.append(f"cells without a number: {read.unknown}")
    if not any(row.measured for row in rows):
        said.append("no rate is in it: priors learn from it how many drafts are accepted, and nothing of speed")
    elif not any(row.measured and not row.config.speculates for row in rows):
        said.append(
            "no baseline is in it: gains over no speculation cannot be had from it, and a replay has nothing to compare with"
        )
    return said
