"""How numbers read to people: one place for the terminal, the page, the summary and the scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck, worst
from search.storage.records import StudyKind

KIND_LABELS: dict[StudyKind, str] = {"measured": "", "simulated": "SIMULATED", "replay": "REPLAY"}
KIND_SENTENCES: dict[StudyKind, str] = {
    "measured": "Measured on the GPUs named below.",
    "simulated": "Computed by a calibrated cost model. No GPU was measured; check a pick with one real launch.",
    "replay": "Drawn from a recorded table. No server was started for this report.",
}


def number(value: float | None) -> str:
    """Three significant digits or whole numbers: `2.93`, `86.8`, `775`, `12,100`; `-` for None."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def bounds(estimate: Estimate | None) -> str:
    """The interval after its value: ` [85.9, 87.7]`; empty where the doubt is not known."""
    if estimate is None or estimate.lo is None or estimate.hi is None:
        return ""
    return f" [{number(estimate.lo)}, {number(estimate.hi)}]"


def gain_bounds(ratio: Estimate | None) -> str:
    """The interval of a gain, of its ratio: ` [+8.9%, +11.3%]`; empty where there is no doubt or it is not known."""
    if ratio is None or ratio.lo is None or ratio.hi is None or ratio.lo == ratio.hi:
        return ""
    return f" [{percent(ratio.lo - 1)}, {percent(ratio.hi - 1)}]"


def score_bounds(score: Estimate | None) -> str:
    """The interval of a score: ` [0.955, 0.983]`."""
    if score is None or score.lo is None or score.hi is None or score.lo == score.hi:
        return ""
    return f" [{score.lo:.3f}, {score.hi:.3f}]"


def lossless_words(checks: Sequence[OutputCheck]) -> str:
    """The verdict on a config's answers, such as `lossless` or `lossy at C=100`; empty where nobody asked."""
    decisive = worst(checks)
    if decisive is None or decisive.verdict == "lossless":
        return decisive.verdict if decisive else ""
    return f"{decisive.verdict} at C={decisive.concurrency}"


def score_words(score: float) -> str:
    """Three decimals; `-` while there is no baseline to compare with."""
    return "-" if math.isnan(score) else f"{score:.3f}"


def percent(gain: float) -> str:
    """A signed gain: `+10.1%`, `-6.4%`, `+0.0%`; whole percents from 100% on."""
    if abs(gain) >= 1:
        return f"{gain:+.0%}"
    text = f"{gain:+.1%}"
    return "+0.0%" if text == "-0.0%" else text


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
    """Foreign text on one line, without control characters: a log must not steer a terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
