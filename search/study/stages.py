"""How the launches of a study are shared out between its stages, before the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from search.spec.study import BudgetSpec
from search.storage.records import LaunchRecord, Stage, StudyKind

_NEAR, _NEAR_ABOVE = 1.25, 10

LADDER: Final = (1, 2, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 4000)
"""Concurrencies of the ladder, as far as the study's highest load; the study's own loads are added."""

BASELINE_STARTS = 3
"""Of the best baseline, its first and its closing one included, at least."""
PICK_STARTS = 2
"""Of its own for every pick, at least: one alone does not show how far starts differ."""
MOST_PICKS = 3
"""Picks that are started again where the study file does not ask for more."""
FREEDOM = 7
"""Pooled degrees of freedom between starts that a study should end with (issue 12); each config started twice adds one."""
QUESTION_STARTS = 2
"""Kept for configs that open questions about knobs compare, one of each side; a third pick gives way to them."""
MOST_LADDERS = 4
"""Families that climb the ladder."""
_FEWEST_CONFIRMED = PICK_STARTS + 1
"""One pick twice, and the baseline beside it."""


@dataclass(frozen=True, slots=True)
class StageBudgets:
    """Server starts each stage may use; together no more than the study's budget.

    Second attempts and what an early end of the search leaves over are not in it.

    Attributes:
        baseline: `off` at every combination of the other knobs, and once on each further slot.
        known: Of the study file, its questions included.
        search: What the sampler proposes, at most.
        confirm: The best baseline and the picks again, with held-out prompts; the first of each family there is its
            ladder, too.
        ladder: Starts of their own for families of which nothing is confirmed.
        closing: The baseline once more on each slot, last of all.
        wanted: Confirmations that a study of this kind should have; fewer are had where launches are short.
    """

    baseline: int
    known: int
    search: int
    confirm: int = 0
    ladder: int = 0
    closing: int = 0
    wanted: int = 0

    @classmethod
    def of(
        cls,
        budget: BudgetSpec,
        *,
        kind: StudyKind,
        launches: int,
        baselines: int,
        known: int,
        slots: int = 1,
        restarts: bool = False,
    ) -> StageBudgets:
        """Share out `launches`: baselines and known configs first, then a closing baseline for each slot.

        Of what is then left, confirmation takes no more than half, unless the study file asks for it; `ladder`
        only what the file asks for, since confirmed starts climb it. A recording has fresh starts to give only
        where several were recorded, and no ladder; only a measured host can drift.

        Args:
            budget: The study file's.
            kind: Of the study.
            launches: Of the study's whole life.
            baselines: Configs without speculation.
            known: Further configs that the study file names.
            slots: Servers side by side.
            restarts: A replayed recording holds several starts of some config.
        """
        first = min(launches, baselines + slots - 1)
        named = min(launches - first, known)
        free = launches - first - named
        closing = slots if kind == "measured" and budget.closing and free >= slots else 0
        free -= closing
        if kind == "replay" and not restarts:
            return cls(first, named, free)
        wanted = BASELINE_STARTS - 1 - min(closing, 1) + min(baselines - 1, 1) + MOST_PICKS * PICK_STARTS
        if budget.confirm is not None:
            wanted, confirm = budget.confirm, min(budget.confirm, free)
        else:
            confirm = min(wanted, free // 2)
            confirm = confirm if confirm >= _FEWEST_CONFIRMED else 0
        ladder = 0 if kind == "replay" else min(budget.ladder or 0, free - confirm)
        return cls(first, named, free - confirm - ladder, confirm, ladder, closing, wanted)

    def shortfalls(self) -> Iterator[str]:
        """What these launches cannot give, one line each for people."""
        if self.confirm < self.wanted:
            yield (
                f"too few launches to start every pick again: {self.confirm} of {self.wanted} confirmations are left, so "
                "intervals between starts may rest on assumed scatter and carry no claim; raise `--launches`"
            )

    @property
    def total(self) -> int:
        """Of all stages."""
        return self.baseline + self.known + self.search + self.confirm + self.ladder + self.closing

    def lines(self, within: StageBudgets) -> Iterator[str]:
        """For people: one line a stage, those without a launch left out.

        Args:
            within: What the hours have room for.
        """
        rows: tuple[tuple[Stage, int, str], ...] = (
            ("baseline", self.baseline, "what speculation is compared with"),
            ("known", self.known, "named in the study file"),
            (
                "search",
                self.search,
                "as the sampler proposes; `frontier` and `traffic` end it when no launch is expected to pay",
            ),
            (
                "confirm",
                self.confirm,
                "the best baselines, up to three picks twice each, what open questions compare; with the ladder",
            ),
            ("ladder", self.ladder, "the best of each family that nothing was confirmed of, at many loads"),
            ("closing", self.closing, "the baseline once more, to tell a drift of the host"),
        )
        for stage, count, what in rows:
            if count:
                fits = getattr(within, stage)
                room = str(count) if fits >= count else f"{fits} of {count}"
                yield f"  {stage:<9} {room:>8}  {what}"


def ladder_loads(loads: tuple[int, ...]) -> tuple[int, ...]:
    """The ladder of a study with these loads, ascending: its own, and the usual rungs between the lowest and the highest.

    Usual rungs within a quarter of a load of the study above ten are left out: they would show little more than it.
    """
    usual = [rung for rung in LADDER if min(loads) <= rung <= max(loads)]
    near = {
        rung
        for rung in usual
        for load in loads
        if load > _NEAR_ABOVE and 1 < max(rung, load) / min(rung, load) <= _NEAR
    }
    return tuple(sorted({*loads, *usual} - (near - {*loads})))


def climbed_families(launches: Sequence[LaunchRecord], loads: tuple[int, ...]) -> set[str]:
    """Families of which a ladder or a confirmation measured, or is to measure, a rung that is no load of the study.

    A ladder that has no rung but the study's own loads is climbed by any confirmation.
    """
    rungs = set(ladder_loads(loads)) - set(loads)
    return {
        launch.asked.family
        for launch in launches
        if launch.stage == "ladder"
        or (
            launch.stage == "confirm"
            and (launch.outcome is None or not rungs or any(phase.concurrency in rungs for phase in launch.phases))
        )
    }
