"""How numbers read to people: one place for the terminal, the page, the summary and the scripts."""

from __future__ import annotations

import math

from search.storage import StudyKind

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
