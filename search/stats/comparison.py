"""Two configs, one number, one interval.

Which interval: `lo` and `hi` hold the ratio of the *true values* of the two configs, a true value being the mean over
all starts that could be made on such a host with such prompts. It is what the mean of many next starts would come out
at; two means of few starts differ from it by the scatter between starts, which is in the interval. A bracket for the
ratio of one next start of each is wider and has a name of its own, `next_start`: to read what to expect tomorrow, not
to choose by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log1p, sqrt
from typing import Literal

from scipy import special

from search.stats._prompts import apart, paired
from search.stats.readings import Mean, Reading, by_block, measurement_means, start_means, usable
from search.stats.scatter import Scatter, Uncertain, half_width, quantile, satterthwaite

Basis = Literal["same start", "starts", "unlike starts"]
"""Compared inside shared starts; between starts on one slot with the same prompts; or between starts that share
neither, which no scatter of ours covers."""

MOST_STARTS = 200
"""Where more would be needed, none is named."""
_Errors = Callable[[float], float]
"""Standard errors, by degrees of freedom."""
_POWER = 0.80
_LARGEST = 700.0
"""Logarithm, beyond which a float is infinite."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which share of an interval's variance comes from what; they add up to 1, or to 0 where there is none."""

    starts: float = 0.0
    repeats: float = 0.0
    prompts: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a / b` with its uncertainty.

    Attributes:
        log_ratio: Natural logarithm of the ratio.
        variance: Of `log_ratio`.
        freedom: Degrees of freedom of `variance`, after Satterthwaite; may be infinite.
        assumed: The variance is not measured: the interval is *assumed scatter* and carries no claim.
        basis: See `Basis`.
        shares: Of the variance.
        starts: Of `a` and of `b` that it rests on; equal where starts are shared.
        own: Parts of the variance that are `a`'s and `b`'s own starts; two comparisons with one `b` share the latter.
        one_start: Variance of one start's mean, or inside a start of one measurement.
        of_prompts: The part of the variance that comes from prompts: more starts do not narrow it.
    """

    log_ratio: float
    variance: float
    freedom: float
    assumed: bool
    basis: Basis
    shares: Shares
    starts: tuple[int, int]
    own: tuple[float, float]
    one_start: float
    of_prompts: float

    @property
    def ratio(self) -> float:
        """Value of `a` / that of `b`."""
        return _exp(self.log_ratio)

    @property
    def lo(self) -> float:
        """Lower end of the 95% interval of the ratio of true values."""
        return self.interval()[0]

    @property
    def hi(self) -> float:
        """Upper end of it."""
        return self.interval()[1]

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends at another level."""
        half = half_width(Uncertain(self.variance, self.freedom), level)
        return _exp(self.log_ratio - half), _exp(self.log_ratio + half)

    @property
    def next_start(self) -> tuple[float, float]:
        """95% interval for the ratio of one more start of each (inside a start: one more start of both)."""
        half = half_width(Uncertain(self.variance + 2 * self.one_start, self.freedom))
        return _exp(self.log_ratio - half), _exp(self.log_ratio + half)

    @property
    def statistic(self) -> float:
        """`log_ratio` in standard errors, at most 1e6 either way."""
        error = sqrt(self.variance)
        if abs(self.log_ratio) >= 1e6 * error:
            return 0.0 if not self.log_ratio else 1e6 if self.log_ratio > 0 else -1e6
        return self.log_ratio / error

    @property
    def p_value(self) -> float:
        """Two-sided chance of so large a ratio, or so small a one, between equal configs."""
        return min(1.0, 2 * upper_tail(abs(self.statistic), self.freedom))

    @property
    def separable(self) -> bool | None:
        """Whether 1 lies outside the interval; None where scatter is assumed."""
        return None if self.assumed else not self.lo <= 1 <= self.hi

    def same_within(self, worth: float) -> bool | None:
        """Whether the two differ by less than `worth` (0.02: 2%), by two one-sided tests at 5%.

        The 90% interval lies within 1 / (1 + worth) and 1 + worth (Schuirmann 1987). None where scatter is assumed.
        """
        if self.assumed:
            return None
        half = half_width(Uncertain(self.variance, self.freedom), 0.90)
        return abs(self.log_ratio) + half < log1p(worth)

    def inverse(self) -> Comparison:
        """`b / a`."""
        return replace(self, log_ratio=-self.log_ratio, starts=self.starts[::-1], own=self.own[::-1])

    def starts_to_settle(self) -> int | None:
        """Least further starts of each that would tell the two apart with a chance of 80%, were the ratio as it seems.

        None where they are told apart, where scatter was never measured, or where 200 would not do.
        """
        if self.separable is not False:
            return None
        return self._starts_until(lambda freedom: quantile(freedom, 0.975), abs(self.log_ratio))

    def starts_to_same(self, worth: float) -> int | None:
        """Least further starts of each that would show, with a chance of 80%, that equal configs are the same within `worth`.

        None where that is shown already, where scatter was never measured, or where 200 would not do.
        """
        if self.same_within(worth) is not False:
            return None
        # Both tests must succeed, so each is to fail in a tenth.
        extra = float(special.ndtri(1 - (1 - _POWER) / 2)) - float(special.ndtri(_POWER))
        return self._starts_until(lambda freedom: quantile(freedom, 0.95) + extra, log1p(worth))

    def _starts_until(self, errors: _Errors, gap: float) -> int | None:
        a, b = self.starts
        shared = self.basis == "same start"
        power = float(special.ndtri(_POWER))
        for more in range(1, MOST_STARTS + 1):
            variance = self.one_start * (1 / (a + more) + 1 / (b + more)) + self.of_prompts
            freedom = self.freedom + (more if shared else 2 * more)
            if (errors(freedom) + power) * sqrt(variance) <= gap:
                return more
        return None


def compare(a: Sequence[Reading], b: Sequence[Reading], scatter: Scatter) -> Comparison | None:
    """`a / b`, point and interval from the same comparison; None where either has no usable reading.

    - On the prompts that all readings of both answered, where they say which those were.
    - Inside the starts that held both, where there are any: free of the start's scatter, corrected for the place in
      the start where the study tells what a place does.
    - Else between starts, within each slot and prompt set that both have seen, weighted by what each tells. Each
      start counts alike, however many repeats it holds.

    Args:
        a: Readings of one config.
        b: Of another one; or of the same, as first and closing baseline.
        scatter: Pooled over the study, of the same metric and concurrency.
    """
    mine, theirs = usable(a), usable(b)
    if not mine or not theirs:
        return None
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
    # Sets of prompts tell of one another's spread: their mean, over as many sets as there are.
    spread = satterthwaite(Uncertain(one.variance / len(spreads) ** 2, one.freedom) for one in spreads)
    return _between(pairs, scatter, spread, alike=True)


def upper_tail(statistic: float, freedom: float) -> float:
    """Chance that Student's t exceeds `statistic`."""
    return float(special.ndtr(-statistic) if freedom == inf else special.stdtr(freedom, -statistic))


def _between(
    pairs: Sequence[tuple[Sequence[Reading], Sequence[Reading]]], scatter: Scatter, prompts: Uncertain, *, alike: bool
) -> Comparison:
    told = [_Difference.of(start_means(a), start_means(b)) for a, b in pairs]
    precision = sum(1 / (one.a + one.b) for one in told)
    shares = [1 / (one.a + one.b) / precision for one in told]
    of_a = sum(share**2 * one.a for share, one in zip(shares, told, strict=True))
    of_b = sum(share**2 * one.b for share, one in zip(shares, told, strict=True))
    repeats = sum(share**2 * one.repeats for share, one in zip(shares, told, strict=True))
    starts = of_a + of_b
    variance = scatter.across(starts, repeats)
    return _comparison(
        sum(share * one.log_ratio for share, one in zip(shares, told, strict=True)),
        variance,
        prompts,
        repeats * scatter.repeat,
        assumed=scatter.assumed or not alike,
        basis="starts" if alike else "unlike starts",
        starts=(len({r.start for a, _ in pairs for r in a}), len({r.start for _, b in pairs for r in b})),
        own=(variance.variance * of_a / starts, variance.variance * of_b / starts),
        one_start=variance.variance / starts,
    )


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


def _exp(log_value: float) -> float:
    """Of a logarithm that may be infinite; always finite and positive."""
    return exp(max(-_LARGEST, min(_LARGEST, log_value)))
