"""What drafts reach, what a cycle takes, and what a draft would have to reach to pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from search.analysis.findings import ConfigResult
from search.config import SpecConfig
from search.report.content import ReportContent
from search.stats.estimates import Estimate

Standing: TypeAlias = Literal["pays", "slower", "open", "expected", ""]


@dataclass(frozen=True, slots=True)
class Drafting:
    """One config at one load.

    Attributes:
        accept: Output tokens per verify pass, the bonus token included.
        most: The most that its depth allows: every draft accepted.
        cycle_ms: From one verify pass to the next, of one request; None where its time per token is not known.
        break_even: Accept length at which its rate would equal the best baseline's, its cycle taking as long as it
            did; with the interval of the gain it comes from.
        standing: Whether it pays, by the same contest as the winner of its load: `pays` only where a gain is claimed
            there and this config's own interval shows one.
    """

    config: SpecConfig
    concurrency: int
    accept: Estimate
    most: int
    cycle_ms: float | None
    break_even: Estimate | None
    standing: Standing = ""

    @property
    def out_of_reach(self) -> bool:
        """Whether even a draft that is always right would not pay at this shape and load."""
        return self.break_even is not None and self.break_even.value > self.most


def _standing(content: ReportContent, result: ConfigResult, load: int) -> Standing:
    gain, winner = result.gains.get(load), content.winner(load)
    if gain is None or winner is None:
        return ""
    if gain.band:
        return "expected"
    if gain.separable is not True:
        return "open"
    if gain.value < 1:
        return "slower"
    return "pays" if winner.claimed else "open"


def drafting(content: ReportContent) -> Iterator[Drafting]:
    """Every measured config that speculates at every load with an accept length, best score first.

    A config's rate is its accept length over its cycle, so the accept length that gives the baseline's rate in
    the same cycle is the one that was reached, over the gain.
    """
    for result in content.judgement.results:
        if not result.config.speculates:
            continue
        for load, at in sorted(result.loads.items()):
            if at.accept_length is None:
                continue
            gain = result.gains.get(load)
            pace = at.tpot_ms.value if at.tpot_ms else None
            yield Drafting(
                config=result.config,
                concurrency=load,
                accept=at.accept or Estimate(at.accept_length),
                most=(result.config.num_steps or 0) + 1,
                cycle_ms=None if pace is None else pace * at.accept_length,
                break_even=None
                if gain is None
                else Estimate(
                    at.accept_length / gain.value,
                    None if gain.hi is None else at.accept_length / gain.hi,
                    None if gain.lo is None else at.accept_length / gain.lo,
                ),
                standing=_standing(content, result, load),
            )
