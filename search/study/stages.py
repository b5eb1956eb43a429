"""How the launches of a study are shared out between its stages, before the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from search.analysis.findings import ConfigResult, Judgement
from search.analysis.winners import all_synthetic, recommendable
from search.config import SpecConfig
from search.spec.study import BudgetSpec
from search.storage.records import LaunchRecord, Stage, StudyKind

LADDER: Final = (1, 2, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 4000)
"""Concurrencies of the ladder, as far as the study's highest load; the study's own loads are added."""

_MOST_CONFIRMED = 4
_MOST_LADDERS = 4
_FEWEST = 2
"""A baseline alone confirms nothing and is no ladder."""


@dataclass(frozen=True, slots=True)
class StageBudgets:
    """Server starts each stage may use; together no more than the study's budget.

    Second attempts and what an early end of the search leaves over are not in it.

    Attributes:
        baseline: `off` at every combination of the other knobs, and once on each further slot.
        known: Of the study file, its questions included.
        search: What the sampler proposes, at most.
        confirm: Picks once more, with held-out prompts; the baseline first.
        ladder: The best of each family at many loads.
        closing: The baseline once more on each slot, last of all.
    """

    baseline: int
    known: int
    search: int
    confirm: int = 0
    ladder: int = 0
    closing: int = 0

    @classmethod
    def of(
        cls, budget: BudgetSpec, *, kind: StudyKind, launches: int, baselines: int, known: int, slots: int = 1
    ) -> StageBudgets:
        """Share out `launches`: baselines and known configs first, then a closing baseline for each slot.

        Of what is then left, confirmation and ladder together take no more than half, unless the
        study file asks for it. A recording has no fresh launch to give, so a replay has neither;
        only a measured host can drift.

        Args:
            budget: The study file's.
            kind: Of the study.
            launches: Of the study's whole life.
            baselines: Configs without speculation.
            known: Further configs that the study file names.
            slots: Servers side by side.
        """
        first = min(launches, baselines + slots - 1)
        named = min(launches - first, known)
        free = launches - first - named
        closing = slots if kind == "measured" and budget.closing and free >= slots else 0
        free -= closing
        if kind == "replay":
            return cls(first, named, free)
        confirm = _share(budget.confirm, min(_MOST_CONFIRMED, launches * 15 // 100), free)
        ladder = _share(budget.ladder, min(_MOST_LADDERS, launches // 10), free - confirm)
        return cls(first, named, free - confirm - ladder, confirm, ladder, closing)

    def lines(self) -> Iterator[str]:
        """For people: one line a stage, those without a launch left out."""
        told: tuple[tuple[Stage, int, str], ...] = (
            ("baseline", self.baseline, "what speculation is compared with"),
            ("known", self.known, "named in the study file"),
            (
                "search",
                self.search,
                "at most, as the sampler proposes; `frontier` ends it when no launch is expected to pay",
            ),
            ("confirm", self.confirm, "at most; the picks on fresh launches with held-out prompts"),
            ("ladder", self.ladder, "at most; the best of each family from the lowest load to the highest"),
            ("closing", self.closing, "the baseline once more, to tell a drift of the host"),
        )
        for stage, count, what in told:
            if count:
                yield f"  {stage:<9} {count:>3}  {what}"


def ladder_loads(loads: tuple[int, ...]) -> tuple[int, ...]:
    """The ladder of a study with these loads, ascending: its own, and the usual rungs between the lowest and the highest."""
    return tuple(sorted({*loads, *(rung for rung in LADDER if min(loads) <= rung <= max(loads))}))


def _share(asked: int | None, usual: int, free: int) -> int:
    if asked is not None:
        return min(asked, free)
    share = min(usual, free // 4)
    return share if share >= _FEWEST else 0


Choice: TypeAlias = tuple[SpecConfig, str]
"""What to launch, and why."""

_RIVALS = 2
"""Of those a winner cannot be told from, so many of the fastest are confirmed too."""
_MOST_REPEATS = 3
"""Confirming launches of one config; what they cannot tell apart is a tie for every use."""


def to_confirm(launches: Sequence[LaunchRecord], judgement: Judgement) -> Choice | None:
    """The next config to confirm; None when all is told, or there is nothing to confirm.

    First each once: the best baseline, or nothing could be compared on the held-out prompts; the
    picks; what cannot be told from a winner at an objective; the rest of the front. Then those
    again that confirmation could not tell apart.
    """
    tried = [launch.asked for launch in launches if launch.stage == "confirm"]
    wanted: dict[SpecConfig, str] = {}
    for config, why in _wanted(judgement):
        wanted.setdefault(config, why)
    if len(wanted) < 2:
        return None  # the baseline alone
    fresh = next((config for config in wanted if config not in tried), None)
    if fresh is not None:
        return fresh, wanted[fresh]
    return _undecided(tried, judgement)


def _wanted(judgement: Judgement) -> Iterator[Choice]:
    """What should be confirmed, the most important first; a config that is named twice keeps its first place."""
    if judgement.baselines:
        yield judgement.baselines[0].config, "confirms: what the picks are compared with on held-out prompts"
    for pick in judgement.picks:
        yield pick.result.config, f"confirms: {', '.join(pick.roles)}"
    for winner in judgement.winners:
        for config in winner.tied[:_RIVALS]:
            yield config, f"confirms: cannot be told from {winner.config} at C={winner.concurrency}"
    for result in judgement.front:
        yield result.config, "confirms: on the front"


def _undecided(tried: Sequence[SpecConfig], judgement: Judgement) -> Choice | None:
    """Of the configs that a winner cannot be told from, the one that was confirmed least."""
    done = set(tried)
    for winner in judgement.winners:
        rivals = [config for config in (winner.config, *winner.tied) if config in done]
        if len(rivals) < 2 or winner.config not in rivals:
            continue
        least = min(rivals, key=tried.count)
        if tried.count(least) < _MOST_REPEATS:
            others = ", ".join(str(config) for config in rivals if config != least)
            return least, f"confirms again: not told from {others} at C={winner.concurrency}"
    return None


def to_ladder(launches: Sequence[LaunchRecord], judgement: Judgement) -> Choice | None:
    """The next config to measure at many loads: the best of a family that was not on the ladder; `off` comes first."""
    climbed = {launch.asked.family for launch in launches if launch.stage == "ladder"}
    best = _best_of_families(judgement.results)
    if len(best) < 2:
        return None  # without anything to compare, no load tells more than before
    for family, result in best.items():
        if family not in climbed:
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
