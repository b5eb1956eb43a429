"""Comparisons as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from search.analysis.expected import BAND_WORDS
from search.analysis.findings import Gain
from search.config import SpecConfig
from search.metrics import gain_percent
from search.stats.comparison import MOST_STARTS
from search.stats.estimates import Estimate

ASSUMED = "assumed scatter"


def gain_words(estimate: Gain | Estimate) -> str:
    """`+3.1% [+2.0%, +4.2%]`; of a band `+3.1% (90% band -1.0% to +6.0%)`; nothing more where nothing is known."""
    text = gain_percent(estimate.value)
    if estimate.lo is None or estimate.hi is None:
        return text
    lo, hi = gain_percent(estimate.lo), gain_percent(estimate.hi)
    if isinstance(estimate, Gain) and estimate.band:
        return f"{text} ({BAND_WORDS} {lo} to {hi})"
    return f"{text} [{lo}, {hi}{f', {ASSUMED}' if isinstance(estimate, Gain) and estimate.assumed else ''}]"


def settled_by(gain: Gain) -> str:
    """How many starts would show what is not shown yet; empty where that cannot be said."""
    comparison = gain.comparison
    if comparison is None or comparison.separable is not False:
        return ""
    starts = comparison.starts_to_settle()
    if starts is not None:
        return f"about {starts} more start{'' if starts == 1 else 's'} of each would settle it"
    if comparison.shares.prompts > 0.5:
        return "more prompts would settle it: `measure.requests_at_latency`"
    return f"more than {MOST_STARTS} starts of each would be needed to settle it"


def listed(configs: Sequence[SpecConfig], shown: int = 2) -> str:
    """The first few, and how many more."""
    more = f" and {len(configs) - shown} more" if len(configs) > shown else ""
    return ", ".join(map(str, configs[:shown])) + more


def loads_listed(loads: Sequence[int]) -> str:
    """`1, 30, 100`."""
    return ", ".join(map(str, loads))
