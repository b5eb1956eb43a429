"""What `try` prints: asked against really ran, the numbers, where they are."""

from __future__ import annotations

from collections.abc import Iterator

from search.app.try_one import Tried
from search.contracts import NOT_VERIFIED, EffectiveSettings
from search.report.lines import launched_line
from search.report.text import one_line
from search.storage.records import LaunchRecord


def tried_lines(tried: Tried) -> Iterator[str]:
    """For people."""
    yield from _effective_lines(tried.record)
    yield launched_line(tried.record, tried.judgement)
    yield f"stored in {tried.folder / tried.record.folder}"


def _effective_lines(record: LaunchRecord) -> Iterator[str]:
    yield f"asked for  {record.asked}"
    if record.effective is None:
        yield "really ran nothing: the server never became ready"
        return
    if missing := dict(record.effective.details).get(NOT_VERIFIED):
        yield f"not verified: the server does not report {missing}, so {record.config} is what it was asked for"
        yield from _told_lines(record.effective)
        return
    differs = "" if record.config == record.asked else "   <- differs from what was asked"
    yield f"really ran {record.config}{differs}"
    yield from _told_lines(record.effective)


def _told_lines(effective: EffectiveSettings) -> Iterator[str]:
    if effective.release:
        yield f"release    {effective.release}"
    if effective.max_running_requests is not None:
        yield f"running    at most {effective.max_running_requests} requests"
    for name, value in effective.details:
        if name != NOT_VERIFIED:
            yield f"{name}  {one_line(value)}"


def tried_result(record: LaunchRecord) -> dict[str, object]:
    """For machines."""
    return {
        "launch": record.number,
        "asked": record.asked.config_id,
        "effective": record.config.config_id if record.effective else None,
        "outcome": record.outcome.value if record.outcome else None,
        "reason": record.reason.value if record.reason else None,
        "root_line": record.evidence.root_line if record.evidence else None,
        "notes": [note.value for note in record.notes],
        "boot_s": record.boot_s,
        "duration_s": record.duration_s,
        "phases": [
            {
                "concurrency": phase.concurrency,
                "repeat": phase.repeat,
                "output_tps": phase.output_tps,
                "tpot_ms": phase.tpot_ms,
                "ttft_ms": phase.ttft_ms,
                "accept_length": phase.accept_length,
            }
            for phase in record.phases
        ],
    }
