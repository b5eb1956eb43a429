"""Winners: the baseline unless something beats it separably, then the simplest that cannot be distinguished from the best.

How the chance of any false gain in a study is kept at 5%:

- **Selection and test are different starts.** What was picked by its luck in the search is tested on starts of its own
  (`Reading.fresh`), so that luck is gone. Where nothing has such starts, all candidates are tested together by the
  closed test of the largest of all their statistics (`search.stats.many.step_down`), which costs power.
- **Picks in the order of the search.** The first gets 80% of the level, the next 80% of what is left; whoever is
  claimed hands its level on (fallback procedure, Wiens 2003, a closed test: Wiens and Dmitrienko 2005). The order is
  set by the search alone, so it may be used. On picks that the search ranks rightly this costs next to nothing, where
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

from search.stats.comparison import Comparison
from search.stats.readings import Groups, usable
from search.stats.scatter import Scatter
from search.stats.standings import Judge, Standing

LEVEL = 0.04
"""Chance of a false gain that the tests are given. A fifth of the 5% that is promised is kept back for what they do
not know of: tails, configs that scatter unequally, a study that is looked at before its end."""
WORTH = 0.02
"""Smallest gain that matters."""
OBJECTIVES_SHARE = 0.8
"""Of the level, for the objectives; the rest is for other loads."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one contest.

    Attributes:
        winner: The simplest of what cannot be distinguished from the best that is claimed; the simplest of what cannot be distinguished
            from the best baseline where nothing is. None without a measured baseline.
        reference: The best measured baseline, which gains are over.
        gain: Of the winner over the reference; None where that is the winner itself.
        standings: By gain, best first.
        tied: Others that cannot be distinguished from the best, best first. With nothing claimed: from the winner.
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
    judge = Judge(scatter, higher_is_better)
    known = {config: kept for config, readings in candidates.items() if (kept := usable(readings))}
    bases = {config: known[config] for config in sorted(baselines, key=simplicity) if config in known}
    if not bases:
        unknown = tuple(Standing(config, None) for config in known)
        return Verdict(None, None, None, unknown, (), (), (), scatter.assumed, level)
    reference = judge.best(bases)
    standings = judge.standings(known, bases, reference, level)
    claimed = {standing.config: known[standing.config] for standing in standings if standing.claimed}
    among = claimed or bases
    best = judge.best({config: judge.fresh_or_all(among[config]) for config in among})
    near = [config for config in among if config == best or not judge.better(known[best], known[config])]
    winner = min(near, key=simplicity)
    anchor = best if claimed else winner
    ranked = [standing.config for standing in standings]
    tied = [
        config
        for config in [*ranked, *(base for base in bases if base not in ranked)]
        if config != winner
        and (config == anchor or judge.unlike(known[anchor], known[config]) is False)
        and not (claimed and config in bases)
    ]
    mine = judge.fresh_or_all(known[winner])
    return Verdict(
        winner=winner,
        reference=reference,
        gain=judge.gain(mine, bases[reference]) if winner != reference else None,
        standings=tuple(standings),
        tied=tuple(tied),
        same=tuple(c for c in tied if (versus := judge.gain(known[c], mine)) is not None and versus.same_within(worth)),
        ahead=tuple(s for s in standings if not s.claimed and s.gain is not None and s.gain.ratio > 1),
        assumed=scatter.assumed,
        spent=level,
    )


def _shares(objectives: Sequence[bool], level: float) -> list[float]:
    """Of the level, for each contest."""
    first = sum(objectives)
    later = len(objectives) - first
    of_first = level if not later else OBJECTIVES_SHARE * level
    return [of_first / first if is_first else (level - of_first if first else level) / later for is_first in objectives]
