"""What each knob is worth: the best of each of its values, and pairs of configs that differ in it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log

from search.analysis.arenas import RATE, Arena, Key, key_of
from search.analysis.findings import FOR_A_QUESTION, Contender, Gain, KnobWorth, QuestionVerdict
from search.config import CORE_KNOBS, KnobValue, SpecConfig, is_variable
from search.dialects import UNSET
from search.spec.questions import KnobQuestionSpec
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.questions import BestOfEach, best_of_each, pooled
from search.stats.readings import Groups, usable


def values_of(arena: Arena, knob: str, *, guessed: bool = False) -> dict[KnobValue, list[SpecConfig]]:
    """Configs that were measured with each value of a knob, of those in the contest.

    Args:
        arena: Of one metric and load.
        knob: By its name in `SpecConfig.params`; a variable that a config does not set has the value `unset`.
        guessed: Those that a simulator extrapolates, instead.
    """
    found: dict[KnobValue, list[SpecConfig]] = {}
    for config in arena.extrapolated if guessed else arena.open:
        value = config.params.get(knob, UNSET if is_variable(knob) else None)
        if value is not None and (config.speculates or knob not in _OF_SPECULATION):
            found.setdefault(value, []).append(config)
    return {value: sorted(mine, key=str) for value, mine in found.items()}


_OF_SPECULATION = frozenset(CORE_KNOBS) - {"allreduce_fusion"}


@dataclass(frozen=True, slots=True)
class Rivals:
    """Two values of a knob against each other in one arena."""

    best: BestOfEach
    alone: Comparison | None
    pairs: int


def rivals(arena: Arena, knob: str, mine: Sequence[SpecConfig], theirs: Sequence[SpecConfig]) -> Rivals:
    """The best of each side, and what the knob does at fixed others.

    Args:
        arena: Of one metric and load.
        knob: That the sides differ in.
        mine: Configs with one value.
        theirs: With another.
    """
    best = best_of_each(
        _groups(arena, mine), _groups(arena, theirs), arena.scatter, higher_is_better=arena.judge.higher_is_better
    )
    others = {_without(config, knob): config for config in theirs}
    pairs = [(config, others[rest]) for config in mine if (rest := _without(config, knob)) in others]
    told_apart = [arena.compare(one, other) for one, other in pairs if arena.has_ratio(one, other)]
    known = [gain for gain in told_apart if gain is not None]
    return Rivals(best, pooled(known), len(known))


def knob_table(spec: StudySpec, arenas: Mapping[Key, Arena]) -> Iterator[KnobWorth]:
    """At every load, for every knob with several measured values: the best value against each other one."""
    objectives = [key_of(axis) for axis in spec.axes]
    for key in sorted(arenas, key=lambda key: (objectives.index(key) if key in objectives else len(objectives), key)):
        arena = arenas[key]
        if arena.only_expected or arena.verdict is None or (key[0] == RATE and key[1] not in spec.loads):
            continue
        for knob in dict.fromkeys(name for config in arena.open for name in sorted(config.params)):
            values = values_of(arena, knob)
            if len(values) > 1:
                yield from _rows(arena, knob, values)


def _rows(arena: Arena, knob: str, values: Mapping[KnobValue, Sequence[SpecConfig]]) -> Iterator[KnobWorth]:
    names = sorted(values, key=lambda value: (isinstance(value, str), value))
    best = max(names, key=lambda name: max(_rank(arena, config) for config in values[name]))
    for name in names:
        if name == best:
            continue
        found = rivals(arena, knob, values[best], values[name])
        comparison = found.best
        if comparison.gain is None or comparison.best is None or comparison.other is None:
            continue
        one, other = SpecConfig.from_id(comparison.best), SpecConfig.from_id(comparison.other)
        if not arena.has_ratio(one, other):
            continue
        yield KnobWorth(
            knob=knob,
            concurrency=arena.concurrency,
            value=best,
            other=name,
            best=one,
            other_best=other,
            gain=Gain.of(comparison.gain),
            picked_afresh=comparison.picked_afresh,
            differ_too=tuple(
                sorted(
                    rest
                    for rest in {*one.params, *other.params} - {knob}
                    if one.params.get(rest) != other.params.get(rest)
                )
            ),
            alone=None if found.alone is None else Gain.of(found.alone),
            pairs=found.pairs,
        )


def contenders(
    spec: StudySpec, arenas: Mapping[Key, Arena], verdicts: Sequence[QuestionVerdict]
) -> Iterator[Contender]:
    """Best configs of the values that questions about knobs compare, once each; open ones first.

    A question is open while it is `not separable`, or answered by nothing but assumed scatter: what is refuted at one
    load needs no further start at another, and what only a fit speaks of is not settled by starting it again.
    """
    verdict_of = {one.name: one.verdict for one in verdicts}
    found: dict[SpecConfig, Contender] = {}
    for name, question in spec.questions.items():
        if not isinstance(question, KnobQuestionSpec):
            continue
        asks = verdict_of.get(name) in ("not separable", "assumed scatter")
        for load in question.at:
            arena = arenas.get((RATE, load))
            if arena is None or arena.only_expected:
                continue
            values = values_of(arena, question.knob)
            for other in question.against:
                rival = rivals(arena, question.knob, values.get(question.value, []), values.get(other, [])).best
                settled = rival.gain is None or rival.picked_afresh or rival.gain.separable is True
                for value, best in ((question.value, rival.best), (other, rival.other)):
                    if best is None:
                        continue
                    config = SpecConfig.from_id(best)
                    again = any(reading.fresh for reading in arena.groups[config])
                    one = Contender(
                        config,
                        f"{FOR_A_QUESTION}{name}: the best of {question.knob} {value} at C={load}, on a start after the choice",
                        is_open=asks and not settled and not again,
                    )
                    if config not in found or (one.is_open and not found[config].is_open):
                        found[config] = one
    yield from sorted(found.values(), key=lambda one: not one.is_open)


def _rank(arena: Arena, config: SpecConfig) -> float:
    """Mean logarithm of its readings, more being better: which value is held against the others, and nothing else."""
    logs = [log(one.value) for one in usable(arena.judge.fresh_or_all(arena.groups[config]))]
    if not logs:
        return -inf
    return sum(logs) / len(logs) * (1 if arena.judge.higher_is_better else -1)


def _groups(arena: Arena, configs: Sequence[SpecConfig]) -> Groups:
    return {config.config_id: arena.groups[config] for config in configs}


def _without(config: SpecConfig, knob: str) -> tuple[tuple[str, KnobValue], ...]:
    return tuple(sorted((name, value) for name, value in config.params.items() if name != knob))
