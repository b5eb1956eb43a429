"""What is started again after the search, going by what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from search.analysis.findings import FOR_A_QUESTION, ConfigResult, Gain, Judgement, LoadWinner
from search.analysis.winners import all_synthetic, leader, recommendable
from search.config import SpecConfig
from search.outcomes import Outcome
from search.storage.records import LaunchRecord
from search.study.stages import (
    BASELINE_STARTS,
    FREEDOM,
    MOST_PICKS,
    PICK_STARTS,
    QUESTION_STARTS,
    climbed_families,
)

Choice: TypeAlias = tuple[SpecConfig, str]
"""What to launch, and why."""

_RIVALS = 2
"""Of those a winner cannot be distinguished from, so many of the fastest are confirmed too."""
MOST_STARTS = 6
"""Starts of one config, whatever they are for: more show little of it that fewer do not."""


@dataclass(frozen=True, slots=True)
class Room:
    """What confirmation may still start, and what it is short of.

    Attributes:
        left: Confirmations that may still be made.
        freedom: Pooled degrees of freedom between starts so far.
        closing: Starts of the baseline that are still to come.
        objectives: Concurrencies of the objectives: what leads there is confirmed first.
        worth: Smallest gain that matters: a lead below it is not worth a third start.
        may_start: Whether there is a fresh start of a config to be had; a recording has a number of them.
    """

    left: int
    freedom: float
    closing: int = 0
    objectives: Collection[int] = ()
    worth: float = 0.0
    may_start: Callable[[SpecConfig], bool] = lambda _: True


def to_confirm(launches: Sequence[LaunchRecord], judgement: Judgement, room: Room) -> Choice | None:
    """The next config to confirm; None when everything is known, or there is nothing to confirm.

    The best baseline and the picks come first, in turn, so that a drift of the host meets all: up to three starts of
    the baseline over the study, two of every pick, as many picks as the launches suffice for. By then the scatter
    between starts is mostly known. Another baseline that a gain has to beat too, and that is not behind, gets a second
    start, and what leads at an objective where no gain is shown yet a third. Of questions about knobs that are still
    open, the best config of each value gets a start of its own, since what was picked by its luck is compared on
    starts that had no part in the choice. Then what a winner cannot be distinguished from. Then, while the scatter
    between starts is known with fewer than seven degrees of freedom, those again that were started least. What was
    once confirmed stays so.

    Args:
        launches: Of the study, those under way included.
        judgement: Of those that ended.
        room: For it.
    """
    confirmed = [one for one in launches if one.stage == "confirm" and one.outcome is not Outcome.INTERRUPTED]
    own = Counter(launch.asked for launch in confirmed)
    failed = {launch.asked for launch in confirmed if launch.reason is not None}

    def able(config: SpecConfig) -> bool:
        return config not in failed and room.may_start(config)

    named = {config: why for config, why in _leaders(judgement, room.objectives) if able(config)}
    begun = [config for config in own if config.speculates and able(config)]
    picked = {launch.asked for launch in confirmed if not launch.why.startswith(FOR_A_QUESTION)}
    chosen = [config for config in begun if config in named or config in picked]
    owed = sum(max(0, PICK_STARTS - own[config]) for config in chosen)
    # One start of one pick is better than none.
    open_ones = {one.config: one.why for one in judgement.contenders if one.is_open and able(one.config)}
    kept = min(QUESTION_STARTS, len([config for config in open_ones if config not in named and not own[config]]))
    most = min(MOST_PICKS - len(chosen), (room.left - owed - kept) // PICK_STARTS)
    most = max(most, 0 if begun else min(1, room.left))
    picks = [*chosen, *[config for config in named if config not in chosen][: max(0, most)]]
    rivals = {config: why for config, why in _rivals(judgement) if able(config)}
    if not (picks or begun or open_ones or rivals):
        return None  # the baseline alone
    made = {
        (launch.asked, launch.start_number) for launch in launches if launch.reason is None and launch.stage != "try"
    }
    starts = Counter(asked for asked, _ in made)
    baseline = _baseline(own, judgement)
    if baseline is not None and able(baseline):
        turn = min((own[config] for config in picks), default=0)
        few = starts[baseline] + room.closing < BASELINE_STARTS
        if room.left > owed and own[baseline] <= turn and (few or (not own[baseline] and not room.closing)):
            return baseline, "confirms: what the picks are compared with, on the same prompts"
    if owing := [config for config in picks if own[config] < PICK_STARTS]:
        config = min(owing, key=lambda config: own[config])
        return config, named.get(config, "confirms again: a start of its own more")
    for plain in _others_in_the_running(judgement, baseline, room.objectives):
        if room.left > 0 and starts[plain] < PICK_STARTS and able(plain):
            return plain, "confirms: a gain has to beat this baseline too"
    for lead, why in _leads(judgement, room):
        if room.left > 0 and own[lead] == PICK_STARTS and able(lead):
            return lead, why
    unanswered = [config for config in open_ones if not own[config]]
    if room.left > 0 and unanswered:
        return unanswered[0], open_ones[unanswered[0]]
    others = [config for config in rivals if config not in picks]
    if others and len(picks) < MOST_PICKS and room.left >= (PICK_STARTS if begun else 1):
        return others[0], rivals[others[0]]
    if room.freedom + room.closing >= FREEDOM:
        return None
    pool = [*([baseline] if baseline is not None and able(baseline) else []), *begun]
    pool = [config for config in pool if starts[config] < MOST_STARTS]
    if not pool:
        return None
    config = min(pool, key=lambda config: starts[config] + (room.closing if config == baseline else 0))
    return config, f"confirms again: {room.freedom:.3g} of {FREEDOM} degrees of freedom show how far starts differ"


def _baseline(own: Counter[SpecConfig], judgement: Judgement) -> SpecConfig | None:
    """The best one; once one was confirmed, that one, however close another comes."""
    begun = [config for config, _ in own.most_common() if not config.speculates]
    if begun:
        return begun[0]
    return judgement.baselines[0].config if judgement.baselines else None


def _others_in_the_running(
    judgement: Judgement, baseline: SpecConfig | None, objectives: Collection[int]
) -> Iterator[SpecConfig]:
    """Other baselines that a gain at an objective has to beat: none that is shown to be slower than the best there."""
    at = [winner for winner in judgement.winners if winner.concurrency in objectives]
    wanted = [winner.concurrency for winner in at if winner.ahead or winner.claimed]
    for result in judgement.baselines:
        gains = [result.gains.get(load) for load in wanted]
        if result.config != baseline and any(gain is not None and (gain.hi is None or gain.hi >= 1) for gain in gains):
            yield result.config


def _leads(judgement: Judgement, room: Room) -> Iterator[Choice]:
    """What leads at an objective by a gain that would matter, whether it is shown or not.

    The size of the lead alone decides. Were a start added only where nothing is shown yet, every study would look
    twice, and claim of equal configs what either look shows; and what is claimed on two starts is claimed because they
    were good ones, so that its gain needs a start that had no part in that.
    """
    for winner in sorted(judgement.winners, key=lambda winner: -_lead(winner)):
        if winner.concurrency not in room.objectives:
            continue
        best = _ahead(winner)
        if best is not None and best[1].value > 1 + room.worth:
            why = f"confirms again: leads {winner.baseline} at C={winner.concurrency} by more than {room.worth:.0%}"
            yield best[0], why


def _ahead(winner: LoadWinner) -> tuple[SpecConfig, Gain] | None:
    """What wins at a load, or is ahead of the baseline there; None where nothing is."""
    if winner.config.speculates:
        return winner.config, winner.gain
    return (winner.ahead[0].config, winner.ahead[0].gain) if winner.ahead else None


def _leaders(judgement: Judgement, objectives: Collection[int]) -> Iterator[Choice]:
    """What wins, or is ahead of the baseline and may be shown to be with starts of its own: the objectives' first.

    Of these what leads by most. Then what has another role in the report, as the best score. A config that is named
    twice keeps its first place.
    """
    roles = {pick.result.config: f"confirms: {', '.join(pick.roles)}" for pick in judgement.picks}
    found: dict[SpecConfig, str] = {}
    for winner in sorted(judgement.winners, key=lambda winner: (winner.concurrency not in objectives, -_lead(winner))):
        if winner.config.speculates:
            found.setdefault(winner.config, roles.get(winner.config, f"confirms: wins at C={winner.concurrency}"))
        elif winner.ahead:
            why = f"confirms: ahead of {winner.baseline} at C={winner.concurrency}, and not shown yet"
            found.setdefault(winner.ahead[0].config, why)
    if (best := leader(judgement.results)) is not None:
        roles.setdefault(best, "confirms: the best score so far")
    yield from ((config, why) for config, why in (found | roles | found).items() if config.speculates)


def _lead(winner: LoadWinner) -> float:
    """How far ahead of the baseline the best at a load is, in standard errors: luck leads by less than a gain does."""
    best = _ahead(winner)
    return 0.0 if best is None or best[1].comparison is None else best[1].comparison.statistic


def _rivals(judgement: Judgement) -> Iterator[Choice]:
    """What cannot be distinguished from a winner, and the rest of the front."""
    found: dict[SpecConfig, str] = {}
    for winner in judgement.winners:
        for config in winner.tied[:_RIVALS]:
            why = f"confirms: cannot be distinguished from {winner.config} at C={winner.concurrency}"
            found.setdefault(config, why)
    for result in judgement.front:
        found.setdefault(result.config, "confirms: on the front")
    yield from ((config, why) for config, why in found.items() if config.speculates)


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
    best = _best_of_families(judgement.results, loads)
    if len(best) < 2:
        return None  # without anything to compare, no load shows more than before
    for family, result in best.items():
        if family not in climbed and not is_behind(result.config):
            return result.config, f"winner per load: the best of {family}"
    return None


def _best_of_families(results: Sequence[ConfigResult], loads: Collection[int]) -> dict[str, ConfigResult]:
    """By family, `off` first and then by score; configs that may not be recommended are left out.

    Of a simulated family the best that rests on data, where there is one: winners are distinguished from those.
    """
    synthetic = all_synthetic(results)
    allowed = [result for result in results if not result.lossy and recommendable(result.notes, synthetic=synthetic)]
    best: dict[str, ConfigResult] = {}
    for result in sorted(allowed, key=lambda result: result.extrapolated_at(loads)):
        best.setdefault(result.config.family, result)
    return dict(sorted(best.items(), key=lambda item: (item[1].config.speculates, -item[1].score)))
