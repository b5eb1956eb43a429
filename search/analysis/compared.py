"""Several studies or recordings beside one another: what is better, worse, the same, and which decision changes.

Two tables of two hosts say nothing of a config's own speed: no scatter that anybody measured covers another host. What
they tell is a config's gain over the baseline that ran beside it, so that is what is compared, and a speed only where one
host ran all. Statistics are those of a study (`search.stats`); the chance of a false difference in one comparison of
tables is that of a false gain in a study, shared among all that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from search.analysis.side import Side, higher_is_better
from search.config import SpecConfig, simplicity
from search.stats.comparison import Comparison
from search.stats.questions import Finding, finding, pooled
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter
from search.stats.standings import Judge
from search.stats.verdicts import LEVEL, WORTH

Word = Literal["better", "worse", "the same", "not separable", "assumed scatter"]
WORDS: Final[Mapping[Finding, Word]] = {
    "supported": "better",
    "refuted": "worse",
    "same": "the same",
    "not separable": "not separable",
    "assumed scatter": "assumed scatter",
}
Kind = Literal["gain", "speed"]
"""Of the config over its own baseline, or its own."""


@dataclass(frozen=True, slots=True)
class Change:
    """One config at one load, in one table against another.

    Attributes:
        kind: What is compared.
        before: Its gain in the first; None of a speed.
        after: Its gain in the second.
        change: Second / first, above 1 where better.
        word: What may be said of it.
    """

    config: SpecConfig
    concurrency: int
    kind: Kind
    before: Comparison | None
    after: Comparison | None
    change: Comparison
    word: Word


@dataclass(frozen=True, slots=True)
class Decision:
    """What one table says to run at a load.

    Attributes:
        config: The winner: shown to gain, else the best baseline; the best as measured where there is none.
        gain: Over the best baseline; None for the baseline itself.
        ahead: The best that is ahead as measured and not shown, with its gain.
        basis: A gain that is shown; the baseline, because none is; or, without a baseline, what was measured as best.
    """

    config: str
    gain: Comparison | None
    ahead: tuple[str, float] | None
    basis: Literal["shown", "baseline", "as measured"]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables.

    Attributes:
        changes: Of what both measured, by load and config.
        only_before: Configs with numbers in the first alone, and why not in the second where that is known.
        only_after: The other way round.
        decisions: By load, of both.
    """

    before: Side
    after: Side
    changes: tuple[Change, ...]
    only_before: Mapping[str, str]
    only_after: Mapping[str, str]
    decisions: Mapping[int, tuple[Decision, Decision]]

    @property
    def changed(self) -> dict[int, tuple[Decision, Decision]]:
        """Loads at which the two say otherwise."""
        return {load: both for load, both in self.decisions.items() if both[0].config != both[1].config}


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where a change came in, over several tables in order.

    Attributes:
        step: Name of the first table that has it; empty where no single step shows it.
        word: Better or worse.
        whole: Last / first.
    """

    config: SpecConfig
    concurrency: int
    kind: Kind
    step: str
    word: Word
    whole: Comparison


@dataclass(frozen=True, slots=True)
class Compared:
    """All tables in order.

    Attributes:
        steps: Each against the one before it.
        whole: The last against the first; the only step where there are two.
        arrivals: Of several, where changes came in.
    """

    sides: tuple[Side, ...]
    steps: tuple[Pair, ...]
    whole: Pair
    arrivals: tuple[Arrival, ...]


def compared(sides: Sequence[Side], *, worth: float = WORTH, level: float = LEVEL) -> Compared:
    """Compare tables in the order given.

    Args:
        sides: At least two. Readings that share slot and prompt set in several ran on one host.
        worth: Smallest change that matters.
        level: Chance of any false change among all that are reported.
    """
    pairs = list(pairwise(sides))
    if len(sides) > 2:
        pairs.append((sides[0], sides[-1]))
    looked_at = sum(len(list(_raw(*pair))) for pair in pairs)
    each = level / max(1, looked_at)
    pairs_compared = [_pair(before, after, each, worth) for before, after in pairs]
    steps, whole = tuple(pairs_compared[: len(sides) - 1]), pairs_compared[-1]
    return Compared(tuple(sides), steps, whole, tuple(_arrivals(steps, whole)) if len(sides) > 2 else ())


def _pair(before: Side, after: Side, level: float, worth: float) -> Pair:
    changes = tuple(
        Change(config, load, kind, *gains, change, WORDS[finding([change], level=level, worth=worth)])
        for config, load, kind, gains, change in _raw(before, after)
    )
    loads = [load for load in before.loads if load in after.loads]
    return Pair(
        before,
        after,
        changes,
        _only(before, after),
        _only(after, before),
        {load: (_decision(before, load), _decision(after, load)) for load in loads},
    )


def _raw(
    before: Side, after: Side
) -> Iterator[tuple[SpecConfig, int, Kind, tuple[Comparison | None, Comparison | None], Comparison]]:
    """Everything that can be compared: gains over the own baseline where both have one, else speeds."""
    for load in before.loads:
        if load not in after.readings:
            continue
        shared = before.readings[load].keys() & after.readings[load].keys()
        for config in sorted(shared, key=simplicity):
            gains = before.gain(config, load), after.gain(config, load)
            if gains[0] is not None and gains[1] is not None:
                yield config, load, "gain", gains, _difference(gains[0], gains[1])
            elif (change := _speed(before, after, config, load)) is not None:
                yield config, load, "speed", (None, None), change


def _difference(before: Comparison, after: Comparison) -> Comparison:
    """The ratio of two gains of two tables: twice the mean of the one and the inverse of the other."""
    half = pooled([after, before.inverse()])
    assert half is not None
    return replace(
        half,
        log_ratio=2 * half.log_ratio,
        variance=4 * half.variance,
        own=(4 * half.own[0], 4 * half.own[1]),
        one_start=4 * half.one_start,
        of_prompts=4 * half.of_prompts,
    )


def _speed(before: Side, after: Side, config: SpecConfig, load: int) -> Comparison | None:
    both: dict[str, Sequence[Reading]] = {}
    for place, side in enumerate((before, after)):
        both |= {f"{place} {name}": readings for name, readings in side.groups(load).items()}
    judge = Judge(pooled_scatter(both), higher_is_better(load))
    return judge.gain(after.readings[load][config], before.readings[load][config])


def _only(one: Side, other: Side) -> dict[str, str]:
    missing = sorted(one.configs - other.configs, key=simplicity)
    return {config.config_id: other.failed.get(config, "") for config in missing}


def _decision(side: Side, load: int) -> Decision:
    verdict = side.verdicts[load]
    if verdict.winner is None:
        groups = side.groups(load)
        return Decision(side.judge(load).best(groups), None, None, "as measured")
    ahead = verdict.ahead[0] if verdict.ahead else None
    return Decision(
        verdict.winner,
        verdict.gain,
        (ahead.config, ahead.gain.ratio) if ahead is not None and ahead.gain is not None else None,
        "shown" if verdict.gain is not None else "baseline",
    )


def _arrivals(steps: Sequence[Pair], whole: Pair) -> Iterator[Arrival]:
    for change in whole.changes:
        key = (change.config, change.concurrency, change.kind)
        path = [(pair, own) for pair in steps for own in pair.changes if (own.config, own.concurrency, own.kind) == key]
        moved = [(pair, own) for pair, own in path if own.word in ("better", "worse")]
        for pair, own in moved:
            yield Arrival(*key, pair.after.name, own.word, change.change)
        if not moved and change.word in ("better", "worse"):
            yield Arrival(*key, "", change.word, change.change)
