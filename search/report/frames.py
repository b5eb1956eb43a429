"""The tables of DESIGN section 11 as pandas frames, columns and order included."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from search.analysis.findings import ConfigResult
from search.analysis.results import launch_load
from search.contracts import PhaseResult
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
    low, high = f"c{content.latency_load}", f"c{content.throughput_load}"
    return [
        *("rank", "config_id", *content.knobs),
        *(f"{low}_tpot_ms", f"{low}_tpot_ms_lo", f"{low}_tpot_ms_hi", f"{low}_output_tps"),
        *(f"{high}_output_tps", f"{high}_output_tps_lo", f"{high}_output_tps_hi"),
        *(f"accept_{low}", f"accept_{high}", "score", "launches", "confirmed", "notes", "launch_command"),
        *_doubt_columns(content, rates=False),
        *("score_lo", "score_hi", "lossless"),
    ]


def trial_columns(content: ReportContent) -> list[str]:
    """Columns of `trials.csv`."""
    low, high = f"c{content.latency_load}", f"c{content.throughput_load}"
    return [
        *("launch", "stage", "config_id", *content.knobs, "outcome", "reason", "blame", "notes"),
        *(f"{low}_tpot_ms", f"{high}_output_tps", f"accept_{low}", f"accept_{high}"),
        *("score", "boot_s", "duration_s", "why"),
        *_doubt_columns(content, rates=True),
        *("score_lo", "score_hi", "lossless"),
        *(f"expected_{name}{end}" for name in (f"{low}_tpot_ms", f"{high}_output_tps") for end in ("", "_lo", "_hi")),
        *("expected_feasible", "expected_front", "expected_gain"),
    ]


def _doubt_columns(content: ReportContent, *, rates: bool) -> list[str]:
    """Ends of the intervals that have no column of their own before; appended, so that old readers still read."""
    low, high = f"c{content.latency_load}", f"c{content.throughput_load}"
    values = [f"{low}_tpot_ms", f"{high}_output_tps"] if rates else [f"{low}_output_tps"]
    return [f"{name}_{end}" for name in (*values, f"accept_{low}", f"accept_{high}") for end in ("lo", "hi")]


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
    low, high = f"c{content.latency_load}", f"c{content.throughput_load}"
    at_low, at_high = result.loads[content.latency_load], result.loads[content.throughput_load]
    config_id = result.config.config_id
    return {
        "rank": rank,
        "config_id": config_id,
        **knob_values(result.config, content.knobs),
        f"{low}_tpot_ms": _rounded(result.latency.value, 4),
        f"{low}_tpot_ms_lo": _rounded(result.latency.lo, 4),
        f"{low}_tpot_ms_hi": _rounded(result.latency.hi, 4),
        f"{low}_output_tps": _rounded(at_low.rate.value, 3),
        f"{high}_output_tps": _rounded(result.throughput.value, 3),
        f"{high}_output_tps_lo": _rounded(result.throughput.lo, 3),
        f"{high}_output_tps_hi": _rounded(result.throughput.hi, 3),
        f"accept_{low}": _rounded(at_low.accept_length, 3),
        f"accept_{high}": _rounded(at_high.accept_length, 3),
        "score": _rounded(result.score, 4),
        "launches": len(result.launches),
        "confirmed": result.confirmed,
        "notes": " ".join(result.notes),
        "launch_command": one_line_command(content.commands.get(config_id, "")),
        **_ends(f"{low}_output_tps", at_low.rate, 3),
        **_ends(f"accept_{low}", at_low.accept, 3),
        **_ends(f"accept_{high}", at_high.accept, 3),
        **_ends("score", result.score_doubt, 4),
        "lossless": lossless_words(result.lossless),
    }


def _trial_row(content: ReportContent, launch: LaunchRecord) -> dict[str, Cell]:
    low, high = content.latency_load, content.throughput_load
    at_low, at_high = launch.repeats(low), launch.repeats(high)
    told_low, told_high = launch_load(launch, low), launch_load(launch, high)
    return {
        "launch": launch.number,
        "stage": launch.stage,
        "config_id": launch.config.config_id,
        **knob_values(launch.config, content.knobs),
        "outcome": launch.outcome.value if launch.outcome else "RUNNING",
        "reason": launch.reason.value if launch.reason else None,
        "blame": launch.blame.value if launch.blame else None,
        "notes": " ".join(dict.fromkeys((*launch.notes, *(n for phase in launch.phases for n in phase.notes)))),
        f"c{low}_tpot_ms": _mean([phase.tpot_ms for phase in at_low if phase.tpot_ms is not None], 4),
        f"c{high}_output_tps": _mean([phase.output_tps for phase in at_high], 3),
        f"accept_c{low}": _mean_accept(at_low),
        f"accept_c{high}": _mean_accept(at_high),
        "score": _rounded(content.score(launch.config) if launch.phases else None, 4),
        "boot_s": _rounded(launch.boot_s, 1),
        "duration_s": _rounded(launch.duration_s, 1),
        "why": _why(launch),
        **_ends(f"c{low}_tpot_ms", told_low.tpot_ms if told_low else None, 4),
        **_ends(f"c{high}_output_tps", told_high.rate if told_high else None, 3),
        **_ends(f"accept_c{low}", told_low.accept if told_low else None, 3),
        **_ends(f"accept_c{high}", told_high.accept if told_high else None, 3),
        **_ends("score", content.score_doubt(launch.config) if launch.phases else None, 4),
        "lossless": lossless_words(launch.lossless),
        **(_expected(launch.expected, f"c{low}_tpot_ms", f"c{high}_output_tps") if launch.expected else {}),
    }


def _expected(expected: Expected, latency: str, throughput: str) -> dict[str, Cell]:
    """Medians with the ends of their 90% bands, and chances."""
    cells: dict[str, Cell] = {
        "expected_feasible": _rounded(expected.feasible, 3),
        "expected_front": _rounded(expected.enters_front, 3),
        "expected_gain": _rounded(expected.gain, 5),
    }
    for name, (lo, middle, hi), digits in ((latency, expected.latency_ms, 4), (throughput, expected.output_tps, 3)):
        cells[f"expected_{name}"] = _rounded(middle, digits)
        cells |= _ends(f"expected_{name}", Estimate(middle, lo, hi), digits)
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
