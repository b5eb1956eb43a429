"""Counts of what studies said, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, stdev

from benchmarks.coverage.whole.claims import Claims
from benchmarks.coverage.whole.files import Studies
from benchmarks.coverage.whole.worlds import ROWS, Row, World

HEAD = (
    "| study | starts, repeats | true gain | studies | any false gain | of them at objectives | found | its error | drift "
    "| question | starts | pooled df | baseline starts (least), picks started twice |"
)
_OBJECTIVES = (1, 100)


@dataclass(frozen=True, slots=True)
class Count:
    """How many of `of` studies said something."""

    count: int
    of: int

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.count / self.of

    @property
    def error(self) -> float:
        """Binomial standard error of the share; of one study more that said it where none or all did."""
        inner = min(max(self.count, 1), self.of - 1) / self.of if self.of > 1 else 0.5
        return math.sqrt(inner * (1 - inner) / self.of)

    def __str__(self) -> str:
        return f"{self.count}, {self.share:.1%} ± {self.error:.1%}"


@dataclass(frozen=True, slots=True)
class Counted:
    """One row of the table.

    Attributes:
        any_gain: A gain was claimed that is none.
        at_objectives: At a load of an objective.
        found: The better config was claimed; None where none is better.
        winners_error: Mean error of its claimed gain, relative, with the standard error of the mean.
        drift: The host was said to have drifted.
        question: A question was answered, of equal configs.
    """

    kind: str
    world: World
    any_gain: Count
    at_objectives: Count
    found: Count | None
    winners_error: tuple[float, float] | None
    drift: Count
    question: Count
    starts: float
    hours: float
    freedom: float
    least_freedom: float
    baseline_starts: int
    picks: float

    @classmethod
    def of(cls, row: Row, studies: Sequence[Claims]) -> Counted:
        """Count the studies of a row; at least one."""

        def count(values: Collection[bool]) -> Count:
            return Count(sum(values), len(values))

        errors = [one.error for one in studies if one.error is not None]
        spread = stdev(errors) / math.sqrt(len(errors)) if len(errors) > 1 else math.nan
        return cls(
            kind=row.kind,
            world=row.world,
            any_gain=count([one.any_gain for one in studies]),
            at_objectives=count([any(load in _OBJECTIVES for load in one.false_gains) for one in studies]),
            found=count([one.found for one in studies]) if row.world.gain else None,
            winners_error=(fmean(errors), spread) if errors else None,
            drift=count([one.drift for one in studies]),
            question=count([one.verdict for one in studies]),
            starts=median(one.launches for one in studies),
            hours=median(one.hours for one in studies),
            freedom=median(one.freedom for one in studies),
            least_freedom=min(one.freedom for one in studies),
            baseline_starts=min(one.baseline_starts for one in studies),
            picks=median(one.picks for one in studies),
        )

    def line(self) -> str:
        """Of the table."""
        error = "-" if self.winners_error is None else "{:+.2%} ± {:.2%}".format(*self.winners_error)
        cells = (
            self.kind,
            f"{self.world.between:.0%}, {self.world.within:.0%}",
            f"{self.world.gain:.0%}",
            f"{self.any_gain.of}",
            f"{self.any_gain}",
            f"{self.at_objectives.count}",
            "-" if self.found is None else f"{self.found}",
            error,
            f"{self.drift}",
            f"{self.question}",
            f"{self.starts:g} ({self.hours:.1f} h)",
            f"{self.freedom:.1f} (least {self.least_freedom:.1f})",
            f"{self.baseline_starts}, {self.picks:g}",
        )
        return f"| {' | '.join(cells)} |"

    def as_json(self) -> dict[str, object]:
        """Of `benchmarks/results/coverage.json`; shares and their standard errors beside the counts."""
        cells = asdict(self)
        for name in ("any_gain", "at_objectives", "found", "drift", "question"):
            one: Count | None = getattr(self, name)
            cells[name] = None if one is None else asdict(one) | {"share": one.share, "error": one.error}
        return {"group": "whole", "name": self.kind} | cells


def counted(studies: Studies) -> list[Counted]:
    """All rows that have a study, in the order of the table."""
    return [Counted.of(row, list(studies[row].values())) for row in ROWS if studies.get(row)]


def lines(studies: Studies) -> Iterator[str]:
    """The table in Markdown."""
    yield HEAD
    yield f"|{'---|' * (HEAD.count('|') - 1)}"
    yield from (one.line() for one in counted(studies))
