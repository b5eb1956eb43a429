"""What people should know of single configs before they believe them, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from search.analysis.findings import ConfigResult
from search.analysis.words import gain_words
from search.config import SpecConfig
from search.metrics import gain_percent
from search.outcomes import Note, Outcome, Reason
from search.stats.acceptance import accept_ratio
from search.stats.losslessness import worst
from search.storage.records import LaunchRecord

_ACCEPT_MATTERS = 0.03
"""Accept lengths of one tree on two workers that are closer change no decision."""


def remarks(
    results: Sequence[ConfigResult], launches: Sequence[LaunchRecord], order: Mapping[int, float]
) -> Iterator[str]:
    """Outputs first, then accept lengths, then repeats."""
    yield from _outputs(results, launches)
    yield from _unequal_workers(launches)
    for load, shift in order.items():
        yield (
            f"Order effect at C={load}: the last repeat of a launch differs from the first by {gain_percent(shift)}, in all "
            "launches alike. Values are means over repeats, so configs compare; the place of a phase in a launch matters."
        )
    for result in results:
        for at in result.loads.values():
            yield from (f"{result.config}: {outlier}; it is kept." for outlier in at.outliers)


def _outputs(results: Sequence[ConfigResult], launches: Sequence[LaunchRecord]) -> Iterator[str]:
    for launch in launches:
        if launch.reason is Reason.BAD_OUTPUT and launch.evidence is not None:
            yield (
                f"{launch.config} is barred, however fast: at {launch.evidence.phase} of launch {launch.number}, "
                f"{launch.evidence.root_line}."
            )
    for result in results:
        decisive = worst(result.lossless)
        if decisive is not None and decisive.verdict == "lossy":
            yield (
                f"{result.config} is not lossless at C={decisive.concurrency}, so it is neither ranked nor recommended: "
                f"{decisive.why}."
            )
    lossless = [result for result in results if (check := worst(result.lossless)) and check.verdict == "lossless"]
    if lossless:
        yield f"Lossless against the baseline: {', '.join(str(result.config) for result in lossless)}."
    for result in results:
        decisive = worst(result.lossless)
        if decisive is not None and decisive.verdict == "not judged":
            yield f"Whether {result.config} is lossless was not judged at C={decisive.concurrency}: {decisive.why}."


def _unequal_workers(launches: Sequence[LaunchRecord]) -> Iterator[str]:
    """One tree on both worker versions accepts alike in a correct server, at each load."""
    trees: dict[tuple[tuple[str, object], ...], dict[SpecConfig, LaunchRecord]] = {}
    for launch in launches:
        if launch.outcome is Outcome.MEASURED and launch.config.speculates and launch.stage not in ("try", "confirm"):
            trees.setdefault(_tree(launch.config), {}).setdefault(launch.config, launch)
    for one, other in (pair for first in trees.values() for pair in combinations(first.values(), 2)):
        for load in sorted({phase.concurrency for phase in one.phases}):
            mine, theirs = one.repeats(load), other.repeats(load)
            ratio = accept_ratio(mine[0], theirs[0]) if mine and theirs else None
            if ratio is None or ratio.lo is None or ratio.hi is None or ratio.lo <= 1 <= ratio.hi:
                continue
            if abs(ratio.value - 1) > _ACCEPT_MATTERS:
                yield (
                    f"{one.config} and {other.config} draft the same tree, but accept {mine[0].accept_length:.2f} and "
                    f"{theirs[0].accept_length:.2f} tokens per pass at C={load} ({gain_words(ratio)}). In a correct server "
                    "they would be equal."
                )


def _tree(config: SpecConfig) -> tuple[tuple[str, object], ...]:
    """All knobs but the worker version."""
    return tuple(sorted((name, value) for name, value in config.params.items() if name != "spec_version"))


def order_notes(result: ConfigResult, order: Mapping[int, float]) -> tuple[Note, ...]:
    """ORDER_EFFECT for a config that was measured at a load where there is one."""
    return (Note.ORDER_EFFECT,) if result.loads.keys() & order.keys() else ()
