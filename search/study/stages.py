"""How the launches of a study are shared out between its stages, before the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from search.storage import Stage, StudyKind
from search.study.spec import BudgetSpec

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
