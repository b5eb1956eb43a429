"""The one translation between records and rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, cast

from search.config import SpecConfig
from search.contracts import EffectiveSettings, GpuState, PhaseResult
from search.outcomes import Evidence, Note, Outcome, Reason
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck
from search.storage.records import Expected, LaunchRecord, Stage, StudyKind, StudyRecord
from search.storage.tables import ExpectedRow, LaunchRow, PhaseRow, StudyRow

_INTERVALS = ("agreement", "reference")


def study_row(record: StudyRecord) -> StudyRow:
    """Encode a study."""
    return StudyRow(
        name=record.name,
        kind=record.kind,
        spec=dict(record.spec),
        fingerprint=dict(record.fingerprint),
        created_at=record.created_at,
    )


def study_record(row: StudyRow, notes: Iterable[str] = ()) -> StudyRecord:
    """Decode a study."""
    return StudyRecord(
        name=row.name,
        kind=cast("StudyKind", row.kind),
        spec=row.spec,
        fingerprint=row.fingerprint,
        created_at=row.created_at,
        notes=tuple(notes),
    )


def launch_columns(record: LaunchRecord) -> dict[str, Any]:
    """Encode all of a launch except its phases and what was expected, which are rows of their own."""
    return {
        "number": record.number,
        "trial": record.trial,
        "stage": record.stage,
        "asked_id": record.asked.config_id,
        "config_id": record.config.config_id,
        "asked": record.asked.params,
        "config": record.config.params,
        "started_at": record.started_at,
        "outcome": record.outcome.value if record.outcome else None,
        "reason": record.reason.value if record.reason else None,
        "evidence": asdict(record.evidence) if record.evidence else None,
        "notes": [note.value for note in record.notes],
        "boot_s": record.boot_s,
        "duration_s": record.duration_s,
        "why": record.why,
        "folder": record.folder,
        "slot": record.slot,
        "effective": _effective_data(record.effective) if record.effective else None,
        "lossless": [_check_data(check) for check in record.lossless] or None,
    }


def launch_record(row: LaunchRow) -> LaunchRecord:
    """Decode a launch with its phases."""
    return LaunchRecord(
        number=row.number,
        stage=cast("Stage", row.stage),
        asked=SpecConfig.from_params(row.asked),
        config=SpecConfig.from_params(row.config),
        started_at=row.started_at,
        trial=row.trial,
        outcome=Outcome(row.outcome) if row.outcome else None,
        reason=Reason(row.reason) if row.reason else None,
        evidence=Evidence(**row.evidence) if row.evidence else None,
        notes=tuple(Note(note) for note in row.notes),
        boot_s=row.boot_s,
        duration_s=row.duration_s,
        why=row.why,
        folder=row.folder,
        slot=row.slot,
        effective=_effective(row.effective) if row.effective else None,
        phases=tuple(phase_result(phase) for phase in row.phases),
        lossless=tuple(_check(data) for data in row.lossless or ()),
        expected=_expected(row.expected) if row.expected else None,
    )


def expected_row(expected: Expected) -> ExpectedRow:
    """Encode what was expected of a launch."""
    chances = {name: value for name, value in asdict(expected).items() if name not in ("first", "second")}
    return ExpectedRow(latency_ms=list(expected.first), output_tps=list(expected.second), **chances)


def _expected(row: ExpectedRow) -> Expected:
    (first_lo, first, first_hi), (second_lo, second, second_hi) = row.latency_ms, row.output_tps
    return Expected(
        first=(first_lo, first, first_hi),
        second=(second_lo, second, second_hi),
        feasible=row.feasible,
        enters_front=row.enters_front,
        gain=row.gain,
    )


def phase_row(launch_id: int, result: PhaseResult) -> PhaseRow:
    """Encode one repeat of a phase; the answers themselves stay on disk."""
    columns = asdict(replace(result, outputs=()))
    del columns["outputs"]
    for name in ("accept_histogram", "prompt_tpot_ms", "window_tps", "prompt_ids"):
        columns[name] = list(columns[name])
    columns["notes"] = [note.value for note in result.notes]
    return PhaseRow(launch_id=launch_id, **columns)


def phase_result(row: PhaseRow) -> PhaseResult:
    """Decode one repeat of a phase."""
    return PhaseResult(
        concurrency=row.concurrency,
        repeat=row.repeat,
        requests=row.requests,
        output_tokens=row.output_tokens,
        duration_s=row.duration_s,
        output_tps=row.output_tps,
        whole_run_tps=row.whole_run_tps,
        tpot_ms=row.tpot_ms,
        ttft_ms=row.ttft_ms,
        accept_length=row.accept_length,
        accept_histogram=tuple(row.accept_histogram),
        prompt_tpot_ms=tuple(row.prompt_tpot_ms),
        window_tps=tuple(row.window_tps),
        warmup_s=row.warmup_s,
        notes=tuple(Note(note) for note in row.notes),
        extrapolated=row.extrapolated,
        prompt_ids=tuple(row.prompt_ids),
        prompts_sha256=row.prompts_sha256,
        ttft_p99_ms=row.ttft_p99_ms,
        itl_ms=row.itl_ms,
        itl_p99_ms=row.itl_p99_ms,
        e2e_ms=row.e2e_ms,
        goodput_rps=row.goodput_rps,
        gpu=_gpu(row.gpu) if row.gpu else None,
        client_busy=row.client_busy,
        requested=row.requested,
        ttft_p50_ms=row.ttft_p50_ms,
        e2e_p99_ms=row.e2e_p99_ms,
        goodput=row.goodput,
        gpus=row.gpus,
    )


def _gpu(data: dict[str, Any]) -> GpuState:
    return GpuState(**{**data, "reasons": tuple(data["reasons"])})


def _check_data(check: OutputCheck) -> dict[str, Any]:
    """Flat but for the two intervals, which become `[value, lo, hi]`."""
    data = {name: getattr(check, name) for name in OutputCheck.__slots__}
    for name in _INTERVALS:
        if (estimate := data[name]) is not None:
            data[name] = [estimate.value, estimate.lo, estimate.hi]
    return data


def _check(data: dict[str, Any]) -> OutputCheck:
    intervals = {name: Estimate(*data[name]) if data[name] is not None else None for name in _INTERVALS}
    return OutputCheck(**{**data, **intervals})


def _effective_data(settings: EffectiveSettings) -> dict[str, Any]:
    return {
        "config": settings.config.params,
        "release": settings.release,
        "max_running_requests": settings.max_running_requests,
        "details": [list(pair) for pair in settings.details],
    }


def _effective(data: dict[str, Any]) -> EffectiveSettings:
    return EffectiveSettings(
        config=SpecConfig.from_params(data["config"]),
        release=data["release"],
        max_running_requests=data["max_running_requests"],
        details=tuple((name, value) for name, value in data["details"]),
    )
