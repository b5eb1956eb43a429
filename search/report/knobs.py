"""The table of what each knob is worth, for the page and the summary alike."""

from __future__ import annotations

from search.analysis.findings import Gain, KnobWorth
from search.metrics import gain_percent
from search.report.text import gain_bounds

KNOB_HEADERS = (
    "knob",
    "load",
    "best value",
    "against",
    "best of each",
    "told apart",
    "configs",
    "differ also in",
    "that knob alone",
)
KNOB_KEY = (
    "The best config with the best value of each knob against the best with each other value, with 95% intervals: over "
    "all configs of both values at once, or of starts made after the choice where a config is marked with +. Configs "
    "that differ in more than the knob say nothing of it alone; pairs that differ in nothing else do."
)


def knob_cells(worth: KnobWorth) -> tuple[str, ...]:
    """One row, in the order of `KNOB_HEADERS`."""
    afresh = "+" if worth.picked_afresh else ""
    alone = "-" if worth.alone is None else f"{_gain(worth.alone)} of {worth.pairs}"
    return (
        worth.knob,
        f"C={worth.concurrency}",
        str(worth.value),
        str(worth.other),
        _gain(worth.gain),
        _apart(worth.gain),
        f"{worth.best}{afresh}, {worth.other_best}{afresh}",
        ", ".join(worth.differ_too) or "-",
        alone,
    )


def _apart(gain: Gain) -> str:
    return {None: "scatter assumed", True: "yes", False: "no"}[gain.separable]


def _gain(gain: Gain) -> str:
    return gain_percent(gain.value) + gain_bounds(gain)
