"""When a second phase in another engine begins, and what it was worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from search.analysis.findings import Gain, Judgement, LoadWinner, QuestionVerdict
from search.analysis.side import Side, higher_is_better
from search.analysis.words import gain_words
from search.config import SpecConfig
from search.spec.escalation import EscalationSpec
from search.stats.questions import finding
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter
from search.stats.standings import Judge
from search.stats.verdicts import LEVEL

State = Literal["not due", "due", "begun"]
"""`due`: its condition holds and it has no launch. `begun`: it has some."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The second phase at one load: its winner there against the first phase's.

    Attributes:
        before: What the first phase would run.
        after: What the second would run, in its engine.
        gain: Of that, with all that differs; None where they cannot be compared.
        shown: Better, at the level of all loads together.
        engine_alone: What the other engine brings to the baseline that both measured; None without one.
    """

    concurrency: int
    before: SpecConfig
    after: SpecConfig
    gain: Gain | None
    shown: bool
    engine_alone: tuple[SpecConfig, Gain] | None

    @property
    def words(self) -> str:
        """`C=30: `b` there against `a` here +4.1% [+2.0%, +6.2%], shown; `off` alone +0.3% […]`."""
        sentence = f"C={self.concurrency}: `{self.after}` there against `{self.before}` here "
        if self.gain is None:
            return f"{sentence}cannot be compared"
        sentence += f"{gain_words(self.gain)}, {'shown' if self.shown else 'not shown'}"
        if self.engine_alone is not None:
            base, gain = self.engine_alone
            sentence += f"; the other engine by itself brings {gain_words(gain)} (`{base}`)"
        return sentence


@dataclass(frozen=True, slots=True)
class EscalationAnswer:
    """How things stand with a study's second phase.

    Attributes:
        study: Its stored name.
        release: Of its engine.
        why: What its condition asks and how that ended.
        worth: By load; none before it has measured something.
        starts: How many it made.
        unchecked: Configs that are not shown to be lossless, so that nothing of them counts.
        computed: Nothing was measured, so no answers could be compared.
    """

    state: State
    study: str
    release: str
    why: str
    worth: tuple[Worth, ...] = ()
    starts: int = 0
    unchecked: tuple[SpecConfig, ...] = ()
    computed: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """What it says to people in short."""
        if self.state == "not due":
            return (f"Escalation to SGLang {self.release} not begun: {self.why}.",)
        if self.state == "due":
            return (f"Escalation to SGLang {self.release} is due and has not run: {self.why}.",)
        return (f"Escalation to SGLang {self.release} ({self.why}): {self._summary}.", *self._lossless)

    @property
    def details(self) -> tuple[str, ...]:
        """What it was worth at each load, a sentence each."""
        return tuple(f"{one.words}." for one in self.worth)

    @property
    def _summary(self) -> str:
        """The gains that are shown; without any, the best that was measured."""
        compared = [(one, one.gain) for one in self.worth if one.gain is not None]
        if not compared:
            return "what it was worth is not known, for nothing there can be compared yet"
        shown = [(one, gain) for one, gain in compared if one.shown]
        if shown:
            parts = [f"{gain_words(gain)} at C={one.concurrency} with `{one.after}`" for one, gain in shown]
            return f"worth {', '.join(parts)}; see `{self.study}`"
        ahead = [(one, gain) for one, gain in compared if one.after.speculates and gain.value > 1]
        if not ahead:
            return "no gain over the first phase is shown"
        best, gain = max(ahead, key=lambda one: one[1].value)
        return (
            f"no gain over the first phase is shown; the most measured is {gain_words(gain)} at C={best.concurrency} with "
            f"`{best.after}`"
        )

    @property
    def _lossless(self) -> tuple[str, ...]:
        if self.unchecked:
            listed = ", ".join(f"`{config}`" for config in self.unchecked)
            return (f"Not shown to be lossless in the second phase, so it does not count: {listed}.",)
        if self.computed:
            return ("Losslessness, which the second phase requires, could not be checked: nothing was measured.",)
        return ()


def condition(escalation: EscalationSpec, verdicts: Sequence[QuestionVerdict]) -> tuple[bool, str]:
    """Whether the second phase begins, and the words for it."""
    asked, wanted = escalation.when.question, " or ".join(escalation.when.ends)
    verdict = next((one.verdict for one in verdicts if one.name == asked), "not measured")
    if verdict in escalation.when.ends:
        return True, f"question {asked} ended {verdict}"
    return False, f"question {asked} ended {verdict}, and it begins when that ends {wanted}"


def worth_of(first: tuple[Judgement, Side], second: tuple[Judgement, Side]) -> tuple[Worth, ...]:
    """The second phase's winners against the first's, at every load that both decided.

    Args:
        first: Its judgement, and its readings.
        second: Likewise; readings of both that share slot and prompts say that one host ran them.
    """
    before, after = (
        {winner.concurrency: winner for winner in one.winners if not winner.only_expected}
        for one in (first[0], second[0])
    )
    loads = sorted(before.keys() & after.keys())
    level = LEVEL / max(1, len(loads))
    return tuple(_worth(load, before[load], after[load], first[1], second[1], level) for load in loads)


def _worth(load: int, before: LoadWinner, after: LoadWinner, first: Side, second: Side, level: float) -> Worth:
    both: dict[str, Sequence[Reading]] = {}
    for place, side in enumerate((first, second)):
        both |= {f"{place} {name}": readings for name, readings in side.groups(load).items()}
    judge = Judge(pooled_scatter(both), higher_is_better(load))
    mine, theirs = first.readings.get(load, {}), second.readings.get(load, {})
    gain = _gain(judge, theirs, after.config, mine, before.config)
    shown = gain is not None and gain.comparison is not None and finding([gain.comparison], level=level) == "supported"
    bases = [config for config in (before.baseline, after.baseline) if config in mine and config in theirs]
    alone = None
    if bases and after.config.speculates and (of_base := _gain(judge, theirs, bases[0], mine, bases[0])) is not None:
        alone = bases[0], of_base
    return Worth(load, before.config, after.config, gain, shown, alone)


def _gain(
    judge: Judge,
    theirs: Mapping[SpecConfig, Sequence[Reading]],
    after: SpecConfig,
    mine: Mapping[SpecConfig, Sequence[Reading]],
    before: SpecConfig,
) -> Gain | None:
    if after not in theirs or before not in mine:
        return None
    gain = judge.gain(judge.fresh_or_all(theirs[after]), judge.fresh_or_all(mine[before]))
    return None if gain is None else Gain.of(gain)
