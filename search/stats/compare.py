"""How two configs are compared: on which prompts, inside which starts, between which starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from search.stats._prompts import apart, paired
from search.stats._variances import Uncertain, satterthwaite
from search.stats.comparison import Basis, Comparison, Shares
from search.stats.readings import Mean, Reading, by_block, measurement_means, start_means, usable
from search.stats.scatter import Scatter


def compare(a: Sequence[Reading], b: Sequence[Reading], scatter: Scatter) -> Comparison | None:
    """`a / b`, point and interval from the same comparison; None where either has no usable reading.

    - On the prompts that all readings of both answered, where they say which those were.
    - Inside the starts that held both, where there are any: free of the start's scatter, corrected for the place in
      the start where the study shows what a place does.
    - Else between starts, within each slot and prompt set that both have seen, weighted by what each shows. Each
      start counts alike, however many repeats it holds. A side that is all fresh starts is held against scatter without
      their tie to the start they were picked by, see `Scatter.beside`.

    Args:
        a: Readings of one config.
        b: Of another one; or of the same, as first and closing baseline.
        scatter: Pooled over the study, of the same metric and concurrency.
    """
    mine, theirs = usable(a), usable(b)
    if not mine or not theirs:
        return None
    scatter = scatter.beside(mine).beside(theirs)
    split_a, split_b = by_block(mine), by_block(theirs)
    blocks = sorted(split_a.keys() & split_b.keys())
    if not blocks:
        return _between([(mine, theirs)], scatter, satterthwaite([apart(mine), apart(theirs)]), alike=False)
    if together := {one.start for one in mine} & {one.start for one in theirs}:
        mine = [one for one in mine if one.start in together and one.block in blocks]
        theirs = [one for one in theirs if one.start in together and one.block in blocks]
        if mine and theirs:
            prompts = paired(mine, theirs)
            if prompts is None:
                return _inside(mine, theirs, scatter, Uncertain(0.0, inf))
            return _inside(prompts.a, prompts.b, scatter, prompts.spread)
    pairs: list[tuple[Sequence[Reading], Sequence[Reading]]] = []
    spreads: list[Uncertain] = []
    for block in blocks:
        prompts = paired(split_a[block], split_b[block])
        pairs.append((split_a[block], split_b[block]) if prompts is None else (prompts.a, prompts.b))
        if prompts is not None:
            spreads.append(prompts.spread)
    # Sets of prompts inform about one another's spread: their mean, over as many sets as there are.
    spread = satterthwaite(Uncertain(one.variance / len(spreads) ** 2, one.freedom) for one in spreads)
    return _between(pairs, scatter, spread, alike=True)


def _between(
    pairs: Sequence[tuple[Sequence[Reading], Sequence[Reading]]], scatter: Scatter, prompts: Uncertain, *, alike: bool
) -> Comparison:
    sides = [(start_means(a), start_means(b)) for a, b in pairs]
    differences = [_Difference.of(a, b) for a, b in sides]
    precision = sum(1 / (one.a + one.b) for one in differences)
    shares = [1 / (one.a + one.b) / precision for one in differences]
    of_a, of_b = (_of_starts(shares, [pair[side] for pair in sides]) for side in (0, 1))
    repeats = sum(share**2 * one.repeats for share, one in zip(shares, differences, strict=True))
    starts = of_a + of_b
    variance = scatter.across(starts, repeats)
    gap = sum(share * one.log_ratio for share, one in zip(shares, differences, strict=True))
    if any(mean.place for pair in sides for side in pair for mean in side.values()):
        factor, places = _of_places(shares, sides)
        gap -= (scatter.slope or 0.0) * places
        variance = satterthwaite([variance, scatter.placed(factor, places)])
    return _comparison(
        gap,
        variance,
        prompts,
        repeats * scatter.repeat,
        assumed=scatter.assumed or not alike,
        basis="starts" if alike else "unlike starts",
        starts=(len({r.start for a, _ in pairs for r in a}), len({r.start for _, b in pairs for r in b})),
        own=(variance.variance * of_a / starts, variance.variance * of_b / starts),
        one_start=variance.variance / starts,
    )


def _of_places(
    shares: Sequence[float], sides: Sequence[tuple[dict[int, Mean], dict[int, Mean]]]
) -> tuple[float, float]:
    """Factor of the variance of a place in a weighted mean over blocks, and the difference of the mean places."""
    factor, places = 0.0, 0.0
    for share, pair in zip(shares, sides, strict=True):
        for sign, means in zip((1, -1), pair, strict=True):
            for mean in means.values():
                factor += (share / len(means)) ** 2 if mean.place else 0.0
                places += sign * share * mean.place / len(means)
    return factor, places


def _of_starts(shares: Sequence[float], blocks: Sequence[dict[int, Mean]]) -> float:
    """Factor of the variance of a start in a weighted mean over blocks.

    A start that measured several sets of prompts brought its luck to each of them, so that does not average out.
    """
    weights: dict[int, float] = {}
    for share, means in zip(shares, blocks, strict=True):
        for start in means:
            weights[start] = weights.get(start, 0.0) + share / len(means)
    return sum(weight**2 for weight in weights.values())


def _inside(a: Sequence[Reading], b: Sequence[Reading], scatter: Scatter, prompts: Uncertain) -> Comparison:
    mine, theirs = _by_start(a), _by_start(b)
    shared = sorted(mine.keys() & theirs.keys())
    count = len(shared)
    gap, measurements, repeats, places = 0.0, 0.0, 0.0, 0.0
    for key in shared:
        for sign, means in ((1, mine[key]), (-1, theirs[key])):
            gap += sign * sum(mean.log_value for mean in means) / len(means) / count
            places += sign * sum(mean.place for mean in means) / len(means) / count
            measurements += 1 / len(means) / count**2
            repeats += sum(mean.inverse for mean in means) / len(means) ** 2 / count**2
    if scatter.slope is not None:
        gap -= scatter.slope * places
        measurements += scatter.slope_variance * places**2
    variance, assumed = scatter.inside(measurements, repeats)
    return _comparison(
        gap,
        variance,
        prompts,
        variance.variance,
        assumed=assumed,
        basis="same start",
        starts=(count, count),
        own=(variance.variance / 2, variance.variance / 2),
        one_start=variance.variance * count / 2,
    )


def _comparison(
    log_ratio: float,
    starts_and_repeats: Uncertain,
    prompts: Uncertain,
    of_repeats: float,
    *,
    assumed: bool,
    basis: Basis,
    starts: tuple[int, int],
    own: tuple[float, float],
    one_start: float,
) -> Comparison:
    whole = satterthwaite([starts_and_repeats, prompts])
    repeats = min(of_repeats, starts_and_repeats.variance)
    return Comparison(
        log_ratio=log_ratio,
        variance=whole.variance,
        freedom=whole.freedom,
        assumed=assumed,
        basis=basis,
        shares=Shares(
            starts=(starts_and_repeats.variance - repeats) / whole.variance,
            repeats=repeats / whole.variance,
            prompts=prompts.variance / whole.variance,
        )
        if whole.variance
        else Shares(),
        starts=starts,
        own=own,
        one_start=one_start,
        of_prompts=prompts.variance,
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    """Of two configs on one slot with one set of prompts; `a`, `b` and `repeats` are factors of variances."""

    log_ratio: float
    a: float
    b: float
    repeats: float

    @classmethod
    def of(cls, a: dict[int, Mean], b: dict[int, Mean]) -> _Difference:
        (mean_a, repeats_a), (mean_b, repeats_b) = _mean(a), _mean(b)
        return cls(mean_a - mean_b, 1 / len(a), 1 / len(b), repeats_a + repeats_b)


def _mean(starts: dict[int, Mean]) -> tuple[float, float]:
    """Mean over starts, and the factor of the variance of repeats in it."""
    count = len(starts)
    means = starts.values()
    return sum(mean.log_value for mean in means) / count, sum(mean.inverse for mean in means) / count**2


def _by_start(readings: Sequence[Reading]) -> dict[tuple[int, str], list[Mean]]:
    found: dict[tuple[int, str], list[Mean]] = {}
    for (_, prompts), mine in by_block(readings).items():
        for (start, _), mean in measurement_means(mine).items():
            found.setdefault((start, prompts), []).append(mean)
    return found
