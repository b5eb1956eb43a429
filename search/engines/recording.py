"""Recordings: measured tables as `meta.json` and `measurements.csv`, read strictly and written exactly.

One row per repeat of a phase, or one row without measures for a launch that failed. Cells are empty
where a value does not exist. Columns beyond the known ones are knobs the study opened.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.config import SpecConfig, check_tree
from search.contracts import PhaseResult
from search.engines._cells import COLUMNS, STARTS, Row, knob_columns, parse_row, row_cells
from search.errors import ImpossibleTree, InvalidConfig, UsageError
from search.metrics import BESIDE
from search.outcomes import Note, Reason

META = "meta.json"
MEASUREMENTS = "measurements.csv"


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """A launch, or a phase, that gave no numbers.

    Attributes:
        boot_s: Seconds until it had failed; None where not recorded.
    """

    reason: Reason
    boot_s: float | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A table of measurements with its provenance.

    Attributes:
        meta: `name`, `baseline`, `known`, and whatever else says what was measured on what.
        rows: In file order.
    """

    meta: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The recording's own name."""
        return str(self.meta["name"])

    @property
    def baseline(self) -> SpecConfig:
        """The config others are compared with; `off` where the meta does not say."""
        return SpecConfig.from_id(str(self.meta.get("baseline", "off")))

    @property
    def known(self) -> tuple[SpecConfig, ...]:
        """Configs to launch right after the baseline."""
        return tuple(SpecConfig.from_id(str(config_id)) for config_id in self.meta.get("known", ()))

    @property
    def computed(self) -> bool:
        """Whether its numbers are computed or typed in by hand, not measured by this tool."""
        return bool(self.meta.get("synthetic") or self.meta.get("hand_made"))

    def space(self) -> tuple[SpecConfig, ...]:
        """Every config recorded, failed ones too, in order of first appearance; not those with accept lengths alone."""
        return tuple(dict.fromkeys(row.config for row in self.rows if not row.tells_only_acceptance))

    def failures(self) -> dict[SpecConfig, RecordedFailure]:
        """Configs of which no launch ever gave a number; the first recorded failure of each."""
        measured = {row.config for row in self.rows if row.measured}
        found: dict[SpecConfig, RecordedFailure] = {}
        for row in self.rows:
            if row.reason is not None and row.config not in measured:
                found.setdefault(row.config, RecordedFailure(row.reason, row.boot_s))
        return found

    def phase_failures(self) -> dict[tuple[SpecConfig, int], RecordedFailure]:
        """Phases that broke on a server that had become ready, and never gave a number."""
        repeats = self.repeats()
        found: dict[tuple[SpecConfig, int], RecordedFailure] = {}
        for row in self.rows:
            if row.reason is not None and row.concurrency is not None:
                key = (row.config, row.concurrency)
                if key not in repeats:
                    found.setdefault(key, RecordedFailure(row.reason, row.boot_s))
        return found

    def repeats(self) -> dict[tuple[SpecConfig, int], tuple[Row, ...]]:
        """Measured rows by config and concurrency, in file order."""
        found: dict[tuple[SpecConfig, int], tuple[Row, ...]] = {}
        for row in self.rows:
            if row.measured and row.concurrency is not None:
                key = (row.config, row.concurrency)
                found[key] = (*found.get(key, ()), row)
        return found

    def accept_lengths(self) -> dict[tuple[SpecConfig, int], tuple[float, ...]]:
        """Accept lengths of rows that hold no rate, by config and concurrency."""
        found: dict[tuple[SpecConfig, int], tuple[float, ...]] = {}
        for row in self.rows:
            if row.tells_only_acceptance and row.concurrency is not None and row.accept_length is not None:
                key = (row.config, row.concurrency)
                found[key] = (*found.get(key, ()), row.accept_length)
        return found

    def starts(self) -> dict[SpecConfig, tuple[int, ...]]:
        """Numbers of the launches that measured each config, in file order."""
        found: dict[SpecConfig, dict[int, None]] = {}
        for row in self.rows:
            if row.measured and row.concurrency is not None:
                found.setdefault(row.config, {})[row.launch] = None
        return {config: tuple(numbers) for config, numbers in found.items()}

    def repeats_of_launch(self, config: SpecConfig, concurrency: int, before: int = 0) -> int:
        """How many repeats one launch of `config` holds there; 0 where it has none.

        Args:
            config: That was measured.
            concurrency: Of the phases.
            before: Launches of it that came before: they are counted round and round, as a replay draws them.
        """
        numbers = self.starts().get(config, ())
        rows = self.repeats().get((config, concurrency), ())
        return sum(row.launch == numbers[before % len(numbers)] for row in rows) if numbers else 0


MAX_BYTES = 2**28
"""Of one file; a study of ten thousand launches has some 20 MiB."""


def read_recording(path: Path) -> Recording:
    """Read `path/meta.json` and `path/measurements.csv`.

    Raises:
        UsageError: A file is missing or malformed; the text names file and line.
    """
    meta = _read_meta(path / META)
    source, algorithm = path / MEASUREMENTS, str(meta.get("algorithm") or "")
    reader = csv.reader(io.StringIO(_text(source), newline=""), strict=True)
    rows: list[Row] = []
    seen: dict[tuple[object, ...], int] = {}
    try:
        header = next(reader, [])
        knobs = knob_columns(header, where=f"{source}:1")
        for cells in reader:
            where = f"{source}:{reader.line_num}"
            if not cells:
                raise UsageError(f"{where}: a row has {len(header)} cells, but this line is empty. Remove it.")
            if len(cells) != len(header):
                raise UsageError(
                    f"{where}: a row has {len(header)} cells, as its header, but this one has {len(cells)}. Put cells that hold a comma in quotes."
                )
            row = parse_row(dict(zip(header, cells, strict=True)), knobs=knobs, where=where)
            try:
                check_tree(row.config, algorithm)
            except ImpossibleTree as error:
                raise UsageError(f"{where}: {error}") from error
            key = (row.config, row.launch, row.concurrency, row.repeat)
            if key in seen:
                raise UsageError(
                    f"{where}: config, launch, concurrency and repeat name one row, but line {seen[key]} has the same. Remove one, or number its repeat."
                )
            seen[key] = reader.line_num
            rows.append(row)
    except csv.Error as error:
        raise UsageError(f"{source}:{reader.line_num}: not a CSV table: {error}.") from error
    if not rows:
        raise UsageError(
            f"{source}: a recording has at least one row, but this one has none. Record a study that has a finished launch."
        )
    return Recording(meta, tuple(rows))


def result_of(row: Row, *, repeat: int, requests: int, computed: bool) -> PhaseResult:
    """A measured row as a result; what was not recorded stays unknown.

    One number follows by definition: at concurrency 1 the rate and the time per token are two ways
    to say the same.

    Args:
        row: With numbers.
        repeat: Its number.
        requests: Where the row does not hold how many there were.
        computed: Of the recording.
    """
    assert row.concurrency is not None and row.output_tps is not None
    tpot_ms = row.tpot_ms
    if tpot_ms is None and row.concurrency == 1:
        tpot_ms = 1000.0 / row.output_tps
    notes = row.notes
    if computed and Note.SYNTHETIC not in notes:
        notes = (*notes, Note.SYNTHETIC)
    return PhaseResult(
        concurrency=row.concurrency,
        repeat=repeat,
        requests=row.requests or requests,
        output_tokens=None,
        duration_s=row.duration_s,
        output_tps=row.output_tps,
        whole_run_tps=None,
        tpot_ms=tpot_ms,
        ttft_ms=row.ttft_ms,
        accept_length=row.accept_length,
        accept_histogram=row.accept_histogram,
        notes=notes,
        held_out=False,
        **{name: int(value) if name == "gpus" else value for name, value in row.beside},  # type: ignore[arg-type]
    )


def beside_of(phase: PhaseResult, fields: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """`Row.beside` of a phase: those of `fields` that it holds."""
    return tuple((name, float(value)) for name in fields if (value := getattr(phase, name)) is not None)


def write_recording(path: Path, recording: Recording) -> None:
    """Write both files, making the folder; `read_recording` gives an equal value back."""
    path.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(recording.meta), indent=1, ensure_ascii=False)
    (path / META).write_text(text + "\n", encoding="utf-8")
    knobs = sorted({name for row in recording.rows for name, _ in row.config.extra})
    with (path / MEASUREMENTS).open("w", encoding="utf-8", newline="") as file:
        present = {name for row in recording.rows for name, _ in row.beside}
        beside = [name for name in BESIDE if name in present]
        starts = STARTS if any(row.start is not None for row in recording.rows) else ()
        writer = csv.DictWriter(file, [*COLUMNS, *starts, *beside, *knobs], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row_cells(row) for row in recording.rows)


def _read_meta(source: Path) -> Mapping[str, Any]:
    try:
        meta = json.loads(_text(source))
    except json.JSONDecodeError as error:
        raise UsageError(f"{source}:{error.lineno}: not JSON: {error.msg}.") from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{source}: cannot be read as JSON: {error}.") from error
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        raise UsageError(f"{source}:1: `meta.json` is an object with a `name`, but got {str(meta)[:80]!r}.")
    if not meta["name"].isprintable() or len(meta["name"]) > 200:
        raise UsageError(
            f"{source}:1: `name` is at most 200 characters that can be printed, but got {meta['name'][:80]!r}."
        )
    for flag in ("synthetic", "hand_made"):
        if not isinstance(meta.get(flag, False), bool):
            raise UsageError(f"{source}: `{flag}` is true or false, but got {meta[flag]!r}.")
    known = meta.get("known", [])
    if not isinstance(known, list):
        raise UsageError(f"{source}: `known` is a list of config ids, but got {known!r}. Write it in brackets.")
    for config_id in (meta.get("baseline", "off"), *known):
        try:
            check_tree(SpecConfig.from_id(str(config_id)), str(meta.get("algorithm") or ""))
        except InvalidConfig as error:
            raise UsageError(f"{source}: `baseline` and `known` name configs. {error}") from error
    return meta


def _text(source: Path) -> str:
    try:
        # A device never ends, and a pipe that nobody writes to never begins.
        if source.exists() and (not source.is_file() or source.stat().st_size > MAX_BYTES):
            raise UsageError(f"{source}: a part of a recording is a regular file of at most {MAX_BYTES >> 20} MiB.")
        # Universal newlines are left to the CSV reader, and a byte order mark to nobody.
        return source.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(
            f"A recording is a folder with `{META}` and `{MEASUREMENTS}`, but there is no {source}. Make one with `python -m search record`."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source}: cannot be read as text: {error}.") from error


__all__ = [
    "COLUMNS",
    "RecordedFailure",
    "Recording",
    "Row",
    "beside_of",
    "read_recording",
    "result_of",
    "write_recording",
]
