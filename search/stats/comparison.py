"""Two configs, one number, one interval.

Which interval: `lo` and `hi` hold the ratio of the *true values* of the two configs, a true value being the mean over
all starts that could be made on such a host with such prompts. It is what the mean of many next starts would come out
at; two means of few starts differ from it by the scatter between starts, which is in the interval. A bracket for the
ratio of one next start of each is wider and has a name of its own, `next_start`: to read what to expect tomorrow, not
to choose by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log1p, sqrt
from typing import Literal

from scipy import special

from search.stats._variances import Uncertain, half_width, quantile, upper_tail

Basis = Literal["same start", "starts", "unlike starts"]
"""Compared inside shared starts; between starts on one slot with the same prompts; or between starts that share
neither, which no scatter of ours covers."""

MOST_STARTS = 200
"""Where more would be needed, none is named."""
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
        """Least further starts of each that would separate the two with a chance of 80%, were the ratio as it seems.

        None where they are separable, where scatter was never measured, or where 200 would not do.
        """
        if self.separable is not False:
            return None
        a, b = self.starts
        shared = self.basis == "same start"
        power = float(special.ndtri(_POWER))
        for more in range(1, MOST_STARTS + 1):
            variance = self.one_start * (1 / (a + more) + 1 / (b + more)) + self.of_prompts
            freedom = self.freedom + (more if shared else 2 * more)
            if (quantile(freedom, 0.975) + power) * sqrt(variance) <= abs(self.log_ratio):
                return more
        return None


def _exp(log_value: float) -> float:
    """Of a logarithm that may be infinite; always finite and positive."""
    return exp(max(-_LARGEST, min(_LARGEST, log_value)))
