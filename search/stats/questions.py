"""Verdicts on questions: one config against others, the best of each value of a knob, a host against itself earlier."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, TypeVar

from search.stats._variances import upper_tail
from search.stats.compare import compare
from search.stats.comparison import Comparison
from search.stats.many import holm, modulus_quantile
from search.stats.readings import Groups, Reading, only_fresh, usable
from search.stats.scatter import Scatter
from search.stats.verdicts import LEVEL, WORTH

Key = TypeVar("Key", bound=Hashable)
Finding = Literal["supported", "refuted", "same", "not separable", "assumed scatter", "not measured"]


def finding(gains: Sequence[Comparison | None], *, level: float = LEVEL, worth: float = WORTH) -> Finding:
    """What comparisons say of "this one is better than each of those, at each of these loads".

    *Supported*: better in every comparison. All must hold, so none needs a correction (Berger 1982). *Refuted*: worse
    in one of them, after Holm's correction, since any would do. *Same*: within `worth` in every one. Each of the two
    first is said falsely in at most `level` / 2; several questions share a study's level, so divide it among them.

    Args:
        gains: Above 1 where better; None where one side was not measured, or only predicted.
        level: Chance of a false verdict.
        worth: Smallest gain that matters.
    """
    known = [gain for gain in gains if gain is not None]
    if len(known) < len(gains) or not known:
        return "not measured"
    if any(gain.assumed for gain in known):
        return "assumed scatter"
    if all(upper_tail(gain.statistic, gain.freedom) <= level / 2 for gain in known):
        return "supported"
    if min(holm([upper_tail(-gain.statistic, gain.freedom) for gain in known])) <= level / 2:
        return "refuted"
    if all(gain.same_within(worth) for gain in known):
        return "same"
    return "not separable"


@dataclass(frozen=True, slots=True)
class BestOfEach:
    """The best config with one value of a knob against the best with another.

    Attributes:
        best: Config of the value in question; None where none with it was measured.
        other: Of the other value.
        gain: Above 1 where `best` is better. None where a value was not measured.
        picked_afresh: Both were picked by the search and compared on starts of their own. Else the interval is
            simultaneous over all configs of both values, so that the luck of whoever came first is in it.
    """

    best: str | None
    other: str | None
    gain: Comparison | None
    picked_afresh: bool


def best_of_each(mine: Groups, theirs: Groups, scatter: Scatter, *, higher_is_better: bool = True) -> BestOfEach:
    """Whether the best config of one value of a knob beats the best of another, the winner's curse taken care of.

    The bests are picked by starts that were not made afresh. Where both have fresh starts, they are compared on
    those. Otherwise every mean lies within c standard errors of the truth, all at once (studentized maximum modulus),
    so the best true value of each side lies between the largest lower and the largest upper end of its configs.

    Args:
        mine: Readings of the configs with the value in question.
        theirs: Of those with the other one.
        scatter: Pooled over the study, of this metric and concurrency.
        higher_is_better: Of the readings' values.
    """
    sign = 1 if higher_is_better else -1
    known = [{c: kept for c, r in side.items() if (kept := usable(r))} for side in (mine, theirs)]
    if not all(known):
        return BestOfEach(_first(known[0], scatter, sign), _first(known[1], scatter, sign), None, picked_afresh=False)
    fresh = [{c: only_fresh(r) for c, r in side.items() if only_fresh(r)} for side in known]
    picks = [_first(_searched(side), scatter, sign) or _first(side, scatter, sign) for side in known]
    one, other = picks
    assert one is not None and other is not None
    if one in fresh[0] and other in fresh[1]:
        comparison = compare(fresh[0][one], fresh[1][other], scatter)
        return BestOfEach(one, other, comparison if comparison is None or sign > 0 else comparison.inverse(), True)
    return BestOfEach(one, other, _simultaneous(known[0], known[1], (one, other), scatter, sign), False)


@dataclass(frozen=True, slots=True)
class Drift:
    """A config's last start against its earlier ones.

    Attributes:
        change: Last / earlier.
        shown: The change is beyond chance, after all the changes that were looked at.
    """

    change: Comparison
    shown: bool


def drifts(
    pairs: Mapping[Key, tuple[Sequence[Reading], Sequence[Reading], Scatter]], *, level: float = LEVEL
) -> dict[Key, Drift]:
    """Whether hosts changed; the chance of any false alarm among all of them is at most `level` (Holm).

    Args:
        pairs: By slot, baseline and concurrency: earlier readings, closing ones, and a scatter. Pool that *without*
            the closing starts: what drifts must not widen its own measure.
        level: Of the whole study.
    """
    drifted = {key: compare(closing, earlier, scatter) for key, (earlier, closing, scatter) in pairs.items()}
    known = {key: change for key, change in drifted.items() if change is not None}
    open_to_claim = {key: change for key, change in known.items() if not change.assumed}
    chances = dict(zip(open_to_claim, holm([change.p_value for change in open_to_claim.values()]), strict=True))
    return {key: Drift(change, chances.get(key, 1.0) <= level) for key, change in known.items()}


def pooled(gains: Sequence[Comparison]) -> Comparison | None:
    """The mean gain over pairs that differ in one knob alone: what the knob is worth at the fixed others measured.

    Pairs must share no config. One number for pairs that may each differ: it says nothing of other settings.
    None without pairs.
    """
    if not gains:
        return None
    count = len(gains)
    variance = sum(gain.variance for gain in gains) / count**2
    first = gains[0]
    return Comparison(
        log_ratio=sum(gain.log_ratio for gain in gains) / count,
        variance=variance,
        freedom=min(gain.freedom for gain in gains),  # the scatter is one and the same estimate in all of them
        assumed=any(gain.assumed for gain in gains),
        basis=first.basis if len({gain.basis for gain in gains}) == 1 else "starts",
        shares=first.shares,
        starts=(min(gain.starts[0] for gain in gains), min(gain.starts[1] for gain in gains)),
        own=(sum(gain.own[0] for gain in gains) / count**2, sum(gain.own[1] for gain in gains) / count**2),
        one_start=sum(gain.one_start for gain in gains) / count**2,
        of_prompts=sum(gain.of_prompts for gain in gains) / count**2,
    )


def _searched(groups: Groups) -> dict[str, list[Reading]]:
    found = {config: [one for one in readings if not one.fresh] for config, readings in groups.items()}
    return {config: readings for config, readings in found.items() if readings}


def _first(groups: Groups, scatter: Scatter, sign: int) -> str | None:
    best: str | None = None
    for config in groups:
        comparison = compare(groups[config], groups[best], scatter) if best is not None else None
        if best is None or (comparison is not None and sign * comparison.log_ratio > 0):
            best = config
    return best


def _simultaneous(
    mine: Groups, theirs: Groups, picks: tuple[str, str], scatter: Scatter, sign: int
) -> Comparison | None:
    """Of the two best true values: a comparison whose 95% interval is the simultaneous one."""
    anchor = theirs[picks[1]]
    point = compare(mine[picks[0]], anchor, scatter)
    if point is None:
        return None
    sides = [
        [compare(side[config], anchor, scatter) for config in side if side is not theirs or config != picks[1]]
        for side in (mine, theirs)
    ]
    spans = [[(sign * one.log_ratio, one.own[0] + one.of_prompts) for one in side if one is not None] for side in sides]
    spans[1].append((0.0, point.own[1] + point.of_prompts))
    bound = modulus_quantile(sum(map(len, spans)), point.freedom)
    ends = [
        (
            max(value - bound * sqrt(variance) for value, variance in side),
            max(value + bound * sqrt(variance) for value, variance in side),
        )
        for side in spans
    ]
    gap = sign * point.log_ratio
    half = max(gap - (ends[0][0] - ends[1][1]), (ends[0][1] - ends[1][0]) - gap, 0.0)
    variance = max(point.variance, (half / modulus_quantile(1, point.freedom)) ** 2)
    return replace(point, log_ratio=gap, variance=variance)
