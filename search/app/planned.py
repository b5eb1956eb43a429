"""A study before its first launch, as a value: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from search.app.sharing import StartPlan
from search.report.text import duration
from search.space import SpaceSummary
from search.study.stages import StageBudgets


@dataclass(frozen=True, slots=True)
class FirstLaunch:
    """A launch that is planned before any result.

    Attributes:
        expected_s: By the cost model, start and stop included.
    """

    config_id: str
    stage: str
    expected_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A study before its first launch.

    Attributes:
        impossible: Known configs that this study cannot launch, each with its reasons.
        stages: How many launches each stage may use.
        launches: At most, budget and space taken together.
        within: Launches of each stage that the hours have room for.
        expected_s: For all of them, by the cost model named `physics`, within the hours of the budget.
        hours: Of the budget.
        wanted_s: For all launches, were there no limit of hours.
        left_out: What the hours leave no room for, a line each.
        ceiling_s: No start-up may take longer than this.
        slots: Servers side by side.
        calibrated: The cost model was fitted to numbers of this deployment; else its times are a rough guess.
        starts: Which configs may share a server start.
        earlier: What is believed before the first launch, one line for each recording.
        then: What follows in another engine, and when; empty without an `escalation`.
    """

    study: str
    summary: SpaceSummary
    first: tuple[FirstLaunch, ...]
    impossible: tuple[str, ...]
    stages: StageBudgets
    launches: int
    expected_s: float
    physics: str
    ceiling_s: float
    within: StageBudgets
    earlier: tuple[str, ...] = ()
    hours: float = 0.0
    wanted_s: float = 0.0
    left_out: tuple[str, ...] = ()
    slots: int = 1
    calibrated: bool = True
    starts: StartPlan | None = None
    then: str = ""

    @property
    def fits(self) -> int:
        """Launches that the hours have room for."""
        return min(self.within.total, self.launches)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "study": self.study,
            "space": self.summary.to_json(),
            "first": [
                {"config_id": launch.config_id, "stage": launch.stage, "expected_s": round(launch.expected_s)}
                for launch in self.first
            ],
            "impossible": list(self.impossible),
            "stages": asdict(self.stages),
            "launches": self.launches,
            "launches_within_hours": self.fits,
            "expected_hours": round(self.expected_s / 3600, 2),
            "budget_hours": self.hours,
            "left_out": list(self.left_out),
            "physics": self.physics,
            "starts": self.starts.line if self.starts else "",
            "earlier": list(self.earlier),
            **({"then": self.then} if self.then else {}),
        }

    def lines(self, *, listed: bool) -> Iterator[str]:
        """The plan for people: what is done within the budget and what is left out, then the space that it is taken from."""
        text = (
            f"{self.fits} of {self.launches} launches fit into {self.hours:g} hours, about {duration(self.expected_s)}"
            if self.fits < self.launches
            else f"{self.launches} launches at most, about {duration(self.expected_s)} of {self.hours:g} hours"
        )
        yield f"study {self.study}: {text} by the cost model `{self.physics}`"
        if not self.calibrated:
            yield "  it was fitted to nothing of this model and these GPUs: the first launches show how long one takes"
        yield from self.stages.lines(self.within)
        yield from self.stages.shortfalls()
        for line in self.left_out:
            yield f"  left out: {line}"
        if self.left_out and self.wanted_s > self.hours * 3600 * self.slots:
            yield f"  with `--hours {ceil(self.wanted_s / 3600 / self.slots)}` nothing is left out"
        if self.then:
            yield self.then
        yield "first launches, then what the sampler proposes:"
        width = max(len(launch.config_id) for launch in self.first)
        for number, launch in enumerate(self.first, 1):
            yield f"  {number:>4}  {launch.config_id:<{width}}  {launch.stage:<8}  about {duration(launch.expected_s)}"
        for line in self.impossible:
            yield f"  cannot be launched: {line}"
        yield f"  no start may take longer than {duration(self.ceiling_s)}"
        yield from self.earlier
        if self.starts:
            yield self.starts.line
        yield self.summary.render(listed=listed)
