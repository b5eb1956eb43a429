"""What is started again after the search, going by what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from search.analysis.findings import ConfigResult, Judgement
from search.analysis.winners import all_synthetic, leader, recommendable
from search.config import SpecConfig
from search.outcomes import Outcome
from search.storage.records import LaunchRecord
from search.study.stages import BASELINE_STARTS, FREEDOM, MOST_PICKS, PICK_STARTS, climbed_families

Choice: TypeAlias = tuple[SpecConfig, str]
"""What to launch, and why."""

_RIVALS = 2
"""Of those a winner cannot be told from, so many of the fastest are confirmed too."""
MOST_STARTS = 6
"""Starts of one config, whatever they are for: more tell little of it that fewer do not."""


def to_confirm(
    launches: Sequence[LaunchRecord],
    judgement: Judgement,
    *,
    left: int,
    freedom: float,
    closing: int = 0,
    may_start: Callable[[SpecConfig], bool] = lambda _: True,
) -> Choice | None:
    """The next config to confirm; None when all is told, or there is nothing to confirm.

    In turn, so that a drift of the host meets all: the best baseline, up to three starts of it over the study, and
    the picks twice each, as many of them as the launches suffice for. Then, while the scatter between starts rests on
    fewer than seven degrees of freedom, those again that were started least. What was once confirmed stays so.

    Args:
        launches: Of the study, those under way included.
        judgement: Of those that ended.
        left: Confirmations that may still be made.
        freedom: Pooled degrees of freedom between starts so far.
        closing: Starts of the baseline that are still to come.
        may_start: Whether there is a fresh start of a config to be had; a recording has a number of them.
    """
    confirmed = [one for one in launches if one.stage == "confirm" and one.outcome is not Outcome.INTERRUPTED]
    own = Counter(launch.asked for launch in confirmed)
    failed = {launch.asked for launch in confirmed if launch.reason is not None}
    baseline = _baseline(own, judgement)
    wanted: dict[SpecConfig, str] = {}
    for config, why in _wanted(judgement):
        if config.speculates and config not in failed and may_start(config):
            wanted.setdefault(config, why)
    begun = [config for config in own if config.speculates and config not in failed and may_start(config)]
    owed = sum(max(0, PICK_STARTS - own[config]) for config in begun)
    # One start of one pick is better than none.
    fewest = 0 if begun else min(1, left)
    room = max(fewest, min(MOST_PICKS - len(begun), (left - owed) // PICK_STARTS))
    fresh = [config for config in wanted if config not in begun][:room]
    picks = [*begun, *fresh]
    if not picks:
        return None  # the baseline alone
    starts = Counter(launch.asked for launch in launches if launch.reason is None and launch.stage != "try")
    turn = min((own[config] for config in picks), default=0)
    if baseline is not None and baseline not in failed and may_start(baseline):
        few = starts[baseline] + closing < BASELINE_STARTS
        if left > owed and own[baseline] <= turn and (few or (not own[baseline] and not closing)):
            return baseline, "confirms: what the picks are compared with, on the same prompts"
    owing = [config for config in picks if own[config] < PICK_STARTS]
    if owing:
        config = min(owing, key=lambda config: own[config])
        again = "" if config in wanted else "confirms again: a start of its own more"
        return config, wanted.get(config, again)
    if freedom + closing >= FREEDOM:
        return None
    pool = [*([baseline] if baseline is not None and baseline not in failed and may_start(baseline) else []), *picks]
    pool = [config for config in pool if starts[config] < MOST_STARTS]
    if not pool:
        return None
    config = min(pool, key=lambda config: starts[config] + (closing if config == baseline else 0))
    return config, f"confirms again: {freedom:.3g} of {FREEDOM} degrees of freedom tell how far starts differ"


def _baseline(own: Counter[SpecConfig], judgement: Judgement) -> SpecConfig | None:
    """The best one; once one was confirmed, that one, however close another comes."""
    begun = [config for config, _ in own.most_common() if not config.speculates]
    if begun:
        return begun[0]
    return judgement.baselines[0].config if judgement.baselines else None


def _wanted(judgement: Judgement) -> Iterator[Choice]:
    """What should be confirmed, the most important first; a config that is named twice keeps its first place."""
    for pick in judgement.picks:
        yield pick.result.config, f"confirms: {', '.join(pick.roles)}"
    if (best := leader(judgement.results)) is not None:
        yield best, "confirms: the best score so far"
    for winner in judgement.winners:
        for config in winner.tied[:_RIVALS]:
            yield config, f"confirms: cannot be told from {winner.config} at C={winner.concurrency}"
    for result in judgement.front:
        yield result.config, "confirms: on the front"


def to_ladder(
    launches: Sequence[LaunchRecord],
    judgement: Judgement,
    *,
    loads: tuple[int, ...],
    is_behind: Callable[[SpecConfig], bool] = lambda _: False,
) -> Choice | None:
    """The next config to measure at many loads: the best of a family that was not on the ladder; `off` comes first.

    Args:
        launches: Of the study, those under way included.
        judgement: Of those that ended.
        loads: Of the study.
        is_behind: Whether a config is behind at every objective, beyond the intervals: its family needs no ladder.
    """
    climbed = climbed_families(launches, loads)
    best = _best_of_families(judgement.results)
    if len(best) < 2:
        return None  # without anything to compare, no load tells more than before
    for family, result in best.items():
        if family not in climbed and not is_behind(result.config):
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
