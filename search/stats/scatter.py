"""How much starts and repeats of one config differ, pooled over all that was started more than once.

Model (in logarithms): value = config + slot and prompts + start + place in the start + repeat. Variances are moment
estimates from sums of squares, as in an analysis of variance of an unbalanced nested design (Searle, Casella and
McCulloch, Variance Components, 1992, chapter 3), with effective degrees of freedom after Satterthwaite (1946).

What an interval across starts needs is the variance of the *mean of a start*, and that is what starts of one config
show directly: no difference of two estimates, nothing to cut off at zero, and exact in a balanced design whatever
both scatters are. The scatter between starts alone, which is reported, is a difference and may come out as zero;
no interval rests on it.

Heavy tails cost intervals across starts next to nothing, since the tail that moves a mean widens them too. Unequal
scatter does cost: the pooled one is a mean over configs, too wide for quiet configs and too narrow for loud ones.
`benchmarks/coverage` has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

from scipy import special

from search.stats._contrasts import Tie, contrasts_of
from search.stats._places import Places
from search.stats._variances import Uncertain, corrected, wider
from search.stats.readings import Groups, Reading, usable

ENOUGH = 4
"""Pooled degrees of freedom below which scatter counts as assumed: nothing is claimed."""
_RESOLUTION = 1e-4
"""Least scatter of a start's mean: recorded rates have three or four digits, and equal digits are not certainty."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Scatter that is expected before anything was started twice; it may widen an interval, never narrow it.

    Attributes:
        between: Of starts, relative standard deviation.
        within: Of repeats.
        place: Of a measurement's place in its start.
        freedom: Observed deviations that it counts for.
    """

    between: float
    within: float
    place: float
    freedom: float


ASSUMED = Prior(between=0.04, within=0.016, place=0.005, freedom=4)
"""What three starts of one config differed by on an H200 at concurrency 1 (`docs/lab/measuring.md`, the comparison with
another tool); half a percent for a place."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Pooled scatter of one metric at one concurrency; all variances are of logarithms.

    Attributes:
        start: Mean square of starts' means about their config's; variance of the mean of a start.
        start_freedom: Its degrees of freedom; 0 where nothing was started twice. Configs that share starts count
            for as many as there were starts.
        start_inverse: Mean of 1 / repeats in those starts: `start` estimates between² + `start_inverse` * within².
        repeat: Mean square of repeats about their measurement's mean: within².
        repeat_freedom: Its degrees of freedom.
        place: Mean square of measurements about config and start, of starts that hold several.
        place_freedom: Its degrees of freedom.
        place_inverse: Mean of 1 / repeats in those measurements.
        slope: Change of the logarithm per place, where configs in changing places show it.
        slope_variance: Of `slope`, in units of `place`.
        prior: Of this study, as of an earlier one of the same deployment; `ASSUMED` stands in below four degrees.
        contrasts: How many contrasts `start` is the mean square of; more than `start_freedom` where configs share starts.
        squares: Their sum of squares.
        ties: Those of them that hold starts made after a choice against the one that it was made by.
    """

    start: float = 0.0
    start_freedom: float = 0.0
    start_inverse: float = 1.0
    repeat: float = 0.0
    repeat_freedom: float = 0.0
    place: float = 0.0
    place_freedom: float = 0.0
    place_inverse: float = 1.0
    slope: float | None = None
    slope_variance: float = 0.0
    prior: Prior | None = None
    contrasts: int = 0
    squares: float = 0.0
    ties: tuple[Tie, ...] = ()

    @property
    def assumed(self) -> bool:
        """Whether fewer than four pooled degrees of freedom show the scatter between starts."""
        return self.start_freedom < ENOUGH

    @property
    def within(self) -> float | None:
        """Scatter between repeats, relative; None where nothing was repeated."""
        return sqrt(self.repeat) if self.repeat_freedom else None

    @property
    def between(self) -> float | None:
        """Scatter between starts beyond that of their repeats; 0 where repeats explain it, None where unknown."""
        return sqrt(self._beyond_repeats(self.start)) if self.start_freedom else None

    @property
    def between_interval(self) -> tuple[float, float] | None:
        """95% interval of `between`, by the distribution of the starts' mean square with repeats as estimated."""
        if not self.start_freedom:
            return None
        total = self.start * self.start_freedom
        low, high = (total / float(special.chdtri(self.start_freedom, tail)) for tail in (0.025, 0.975))
        return sqrt(self._beyond_repeats(low)), sqrt(self._beyond_repeats(high))

    def across(self, starts: float, repeats: float) -> Uncertain:
        """Variance of a difference between starts, as wide as data and prior make it.

        Args:
            starts: Factor of between², as 1/3 + 1/2 for three starts against two.
            repeats: Factor of within².
        """
        prior = self.prior or (ASSUMED if self.assumed else None)
        own = corrected(
            starts,
            repeats,
            square=Uncertain(self.start, self.start_freedom),
            inverse=self.start_inverse,
            repeat=Uncertain(self.repeat, self.repeat_freedom),
        )
        if prior is None:
            return own
        repeat = max(prior.within**2, self.repeat)
        return wider(own, Uncertain(starts * prior.between**2 + repeats * repeat, prior.freedom))

    def beside(self, readings: Sequence[Reading]) -> Scatter:
        """The scatter that a mean of fresh starts may be held against: without the ties of these starts.

        What a config was picked by was lucky. Where its fresh starts are lucky too, the tie of both is small: a pooled
        scatter that holds it is small just where the mean is large, and of what the search ranks first a gain that is none
        is claimed a third more often than it should be. Without the tie the scatter is independent of the mean.
        Readings that are not all fresh leave it as it is: what nobody picked was not picked by its luck.
        """
        if not self.ties or not all(one.fresh for one in readings):
            return self
        starts = {one.start for one in readings}
        out = [tie for tie in self.ties if tie.fresh & starts]
        left = self.contrasts - len(out)
        if not out:
            return self
        if left <= 0:
            return replace(self, start=0.0, start_freedom=0.0, start_inverse=1.0, contrasts=0, squares=0.0, ties=())
        squares = self.squares - sum(tie.square for tie in out)
        return replace(
            self,
            start=max(squares / left, _RESOLUTION**2),
            start_freedom=self.start_freedom * left / self.contrasts,
            start_inverse=(self.start_inverse * self.contrasts - sum(tie.inverse for tie in out)) / left,
            contrasts=left,
            squares=squares,
            ties=tuple(tie for tie in self.ties if tie not in out),
        )

    def inside(self, measurements: float, repeats: float) -> tuple[Uncertain, bool]:
        """Variance of a difference inside a start, and whether it is assumed.

        With four degrees of freedom of measurements about config and start, theirs. Below that what repeats show,
        with the prior's scatter of a place on top; assumed only where repeats have fewer than four degrees too.

        Args:
            measurements: Factor of the variance of a place, as 2 for one measurement of each.
            repeats: Factor of within².
        """
        own = corrected(
            measurements,
            repeats,
            square=Uncertain(self.place, self.place_freedom),
            inverse=self.place_inverse,
            repeat=Uncertain(self.repeat, self.repeat_freedom),
        )
        if self.place_freedom >= ENOUGH:
            return own, False
        prior = self.prior or ASSUMED
        if self.repeat_freedom < ENOUGH:
            wide = Uncertain(measurements * prior.place**2 + repeats * max(prior.within**2, self.repeat), prior.freedom)
            return wider(own, wide), True
        shown = repeats * max(self.repeat, _RESOLUTION**2)
        total = shown + measurements * prior.place**2
        uncertain = Uncertain(total, total**2 / (shown**2 / self.repeat_freedom + (total - shown) ** 2 / prior.freedom))
        return (wider(own, uncertain) if own.freedom else uncertain), False

    def placed(self, measurements: float, places: float) -> Uncertain:
        """Variance that places bring to a difference between starts: of a start of its own they are in `start` already.

        Args:
            measurements: Factor of the variance of a place: sums over measurements after a switch.
            places: Difference of the mean places, for what is not known of the slope.
        """
        prior = self.prior or ASSUMED
        known = self.place_freedom >= ENOUGH
        one = Uncertain(self.place, self.place_freedom) if known else Uncertain(prior.place**2, prior.freedom)
        if not known and self.place_freedom:
            one = wider(Uncertain(self.place, self.place_freedom), one)
        return Uncertain((measurements + self.slope_variance * places**2) * one.variance, one.freedom)

    def _beyond_repeats(self, mean_square: float) -> float:
        return max(0.0, mean_square - self.start_inverse * self.repeat)


def pooled_scatter(groups: Groups, prior: Prior | None = None) -> Scatter:
    """Scatter over everything that was started, or repeated, more than once.

    Args:
        groups: All readings of one metric at one concurrency, by config, confirmations and ladder included.
        prior: See `Scatter.prior`.
    """
    kept = {config: usable(readings) for config, readings in groups.items()}
    again = (readings for readings in kept.values() if len({one.start for one in readings}) > 1)
    contrasts = [one for readings in again for one in contrasts_of(readings)]
    freedom = sum(one.freedom for one in contrasts)
    squares = sum(one.squares for one in contrasts)
    inverse = sum(one.inverses for one in contrasts)
    repeat, repeat_freedom = _repeats(kept)
    place = Places.of(kept)
    return Scatter(
        start=max(squares / freedom, _RESOLUTION**2) if freedom else 0.0,
        start_freedom=_effective([one.starts for one in contrasts], freedom),
        start_inverse=inverse / freedom if freedom else 1.0,
        repeat=repeat,
        repeat_freedom=repeat_freedom,
        place=max(place.mean_square, _RESOLUTION**2) if place.freedom else 0.0,
        place_freedom=place.freedom,
        place_inverse=place.inverse,
        slope=place.slope,
        slope_variance=place.slope_variance,
        prior=prior,
        contrasts=freedom,
        squares=squares,
        ties=tuple(tie for one in contrasts for tie in one.ties),
    )


def _squares(values: Iterable[float]) -> float:
    known = list(values)
    mean = sum(known) / len(known)
    return sum((value - mean) ** 2 for value in known)


def _effective(cells: list[frozenset[int]], freedom: float) -> float:
    """Degrees of freedom of the pooled mean square when configs share starts, whose scatter then is counted once.

    tr(A G)² / tr(A G A G), A the centring within configs and G saying which means come from one start.
    """
    every = [start for cell in cells for start in cell]
    if len(every) == len(set(every)):
        return freedom
    total = 0.0
    for one in cells:
        for other in cells:
            shared, mine, theirs = len(one & other), 1 / len(one), 1 / len(other)
            total += shared * (1 - mine) * (1 - theirs) + shared * (shared - 1) * mine * theirs
    return freedom**2 / total


def _repeats(groups: Mapping[str, Sequence[Reading]]) -> tuple[float, float]:
    squares, freedom = 0.0, 0
    for readings in groups.values():
        logs: dict[tuple[int, int, str], list[float]] = {}
        for reading in readings:
            logs.setdefault((reading.start, reading.place, reading.prompt_set), []).append(log(reading.value))
        for mine in logs.values():
            squares += _squares(mine)
            freedom += len(mine) - 1
    return (squares / freedom if freedom else 0.0), freedom
