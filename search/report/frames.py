"""The tables of DESIGN section 11, columns and order included: as CSV text, and as pandas frames."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from search.analysis.findings import ConfigResult
from search.analysis.results import launch_load, launch_objective
from search.contracts import PhaseResult
from search.metrics import Objective, Objectives
from search.report.content import ReportContent, knob_values
from search.report.scripts import one_line_command
from search.report.text import lossless_words
from search.stats.estimates import Estimate
from search.storage.records import Expected, LaunchRecord

if TYPE_CHECKING:
    import pandas as pd

Cell: TypeAlias = str | int | float | bool | None


def front_rows(content: ReportContent) -> list[dict[str, Cell]]:
    """Rows of `front.csv`, best score first; `rank` counts from 1."""
    ranked = sorted(
        content.judgement.front,
        key=lambda result: -math.inf if math.isnan(result.score) else result.score,
        reverse=True,
    )
    return [_front_row(content, rank, result) for rank, result in enumerate(ranked, 1)]


def trial_rows(content: ReportContent) -> list[dict[str, Cell]]:
    """Rows of `trials.csv`: every launch, in launch order, with that launch's own values."""
    return [_trial_row(content, launch) for launch in sorted(content.launches, key=lambda launch: launch.number)]


def front_columns(content: ReportContent) -> list[str]:
    """Columns of `front.csv`."""
    values = [name for axis in content.axes for name in (*_with_ends(axis.name), *_beside(content, axis))]
    accepts = _accept_columns(content)
    ends = [name for axis in content.axes for name in _beside(content, axis)]
    return [
        *("rank", "config_id", *content.knobs, *values, *accepts),
        *("score", "launches", "confirmed", "notes", "launch_command"),
        *_ends_of([*ends, *accepts]),
        *("score_lo", "score_hi", "lossless"),
    ]


def trial_columns(content: ReportContent) -> list[str]:
    """Columns of `trials.csv`."""
    names, accepts = content.spec.objective_names, _accept_columns(content)
    return [
        *("launch", "stage", "config_id", *content.knobs, "outcome", "reason", "blame", "notes"),
        *(*names, *accepts, "score", "boot_s", "duration_s", "why"),
        *_ends_of([*names, *accepts]),
        *("score_lo", "score_hi", "lossless"),
        *(name for objective in names for name in _with_ends(f"expected_{objective}")),
        *("expected_feasible", "expected_front", "expected_gain"),
    ]


def _with_ends(name: str) -> list[str]:
    return [name, f"{name}_lo", f"{name}_hi"]


def _ends_of(names: Sequence[str]) -> list[str]:
    """Ends of the intervals that have no column of their own before; appended, so that old readers still read."""
    return [f"{name}_{end}" for name in names for end in ("lo", "hi")]


def _accept_columns(content: ReportContent) -> list[str]:
    return [f"accept_c{load}" for load in content.objective_loads]


def _beside(content: ReportContent, axis: Objective) -> list[str]:
    """The rate of the load beside an objective that people are shown both ways; none where that is an objective itself."""
    name = f"c{axis.concurrency}_output_tps"
    return [name] if axis.metric.beside and name not in content.spec.objective_names else []


def front_csv(content: ReportContent) -> str:
    """The text of `front.csv`."""
    return _csv(front_rows(content), front_columns(content))


def trials_csv(content: ReportContent) -> str:
    """The text of `trials.csv`."""
    return _csv(trial_rows(content), trial_columns(content))


def _csv(rows: Sequence[dict[str, Cell]], columns: list[str]) -> str:
    """A cell that is None, or that a row lacks, is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def front_frame(content: ReportContent) -> pd.DataFrame:
    """`front.csv` as a frame."""
    return _frame(front_rows(content), front_columns(content))


def trials_frame(content: ReportContent) -> pd.DataFrame:
    """`trials.csv` as a frame."""
    return _frame(trial_rows(content), trial_columns(content))


def _frame(rows: Sequence[dict[str, Cell]], columns: list[str]) -> pd.DataFrame:
    """Cells keep their own type: a column of counts with a gap must not turn into floats."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns, dtype=object)


def _front_row(content: ReportContent, rank: int, result: ConfigResult) -> dict[str, Cell]:
    config_id = result.config.config_id
    row: dict[str, Cell] = {"rank": rank, "config_id": config_id, **knob_values(result.config, content.knobs)}
    for axis, value in zip(content.axes, result.values, strict=True):
        row |= {axis.name: _rounded(value.value, axis.metric.digits), **_ends(axis.name, value, axis.metric.digits)}
        for name in _beside(content, axis):
            rate = result.loads[axis.concurrency].rate
            row |= {name: _rounded(rate.value, 3), **_ends(name, rate, 3)}
    for load in content.objective_loads:
        at = result.loads[load]
        row |= {f"accept_c{load}": _rounded(at.accept_length, 3), **_ends(f"accept_c{load}", at.accept, 3)}
    return row | {
        "score": _rounded(result.score, 4),
        "launches": len(result.launches),
        "confirmed": result.confirmed,
        "notes": " ".join(result.notes),
        "launch_command": one_line_command(_to_launch(content, config_id)),
        **_ends("score", result.score_ci, 4),
        "lossless": lossless_words(result.lossless),
    }


def _to_launch(content: ReportContent, config_id: str) -> str:
    """The serving form, or the measured one where there is none; empty where neither is known."""
    serving = content.serving.get(config_id)
    return serving.text if serving is not None else content.commands.get(config_id, "")


def _trial_row(content: ReportContent, launch: LaunchRecord) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "launch": launch.number,
        "stage": launch.stage,
        "config_id": launch.config.config_id,
        **knob_values(launch.config, content.knobs),
        "outcome": launch.outcome.value if launch.outcome else "RUNNING",
        "reason": launch.reason.value if launch.reason else None,
        "blame": launch.blame.value if launch.blame else None,
        "notes": " ".join(dict.fromkeys((*launch.notes, *(n for phase in launch.phases for n in phase.notes)))),
        "score": _rounded(content.score(launch.config) if launch.phases else None, 4),
        "boot_s": _rounded(launch.boot_s, 1),
        "duration_s": _rounded(launch.duration_s, 1),
        "why": _why(launch),
        **_ends("score", content.score_ci(launch.config) if launch.phases else None, 4),
        "lossless": lossless_words(launch.lossless),
    }
    for axis in content.axes:
        digits = axis.metric.digits
        row[axis.name] = _rounded(axis.mean(launch.phases), digits)
        row |= _ends(axis.name, launch_objective(axis, launch), digits)
    for load in content.objective_loads:
        measured = launch_load(launch, load)
        row[f"accept_c{load}"] = _mean_accept(launch.repeats(load))
        row |= _ends(f"accept_c{load}", measured.accept if measured else None, 3)
    return row | (_expected(launch.expected, content.axes) if launch.expected else {})


def _expected(expected: Expected, axes: Objectives) -> dict[str, Cell]:
    """Medians with the ends of their 90% bands, and chances."""
    cells: dict[str, Cell] = {
        "expected_feasible": _rounded(expected.feasible, 3),
        "expected_front": _rounded(expected.enters_front, 3),
        "expected_gain": _rounded(expected.gain, 5),
    }
    for axis, (lo, middle, hi) in zip(axes, (expected.first, expected.second), strict=True):
        name, digits = f"expected_{axis.name}", axis.metric.digits
        cells |= {name: _rounded(middle, digits), **_ends(name, Estimate(middle, lo, hi), digits)}
    return cells


def _why(launch: LaunchRecord) -> str:
    """Why it was launched; of one that was ended early, why that too."""
    if launch.reason is None and launch.evidence is not None:
        return f"{launch.why}; ended early: {launch.evidence.root_line}"
    return launch.why


def _ends(name: str, estimate: Estimate | None, digits: int) -> dict[str, Cell]:
    lo, hi = (estimate.lo, estimate.hi) if estimate else (None, None)
    return {f"{name}_lo": _rounded(lo, digits), f"{name}_hi": _rounded(hi, digits)}


def _mean_accept(phases: Sequence[PhaseResult]) -> float | None:
    return _mean([phase.accept_length for phase in phases if phase.accept_length is not None], 3)


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(fmean(values), digits) if values else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None or math.isnan(value) else round(value, digits)
