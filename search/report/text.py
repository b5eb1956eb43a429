"""How numbers read to people: one place for the terminal, the page, the summary and the scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from search.analysis.findings import Gain
from search.masking import without_escapes
from search.metrics import Metric, Objective, gain_percent, number
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck, worst
from search.storage.records import StudyKind

KIND_LABELS: dict[StudyKind, str] = {"measured": "", "simulated": "SIMULATED", "replay": "REPLAY"}
KIND_SENTENCES: dict[StudyKind, str] = {
    "measured": "Measured on the GPUs named below.",
    "simulated": "Computed by a calibrated cost model. No GPU was measured; check a pick with one real launch.",
    "replay": "Drawn from a recorded table. No server was started for this report.",
}

REHEARSAL = "REHEARSAL"
REHEARSAL_SENTENCE = (
    "Invented numbers: the cost model was fitted to nothing of this model and these GPUs. It shows that the study runs and "
    "what a report looks like, and says nothing about speculation."
)


def bounds(estimate: Estimate | None, *, band: bool = False) -> str:
    """The interval after its value: ` [85.9, 87.7]`, of a simulator's expectation ` {85.9 to 87.7}`; see `GAIN_KEY`."""
    if estimate is None or estimate.lo is None or estimate.hi is None:
        return ""
    lo, hi = number(estimate.lo), number(estimate.hi)
    return f" {{{lo} to {hi}}}" if band else f" [{lo}, {hi}]"


def gain_bounds(estimate: Gain | Estimate | None) -> str:
    """The interval of a gain: ` [+8.9%, +11.3%]`; empty where there is none.

    On assumed scatter ` [-3.0%, +9.4%]*`; of a simulator's expectation ` {-3.0% to +9.4%}`: see `GAIN_KEY`.
    """
    if estimate is None or estimate.lo is None or estimate.hi is None or estimate.lo == estimate.hi:
        return ""
    lo, hi = gain_percent(estimate.lo), gain_percent(estimate.hi)
    if isinstance(estimate, Gain) and estimate.band:
        return f" {{{lo} to {hi}}}"
    return f" [{lo}, {hi}]{'*' if isinstance(estimate, Gain) and estimate.assumed else ''}"


GAIN_KEY = (
    "In brackets: 95% intervals of what many further starts would come out at; with *, on assumed scatter. In braces: "
    "not measured, the 90% band of the cost model, gains over its own baseline."
)


def metric_bounds(metric: Metric, estimate: Estimate | None, *, band: bool = False) -> str:
    """The interval of a metric's value: ` [35.1, 37.4]`, of a share ` [93.8%, 97.5%]`; empty where it is not known."""
    if metric.unit or estimate is None or estimate.lo is None or estimate.hi is None:
        return bounds(estimate, band=band)
    return f" [{metric.words(estimate.lo)}, {metric.words(estimate.hi)}]"


def metric_number(metric: Metric, value: float | None) -> str:
    """A metric's value without its unit, which stands in the heading; a share in percent."""
    return number(value) if metric.unit or value is None else metric.words(value)


def axis_words(axis: Objective) -> str:
    """An objective as the heading of a column: `C=1 ms/token`, `C=1 time to first token, median, ms`."""
    metric = axis.metric
    known = {"tpot_ms": "ms/token", "output_tps": "tok/s"}.get(metric.name)
    unit = metric.unit and f", {metric.unit}"
    return f"C={axis.concurrency} {known or metric.title + unit}"


def score_bounds(score: Estimate | None, *, band: bool = False) -> str:
    """The interval of a score: ` [0.955, 0.983]`; in braces where it is a band."""
    if score is None or score.lo is None or score.hi is None or score.lo == score.hi:
        return ""
    return f" {{{score.lo:.3f} to {score.hi:.3f}}}" if band else f" [{score.lo:.3f}, {score.hi:.3f}]"


def lossless_words(checks: Sequence[OutputCheck]) -> str:
    """The verdict on a config's answers, such as `lossless` or `lossy at C=100`; empty where nobody asked."""
    decisive = worst(checks)
    if decisive is None or decisive.verdict == "lossless":
        return decisive.verdict if decisive else ""
    return f"{decisive.verdict} at C={decisive.concurrency}"


def score_words(score: float) -> str:
    """Three decimals; `-` while there is no baseline to compare with."""
    return "-" if math.isnan(score) else f"{score:.3f}"


def duration(seconds: float | None) -> str:
    """`42s`, `13m02s`, `1h07m`, `2d03h`; `-` for None."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    hours = round(seconds / 3600)
    return f"{hours // 24}d{hours % 24:02d}h"


def counted(count: int, word: str) -> str:
    """`1 launch`, `3 launches`, `2 configs`."""
    if count == 1:
        return f"1 {word}"
    return f"{count:,} {word}{'es' if word.endswith(('ch', 's')) else 's'}"


def role_words(role: str) -> str:
    """A pick's role as people read it: `lowest-latency` becomes `lowest latency`."""
    return role.replace("-", " ").replace("at c", "at C=")


def one_line(text: str) -> str:
    """Foreign text on one line, without escape sequences and control characters: a log must not steer a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in without_escapes(text)).split())


def gpus_text(gpus: int, kind: str) -> str:
    """`8 x H200`; the count once, where the kind of a recording holds it already."""
    return kind if gpus == 1 or kind.startswith((f"{gpus}x ", f"{gpus} x ")) else f"{gpus} x {kind}"


def loads_words(loads: Sequence[int]) -> str:
    """`1, 30 and 100`."""
    words = [str(load) for load in loads]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def rounded(value: float | None) -> float | None:
    """A ratio or a value as programs read it: five places; None stays unknown."""
    return None if value is None else round(value, 5)
