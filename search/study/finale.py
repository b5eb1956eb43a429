"""What is launched after the search: picks again with held-out prompts, and the best of each family at many loads.

Pure functions of what was launched, so that a resumed study goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from search.config import SpecConfig
from search.storage import LaunchRecord
from search.study.judgement import ConfigResult, Judgement
from search.study.winners import all_synthetic, recommendable

Choice: TypeAlias = tuple[SpecConfig, str]
"""What to launch, and why."""

_RIVALS = 2
"""Of those a winner cannot be told from, so many of the fastest are confirmed too."""
_MOST_REPEATS = 3
"""Confirming launches of one config; what they cannot tell apart is a tie for every use."""


def to_confirm(launches: Sequence[LaunchRecord], judgement: Judgement) -> Choice | None:
    """The next config to confirm; None when all is told, or there is nothing to confirm.

    First each once: the best baseline, or nothing could be compared on the held-out prompts; the
    picks; what cannot be told from a winner at an objective; the rest of the front. Then those
    again that confirmation could not tell apart.
    """
    tried = [launch.asked for launch in launches if launch.stage == "confirm"]
    wanted: dict[SpecConfig, str] = {}
    for config, why in _wanted(judgement):
        wanted.setdefault(config, why)
    if len(wanted) < 2:
        return None  # the baseline alone
    fresh = next((config for config in wanted if config not in tried), None)
    if fresh is not None:
        return fresh, wanted[fresh]
    return _undecided(tried, judgement)


def _wanted(judgement: Judgement) -> Iterator[Choice]:
    """What should be confirmed, the most important first; a config that is named twice keeps its first place."""
    if judgement.baselines:
        yield judgement.baselines[0].config, "confirms: what the picks are compared with on held-out prompts"
    for pick in judgement.picks:
        yield pick.result.config, f"confirms: {', '.join(pick.roles)}"
    for winner in judgement.winners:
        for config in winner.tied[:_RIVALS]:
            yield config, f"confirms: cannot be told from {winner.config} at C={winner.concurrency}"
    for result in judgement.front:
        yield result.config, "confirms: on the front"


def _undecided(tried: Sequence[SpecConfig], judgement: Judgement) -> Choice | None:
    """Of the configs that a winner cannot be told from, the one that was confirmed least."""
    done = set(tried)
    for winner in judgement.winners:
        rivals = [config for config in (winner.config, *winner.tied) if config in done]
        if len(rivals) < 2 or winner.config not in rivals:
            continue
        least = min(rivals, key=tried.count)
        if tried.count(least) < _MOST_REPEATS:
            others = ", ".join(str(config) for config in rivals if config != least)
            return least, f"confirms again: not told from {others} at C={winner.concurrency}"
    return None


def to_ladder(launches: Sequence[LaunchRecord], judgement: Judgement) -> Choice | None:
    """The next config to measure at many loads: the best of a family that was not on the ladder; `off` comes first."""
    climbed = {launch.asked.family for launch in launches if launch.stage == "ladder"}
    best = _best_of_families(judgement.results)
    if len(best) < 2:
        return None  # without anything to compare, no load tells more than before
    for family, result in best.items():
        if family not in climbed:
            return result.config, f"winner per load: the best of {family}"
    return None


def _best_of_families(results: Sequence[ConfigResult]) -> dict[str, ConfigResult]:
    """By family, `off` first and then by score; configs that may not be recommended are left out.

    Of a simulated family the best that rests on data, where there is one: winners are told from those.
    """
    synthetic = all_synthetic(results)
    allowed = [result for result in results if recommendable(result.notes, synthetic=synthetic)]
    best: dict[str, ConfigResult] = {}
    for result in sorted(allowed, key=lambda result: result.extrapolated):
        best.setdefault(result.config.family, result)
    return dict(sorted(best.items(), key=lambda item: (item[1].config.speculates, -item[1].score)))
