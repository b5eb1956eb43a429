"""Which gains over the baselines are claimed at one load, at a given level; `search.stats.verdicts` says why so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from search.stats._variances import upper_tail
from search.stats.compare import compare
from search.stats.comparison import Comparison
from search.stats.many import step_down
from search.stats.readings import Groups, Reading, only_fresh
from search.stats.scatter import Scatter

FIRST_SHARE = 0.8
"""Of what is left of the level, for the next pick in the order of the search."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One config that is not a baseline, at one load.

    Attributes:
        gain: Over the best baseline, above 1 where better; of its fresh starts where it has some. None where it was
            not measured so that it can be compared.
        tested: Whether a claim was open to it: in the family that the level is spent on.
        claimed: The gain is real, at the level of the whole study, against every baseline.
        level: What was left of the level when its turn came; 0 where it was not tested.
    """

    config: str
    gain: Comparison | None
    tested: bool = False
    claimed: bool = False
    level: float = 0.0


@dataclass(frozen=True, slots=True)
class Judge:
    """Comparisons turned so that more is better."""

    scatter: Scatter
    higher_is_better: bool

    @staticmethod
    def fresh_or_all(readings: Sequence[Reading]) -> Sequence[Reading]:
        """Fresh readings where there are some."""
        return only_fresh(readings) or readings

    def gain(self, of: Sequence[Reading], over: Sequence[Reading]) -> Comparison | None:
        """`of` / `over`, above 1 where better; None where one has no usable reading."""
        comparison = compare(of, over, self.scatter)
        return comparison if comparison is None or self.higher_is_better else comparison.inverse()

    def best(self, groups: Groups) -> str:
        """The one that no other is ahead of; the first of equals."""
        first, *others = groups
        for config in others:
            lead = self.gain(groups[config], groups[first])
            if lead is not None and lead.log_ratio > 0:
                first = config
        return first

    def unlike(self, one: Sequence[Reading], other: Sequence[Reading]) -> bool | None:
        """Whether two are separable, on fresh readings where both have some."""
        comparison = self.like_with_like(one, other)
        return None if comparison is None else comparison.separable is True

    def better(self, one: Sequence[Reading], other: Sequence[Reading]) -> bool:
        """Whether `one` is separably better, on fresh readings where both have some."""
        comparison = self.like_with_like(one, other)
        return comparison is not None and comparison.separable is True and comparison.log_ratio > 0

    def standings(self, known: Groups, bases: Groups, reference: str, level: float) -> list[Standing]:
        """All but baselines, by gain; with what is claimed.

        Args:
            known: Readings of every config.
            bases: Of the baselines among them.
            reference: The baseline that gains are over.
            level: Chance of any false claim that the tests share.
        """
        others = {config: readings for config, readings in known.items() if config not in bases}
        gains = {
            config: self.gain(self.fresh_or_all(readings), bases[reference]) for config, readings in others.items()
        }
        fresh = [config for config, readings in others.items() if only_fresh(readings)]
        family = fresh or list(others)
        tests = {
            config: [
                gains[config] if name == reference else self.gain(self.fresh_or_all(others[config]), base)
                for name, base in bases.items()
            ]
            for config in family
        }
        full = {config: gains_of for config, found in tests.items() if (gains_of := _all_known(found))}
        levels = self._fallback(full, others, bases, level) if fresh else _together(full, level)
        found = [
            Standing(
                config,
                gains[config],
                tested=config in levels,
                claimed=config in levels and levels[config][1],
                level=levels[config][0] if config in levels else 0.0,
            )
            for config in others
        ]
        return sorted(found, key=lambda one: -one.gain.log_ratio if one.gain is not None else float("inf"))

    def _fallback(
        self, full: Mapping[str, Sequence[Comparison]], others: Groups, bases: Groups, level: float
    ) -> dict[str, tuple[float, bool]]:
        """Level and claim of every pick, in the order of the search."""
        levels: dict[str, tuple[float, bool]] = {}
        left, carried = level, 0.0
        order = sorted(full, key=lambda config: (-self._searched(others[config], bases), config))
        for place, config in enumerate(order):
            share = left if place == len(order) - 1 else FIRST_SHARE * left
            left -= share
            mine = share + carried
            claimed = _claims(full[config], mine)
            carried = mine if claimed else 0.0
            levels[config] = (mine, claimed)
        return levels

    def _searched(self, readings: Sequence[Reading], bases: Groups) -> float:
        """Logarithm of the gain that the search saw; the least there is where it saw none."""
        before = [reading for reading in readings if not reading.fresh]
        leads = [self.gain(before, base) for base in bases.values()]
        return min((one.log_ratio for one in leads if one is not None), default=float("-inf"))

    def like_with_like(self, one: Sequence[Reading], other: Sequence[Reading]) -> Comparison | None:
        """`one` / `other`, on fresh readings where both have some, else on all of both."""
        mine, theirs = only_fresh(one), only_fresh(other)
        gain = self.gain(mine, theirs) if mine and theirs else None
        return gain or self.gain(one, other)


def _together(full: Mapping[str, Sequence[Comparison]], level: float) -> dict[str, tuple[float, bool]]:
    """All of them by the largest statistic; of several baselines the one that is hardest to beat."""
    worst = {config: min(gains, key=lambda one: one.statistic) for config, gains in full.items()}
    if not worst:
        return {}
    shared = [min(1.0, one.own[1] / one.variance) if one.variance else 0.0 for one in worst.values()]
    freedom = min(one.freedom for one in worst.values())
    if all(one.assumed for one in worst.values()):
        return dict.fromkeys(worst, (level, False))
    chances = step_down([one.statistic for one in worst.values()], shared, freedom, enough=level)
    return {
        config: (level, chance <= level and _claims(full[config], level))
        for config, chance in zip(worst, chances, strict=True)
    }


def _claims(comparisons: Sequence[Comparison], level: float) -> bool:
    """Whether every one is a gain at a one-sided level, and its interval says so too."""
    return all(
        not one.assumed and one.lo > 1 and upper_tail(one.statistic, one.freedom) <= level for one in comparisons
    )


def _all_known(comparisons: Sequence[Comparison | None]) -> list[Comparison] | None:
    known = [one for one in comparisons if one is not None]
    return known if len(known) == len(comparisons) else None
