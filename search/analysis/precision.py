"""How far starts and repeats of one config differ, and what that means for the intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from search.analysis.arenas import RATE, Arena, Key, key_of
from search.metrics import METRICS
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.scatter import ASSUMED, ENOUGH


def assumed_sentences(spec: StudySpec, arenas: Mapping[Key, Arena]) -> Iterator[str]:
    """For the first screen: objectives at which too little was started twice for any claim."""
    assumed = [
        arena
        for key in dict.fromkeys(map(key_of, spec.axes))
        if (arena := arenas.get(key)) is not None and arena.scatter.assumed and arena.verdict is not None
        and any(config.speculates for config in arena.open) and arena.reference is not None
    ]  # fmt: skip
    if assumed:
        known = ", ".join(f"{arena.scatter.start_freedom:.0f} {_where(arena)}" for arena in assumed)
        yield (
            f"Assumed scatter: too little was started twice to know how far starts of one config differ (pooled degrees "
            f"of freedom: {known}; {ENOUGH} are needed). Intervals rest on an assumed {ASSUMED.between:.0%} between "
            "starts, and no gain is claimed; each further start of anything measured adds a degree."
        )


def scatter_sentences(arenas: Mapping[Key, Arena]) -> Iterator[str]:
    """For the remarks: both scatters, and which of them makes the intervals wide."""
    for arena in sorted(arenas.values(), key=lambda arena: (arena.concurrency, arena.key[0])):
        scatter = arena.scatter
        if arena.only_expected or scatter.between is None or scatter.between_interval is None:
            continue
        lo, hi = scatter.between_interval
        repeats = "" if scatter.within is None else f", repeats in a start by {scatter.within:.1%}"
        freedom = f"{scatter.start_freedom:.0f} degree{'' if round(scatter.start_freedom) == 1 else 's'} of freedom"
        assumed = ", too few for an interval that carries a claim" if scatter.assumed else ""
        yield (
            f"Scatter {_where(arena)}: starts of one config differ by {scatter.between:.1%} [{lo:.1%}, {hi:.1%}] "
            f"({freedom}{assumed}){repeats}.{_shares(arena)}"
        )


def _where(arena: Arena) -> str:
    name, load = arena.key
    return f"at C={load}" if name == RATE else f"of {METRICS[name].title} at C={load}"


def _shares(arena: Arena) -> str:
    """What the interval of the best gain is wide because of."""
    if arena.verdict is None or not arena.verdict.standings:
        return ""
    comparison: Comparison | None = next((one.gain for one in arena.verdict.standings if one.gain is not None), None)
    if comparison is None or comparison.assumed:
        return ""
    shares = comparison.shares
    parts = [
        f"{share:.0%} {name}"
        for share, name in ((shares.starts, "starts"), (shares.repeats, "repeats"), (shares.prompts, "prompts"))
        if share >= 0.005
    ]
    return f" The interval of {arena.verdict.standings[0].config} there is wide because of: {', '.join(parts)}."
