"""Winners: the baseline unless something beats it separably, then the simplest that cannot be told from the best.

How the chance of any false gain in a study is kept at 5%:

- **Selection and test are different starts.** What was picked by its luck in the search is tested on starts of its own
  (`Reading.fresh`), so that luck is gone. Where nothing has such starts, all candidates are tested together by the
  closed test of the largest of all their statistics (`search.stats.many.step_down`), which costs power.
- **Picks in the order of the search.** The first gets 80% of the level, the next 80% of what is left; whoever is
  claimed hands its level on (fallback procedure, Wiens 2003, a closed test: Wiens and Dmitrienko 2005). The order is
  told by the search alone, so it may be used. On picks that the search ranks rightly this costs next to nothing, where
  Dunnett's test of three costs a fifth of the power (`benchmarks/coverage`).
- **Objectives first.** They share 80% of the level, other loads the rest; where every pick of a contest is claimed,
  its level goes to the contests that follow (a graphical procedure, Bretz and others 2009).
- **Several baselines**: a gain beats each of them, which needs no correction (intersection and union, Berger 1982).

Nothing is claimed on assumed scatter, nor where the printed interval holds 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.stats.comparison import Comparison, compare, upper_tail
from search.stats.many import step_down
from search.stats.readings import Groups, Reading, only_fresh, usable
from search.stats.scatter import Scatter

LEVEL = 0.04
"""Chance of a false gain that the tests are given. A fifth of the 5% that is promised is kept back for what they do
not know of: tails, configs that scatter unequally, a study that is looked at before its end."""
WORTH = 0.02
"""Smallest gain that matters."""
OBJECTIVES_SHARE = 0.8
"""Of the level, for the objectives; the rest is for other loads."""
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
class Verdict:
    """The answer of one contest.

    Attributes:
        winner: The simplest of what cannot be told from the best that is claimed; the simplest of what cannot be told
            from the best baseline where nothing is. None without a measured baseline.
        reference: The best measured baseline, which gains are over.
        gain: Of the winner over the reference; None where that is the winner itself.
        standings: By gain, best first.
        tied: Others that cannot be told from the best, best first. With nothing claimed: from the winner.
        same: Those of `tied` that are shown to be within `worth` of the winner.
        ahead: Better than the reference as far as measured, and not claimed; best first.
        assumed: Scatter is assumed, so no gain could be claimed.
        spent: Level that this contest had.
    """

    winner: str | None
    reference: str | None
    gain: Comparison | None
    standings: tuple[Standing, ...]
    tied: tuple[str, ...]
    same: tuple[str, ...]
    ahead: tuple[Standing, ...]
    assumed: bool
    spent: float

    @property
    def claimed(self) -> tuple[Standing, ...]:
        """What beats every baseline."""
        return tuple(standing for standing in self.standings if standing.claimed)

    @property
    def hands_on(self) -> bool:
        """Whether everything tested is claimed, so that its level is free for others."""
        tested = [standing for standing in self.standings if standing.tested]
        return bool(tested) and all(standing.claimed for standing in tested)


@dataclass(frozen=True, slots=True)
class Contest:
    """All readings of one metric at one concurrency.

    Attributes:
        objective: Tested before what is not.
        higher_is_better: Of the readings' values.
    """

    readings: Groups
    scatter: Scatter
    objective: bool = True
    higher_is_better: bool = True


def study_winners(
    contests: Mapping[Hashable, Contest],
    baselines: Collection[str],
    simplicity: Callable[[str], Any],
    *,
    level: float = LEVEL,
    worth: float = WORTH,
) -> dict[Hashable, Verdict]:
    """One verdict for each contest; the chance of any false gain in all of them together is at most `level`.

    Args:
        contests: By any key, as a concurrency, in the order in which they get what others hand on.
        baselines: Ids of configs that gains are over.
        simplicity: Sort key of an id; the lesser is preferred.
        level: Of the whole study.
        worth: See `winners`.
    """
    keys = sorted(contests, key=lambda key: not contests[key].objective)
    shares = _shares([contests[key].objective for key in keys], level)
    found: dict[Hashable, Verdict] = {}
    waiting = dict(zip(keys, shares, strict=True))
    while waiting:
        found |= {
            key: winners(
                contests[key].readings,
                baselines,
                contests[key].scatter,
                simplicity,
                level=mine,
                worth=worth,
                higher_is_better=contests[key].higher_is_better,
            )
            for key, mine in waiting.items()
        }
        done = [key for key in waiting if found[key].hands_on]
        free = sum(waiting.pop(key) for key in done)
        if not done or not waiting:
            break
        waiting = {key: mine + free / len(waiting) for key, mine in waiting.items()}
    return {key: found[key] for key in contests}


def winners(
    candidates: Groups,
    baselines: Collection[str],
    scatter: Scatter,
    simplicity: Callable[[str], Any],
    *,
    level: float = LEVEL,
    worth: float = WORTH,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict at one load, with a chance of any false gain of at most `level`.

    Args:
        candidates: Readings by config id, baselines included.
        baselines: See `study_winners`; those without readings are left out.
        scatter: Pooled over these readings.
        simplicity: Sort key of an id; the lesser is preferred.
        level: One-sided, of all gains at this load together.
        worth: Ties closer than this are `same`.
        higher_is_better: Of the readings' values.
    """
    contest = _Contest(scatter, higher_is_better)
    known = {config: kept for config, readings in candidates.items() if (kept := usable(readings))}
    bases = {config: known[config] for config in sorted(baselines, key=simplicity) if config in known}
    if not bases:
        standings = tuple(Standing(config, None) for config in known)
        return Verdict(None, None, None, standings, (), (), (), scatter.assumed, level)
    reference = contest.best(bases)
    standings = contest.standings(known, bases, reference, level)
    claimed = {standing.config: known[standing.config] for standing in standings if standing.claimed}
    among = claimed or bases
    best = contest.best({config: contest.told(among[config]) for config in among})
    near = [config for config in among if config == best or not contest.better(known[best], known[config])]
    winner = min(near, key=simplicity)
    anchor = best if claimed else winner
    ranked = [standing.config for standing in standings]
    tied = [
        config
        for config in [*ranked, *(base for base in bases if base not in ranked)]
        if config != winner
        and (config == anchor or contest.unlike(known[anchor], known[config]) is False)
        and not (claimed and config in bases)
    ]
    mine = contest.told(known[winner])
    return Verdict(
        winner=winner,
        reference=reference,
        gain=contest.gain(mine, bases[reference]) if winner != reference else None,
        standings=tuple(standings),
        tied=tuple(tied),
        same=tuple(c for c in tied if (told := contest.gain(known[c], mine)) is not None and told.same_within(worth)),
        ahead=tuple(s for s in standings if not s.claimed and s.gain is not None and s.gain.ratio > 1),
        assumed=scatter.assumed,
        spent=level,
    )


@dataclass(frozen=True, slots=True)
class _Contest:
    """Comparisons turned so that more is better."""

    scatter: Scatter
    higher_is_better: bool

    @staticmethod
    def told(readings: Sequence[Reading]) -> Sequence[Reading]:
        """Fresh readings where there are some."""
        return only_fresh(readings) or readings

    def gain(self, of: Sequence[Reading], over: Sequence[Reading]) -> Comparison | None:
        told = compare(of, over, self.scatter)
        return told if told is None or self.higher_is_better else told.inverse()

    def best(self, groups: Groups) -> str:
        """The one that no other is ahead of; the first of equals."""
        first, *others = groups
        for config in others:
            told = self.gain(groups[config], groups[first])
            if told is not None and told.log_ratio > 0:
                first = config
        return first

    def unlike(self, one: Sequence[Reading], other: Sequence[Reading]) -> bool | None:
        """Whether two are told apart, on fresh readings where both have some."""
        told = self._like_with_like(one, other)
        return None if told is None else told.separable is True

    def better(self, one: Sequence[Reading], other: Sequence[Reading]) -> bool:
        told = self._like_with_like(one, other)
        return told is not None and told.separable is True and told.log_ratio > 0

    def standings(self, known: Groups, bases: Groups, reference: str, level: float) -> list[Standing]:
        """All but baselines, by gain; with what is claimed."""
        others = {config: readings for config, readings in known.items() if config not in bases}
        gains = {config: self.gain(self.told(readings), bases[reference]) for config, readings in others.items()}
        fresh = [config for config, readings in others.items() if only_fresh(readings)]
        family = fresh or list(others)
        tests = {config: [self.gain(self.told(others[config]), base) for base in bases.values()] for config in family}
        full = {config: told for config, found in tests.items() if (told := _all_known(found))}
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
        told = [self.gain(before, base) for base in bases.values()]
        return min((one.log_ratio for one in told if one is not None), default=float("-inf"))

    def _like_with_like(self, one: Sequence[Reading], other: Sequence[Reading]) -> Comparison | None:
        mine, theirs = only_fresh(one), only_fresh(other)
        told = self.gain(mine, theirs) if mine and theirs else None
        return told or self.gain(one, other)


def _together(full: Mapping[str, Sequence[Comparison]], level: float) -> dict[str, tuple[float, bool]]:
    """All of them by the largest statistic; of several baselines the one that is hardest to beat."""
    worst = {config: min(told, key=lambda one: one.statistic) for config, told in full.items()}
    if not worst:
        return {}
    shared = [min(1.0, one.own[1] / one.variance) if one.variance else 0.0 for one in worst.values()]
    chances = step_down(
        [one.statistic for one in worst.values()], shared, min(one.freedom for one in worst.values())
    )
    return {
        config: (level, chance <= level and _claims(full[config], level))
        for config, chance in zip(worst, chances, strict=True)
    }


def _claims(told: Sequence[Comparison], level: float) -> bool:
    """Whether every one is a gain at a one-sided level, and its interval says so too."""
    return all(
        not one.assumed and one.lo > 1 and upper_tail(one.statistic, one.freedom) <= level for one in told
    )


def _all_known(told: Sequence[Comparison | None]) -> list[Comparison] | None:
    known = [one for one in told if one is not None]
    return known if len(known) == len(told) else None


def _shares(objectives: Sequence[bool], level: float) -> list[float]:
    """Of the level, for each contest."""
    first = sum(objectives)
    later = len(objectives) - first
    of_first = level if not later else OBJECTIVES_SHARE * level
    return [of_first / first if is_first else (level - of_first if first else level) / later for is_first in objectives]
