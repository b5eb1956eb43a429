"""The one translation between records and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from search.contracts import PhaseResult
from search.errors import InvalidConfig, LoadFailed, StorageFault
from search.outcomes import Evidence, Reason
from search.storage.records import Expected, LaunchRecord, StudyRecord
from search.storage.shapes import Shape, finite, is_finite, is_optional

LAUNCH = Shape(LaunchRecord, leave_out=("started_at", "phases", "beside", "expected"))
"""A launch without what has a column type or rows of its own."""
PHASE = Shape(PhaseResult, leave_out=("outputs",))
"""One repeat of a phase; the answers themselves stay on disk."""
EXPECTED = Shape(Expected)
STUDY = Shape(StudyRecord, leave_out=("created_at", "notes"))

_T = TypeVar("_T")


_LEAST, _MOST = 1e-12, 1e15
"""Of tokens a second, of milliseconds and of seconds; sums of squares of such numbers are finite."""


def study_cells(record: StudyRecord) -> dict[str, Any]:
    """Encode a study, its notes aside."""
    cells: dict[str, Any] = finite(STUDY.plain(record))
    return cells | {"created_at": record.created_at}


def study_record(cells: Mapping[str, Any], notes: Iterable[str] = ()) -> StudyRecord:
    """Decode a study."""
    name = cells["name"]
    return _read(f"study {name!r}", lambda: STUDY.value(cells, created_at=cells["created_at"], notes=tuple(notes)))


def launch_cells(record: LaunchRecord) -> dict[str, Any]:
    """Encode all of a launch except its phases and what was expected, which are rows of their own."""
    return LAUNCH.plain(record) | {
        "started_at": record.started_at,
        "asked_id": record.asked.config_id,
        "config_id": record.config.config_id,
        "no_server": not record.started_server,
    }


def launch_record(
    cells: Mapping[str, Any], *, phases: Iterable[Mapping[str, Any]], expected: Mapping[str, Any] | None
) -> LaunchRecord:
    """Decode a launch.

    Args:
        cells: Of the launch.
        phases: Of its repeats, in the order in which they were measured.
        expected: Of what was expected of it.

    Raises:
        StorageFault: A cell holds what this version does not know.
    """

    def value() -> LaunchRecord:
        results = [
            result
            for phase in phases
            if (result := _finite_or_none(PHASE, phase)) is not None and _is_measurement(result)
        ]
        return LAUNCH.value(
            _of_this_world(LAUNCH, cells),
            started_at=cells["started_at"],
            phases=tuple(result for result in results if not result.workload),
            beside=tuple(result for result in results if result.workload),
            expected=_finite_or_none(EXPECTED, expected) if expected else None,
        )

    return _read(f"launch {cells['number']}", value)


def expected_cells(expected: Expected | None) -> dict[str, Any] | None:
    """Encode what was expected of a launch; None where a number of it is not finite: nothing was, then."""
    return EXPECTED.plain_or_none(expected) if expected else None


def phase_cells(result: PhaseResult) -> dict[str, Any]:
    """Encode one repeat of a phase.

    Raises:
        LoadFailed: METRIC_INVALID, for without a finite rate it is no measurement.
    """
    try:
        return PHASE.plain(result)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise LoadFailed(
            Reason.METRIC_INVALID,
            Evidence(
                f"`{_place(first['loc'])}` of a repeat is a finite number, but got {first['input']!r}",
                phase=f"c={result.concurrency}",
            ),
        ) from error


def _finite_or_none(shape: Shape[_T], cells: Mapping[str, Any]) -> _T | None:
    """None for what an older version stored with an infinite number where there must be one."""
    try:
        return shape.value(_of_this_world(shape, cells))
    except ValidationError:
        if is_finite(dict(cells)):
            raise
        return None


def _of_this_world(shape: Shape[_T], cells: Mapping[str, Any]) -> dict[str, Any]:
    """The cells, None for what may be unknown and is no number of this world: sums of it would be infinite."""
    return {
        name: None
        if isinstance(value, float) and abs(value) >= _MOST and is_optional(shape.fields.get(name, float))
        else value
        for name, value in cells.items()
    }


def _is_measurement(result: PhaseResult) -> bool:
    """Whether its rate and its times can be of this world: whoever stored others measured nothing."""
    rates = (result.output_tps, *((result.tpot_ms,) if result.tpot_ms is not None else ()))
    times = (result.ttft_ms or 0.0, result.duration_s or 0.0, result.warmup_s)
    return all(_LEAST < rate < _MOST for rate in rates) and all(0 <= time < _MOST for time in times)


def _read(what: str, value: Callable[[], _T]) -> _T:
    try:
        return value()
    except (ValidationError, InvalidConfig, ValueError) as error:
        words = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            words = f"`{_place(first['loc'])}`: {first['msg']}, but got {str(first['input'])[:80]!r}"
        raise StorageFault(
            f"A stored {what} cannot be read by this version: {' '.join(words.split())}. Run the version of this "
            "program that wrote it, or choose another `--storage`."
        ) from error


def _place(where: tuple[int | str, ...]) -> str:
    return ".".join(map(str, where))
