"""Sections of what was done and under which conditions: starts, failures, the space and what is locked, environment."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from search.analysis.hours import hours_by_stage
from search.metrics import mean_rate
from search.report.blocks import (
    Block,
    Cell,
    Column,
    Facts,
    Fold,
    Heading,
    Lines,
    Row,
    Tag,
    Text,
    config_cell,
    number_cell,
    table,
)
from search.report.content import ReportContent
from search.report.starts import are_shared
from search.report.text import counted, duration, one_line
from search.storage.records import LaunchRecord


def starts(content: ReportContent) -> Iterator[Block]:
    """Failures first, then every server start in its order."""
    failures = content.judgement.failures
    if failures:
        yield Heading(f"{counted(len(failures), 'launch')} without a measurement")
        columns = (
            Column("launch", numeric=True, low_is_good=True),
            Column("config"),
            Column("outcome"),
            Column("reason"),
            Column("blame"),
            Column("first root line", wide=True),
            Column("log", wide=True),
        )
        rows = [
            (
                number_cell(failure.launch, text=str(failure.launch)),
                config_cell(failure.config),
                Cell(failure.outcome),
                Cell(failure.reason),
                Cell(failure.blame),
                Cell(one_line(failure.root_line), code=True),
                Cell(failure.log_path),
            )
            for failure in failures
        ]
        yield table(columns, rows, name="failures")
    if content.launches:
        title = "Every measurement" if are_shared(content.launches) else "Every start"
        yield Fold(f"{title}: {len(content.launches)}", (_launches(content),))
        yield Fold("Where the hours went", (_hours(content),))


def _hours(content: ReportContent) -> Block:
    names = ("start", "switch", "warm-up", "phases", "the rest", "in all")
    columns = (
        Column("stage"),
        Column("measurements", numeric=True),
        Column("starts", numeric=True),
        *(Column(name, numeric=True) for name in names),
    )
    rows = [
        (
            Cell(row.stage or "all"),
            number_cell(row.measurements, text=str(row.measurements)),
            number_cell(row.starts, text=str(row.starts)),
            *map(_time, (row.start_s, row.switch_s, row.warmup_s, row.phase_s, row.rest_s, row.total_s)),
        )
        for row in hours_by_stage(content.launches)
    ]
    return table(columns, rows, name="hours")


def _launches(content: ReportContent) -> Block:
    loads, shared = content.columns, are_shared(content.launches)
    columns = (
        Column("launch", numeric=True, low_is_good=True),
        *((Column("start", numeric=True), Column("place", numeric=True)) if shared else ()),
        Column("stage"),
        Column("config"),
        Column("outcome"),
        *(Column(f"C={load} tok/s", numeric=True) for load in loads),
        Column("accept", numeric=True),
        Column("boot", numeric=True, low_is_good=True),
        *((Column("switch", numeric=True, low_is_good=True),) if shared else ()),
        Column("total", numeric=True, low_is_good=True),
        Column("why", wide=True),
    )
    return table(
        columns, [_launch_row(launch, loads, shared=shared) for launch in content.launches], name="starts", sorts=True
    )


def _launch_row(launch: LaunchRecord, loads: tuple[int, ...], *, shared: bool) -> Row:
    lengths = [phase.accept_length for phase in launch.phases if phase.accept_length is not None]
    outcome = str(launch.reason or launch.outcome or "RUNNING")
    where = [number_cell(number, text=str(number)) for number in (launch.start_number, launch.place)]
    return Row(
        (
            number_cell(launch.number, text=str(launch.number)),
            *(where if shared else ()),
            Cell(launch.stage),
            config_cell(launch.config),
            Cell(outcome, tags=(Tag("failed", warns=True),) if launch.reason else ()),
            *(number_cell(mean_rate(of) if (of := launch.repeats(load)) else None) for load in loads),
            number_cell(fmean(lengths) if lengths else None, text=f"{fmean(lengths):.2f}" if lengths else ""),
            _time(launch.boot_s),
            *((_time(launch.switch_s),) if shared else ()),
            _time(launch.duration_s),
            Cell(one_line(launch.why)),
        )
    )


def _time(seconds: float | None) -> Cell:
    return number_cell(seconds, text=duration(seconds))


def space(content: ReportContent) -> Iterator[Block]:
    """What the rules keep out of the space, and what would let it in."""
    summary = content.space
    if summary is None:
        return
    dropped = sum(reason.count for reason in summary.dropped)
    yield Text(
        f"{counted(len(summary.launchable), 'config')} can be launched, {len(content.judgement.results)} measured; "
        f"{len(summary.locked)} locked (understood, but refused by this release or GPU) and {dropped:,} dropped."
    )
    columns = (
        Column(""),
        Column("configs", numeric=True),
        Column("rule"),
        Column("why", wide=True),
        Column("what would unlock it", wide=True),
    )
    rows = [
        (
            Cell(kind),
            number_cell(reason.count, text=str(reason.count)),
            Cell(reason.rule_id, code=True),
            Cell(reason.words.replace("`", "")),
            Cell(reason.unlock),
        )
        for kind, reasons in (("locked", summary.locked_by), ("dropped", summary.dropped))
        for reason in reasons
    ]
    if rows:
        yield table(columns, rows)
    if summary.locked:
        yield Fold(
            f"Locked configs: {len(summary.locked)}",
            (
                table(
                    (Column("config"), Column("rules", wide=True)),
                    [(Cell(one.config_id, code=True), Cell(", ".join(one.rule_ids))) for one in summary.locked],
                    name="locked",
                    sorts=True,
                ),
            ),
        )


def environment(content: ReportContent) -> Iterator[Block]:
    """Where the numbers come from, and the conditions they hold under."""
    listed = {f"{name}: {value}" for name, value in content.study.fingerprint.items()}  # said once, below
    said = [line for line in content.provenance if line not in listed]
    said += [f"Assumed: {line}" for line in content.spec.assumptions]
    if said:
        yield Lines(tuple(said))
    if content.details:
        yield Fold("In full", (Lines(content.details),))
    yield Facts(
        (
            ("study", content.study.name),
            ("created", f"{content.study.created_at:%Y-%m-%d %H:%M} UTC"),
            ("last launch ended", f"{content.last_change:%Y-%m-%d %H:%M} UTC"),
            *((f"patch {patch.name}", patch.note) for patch in content.spec.engine.patches),
            *content.study.fingerprint.items(),
        )
    )
