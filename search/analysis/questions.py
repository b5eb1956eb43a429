"""Verdicts on the study file's questions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from search.analysis.arenas import RATE, Arena, Key
from search.analysis.findings import Gain, QuestionVerdict
from search.analysis.knobs import rivals, values_of
from search.analysis.words import gain_words, settled_by
from search.config import SpecConfig
from search.outcomes import Outcome
from search.spec.questions import KnobQuestionSpec, QuestionSpec
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.questions import finding
from search.stats.verdicts import LEVEL
from search.storage.records import LaunchRecord

_NO_PART = "it takes part in no comparison"


@dataclass(frozen=True, slots=True)
class _Compared:
    """One comparison of a question.

    Attributes:
        gain: None where a side was not measured.
        missing: Why not.
        guessed: Configs of it that a fit only extrapolates to.
    """

    gain: Comparison | None
    words: str = ""
    missing: tuple[str, ...] = ()
    guessed: tuple[SpecConfig, ...] = ()


def verdicts(
    spec: StudySpec,
    arenas: Mapping[Key, Arena],
    launches: Sequence[LaunchRecord],
    lossy: Collection[SpecConfig] = (),
) -> list[QuestionVerdict]:
    """One verdict per question, in the order of the study file; false ones of all of them together at most 4%.

    Args:
        spec: Its questions.
        arenas: With their verdicts.
        launches: Of the study.
        lossy: Configs whose answers are not the baseline's: how fast they are answers no question.
    """
    level = LEVEL / max(1, len(spec.questions))
    found = []
    for name, question in spec.questions.items():
        answer = (
            _of_knobs(question, arenas, lossy)
            if isinstance(question, KnobQuestionSpec)
            else _of_configs(question, arenas, launches, lossy)
        )
        parts = [(subject, list(ones)) for subject, ones in answer]
        every = [one for _, ones in parts for one in ones]
        verdict = finding([one.gain for one in every], level=level, worth=spec.worth)
        guessed = list(dict.fromkeys(config for one in every for config in one.guessed))
        missing = dict.fromkeys(reason for one in every for reason in one.missing)
        missing |= dict.fromkeys([_to_decide(spec, guessed)] if guessed else [])
        said = [
            f"{subject}: {', '.join(words)}"
            for subject, ones in parts
            if (words := [one.words for one in ones if one.words])
        ]
        found.append(QuestionVerdict(name, verdict, "; ".join((*missing, *said)) + "."))
    return found


def _of_configs(
    question: QuestionSpec,
    arenas: Mapping[Key, Arena],
    launches: Sequence[LaunchRecord],
    lossy: Collection[SpecConfig],
) -> Iterator[tuple[str, Iterator[_Compared]]]:
    config = SpecConfig.from_id(question.config)
    for other in map(SpecConfig.from_id, question.against):
        yield (
            f"{config} against {other}",
            (_pair(arenas.get((RATE, load)), load, (config, other), launches, lossy) for load in sorted(question.at)),
        )


def _pair(
    arena: Arena | None,
    load: int,
    pair: tuple[SpecConfig, SpecConfig],
    launches: Sequence[LaunchRecord],
    lossy: Collection[SpecConfig],
) -> _Compared:
    config, other = pair
    if barred := [one for one in pair if one in lossy]:
        return _Compared(None, missing=tuple(f"the answers of {one} are lossy: {_NO_PART}" for one in barred))
    missing = [one for one in (config, other) if arena is None or one not in arena.groups]
    if arena is None or missing:
        return _Compared(None, missing=tuple(_why_missing(one, load, launches) for one in missing))
    guessed = [one for one in (config, other) if one in arena.extrapolated]
    gain = arena.gain(config, other)
    if guessed and gain is not None:
        return _Compared(None, f"the model expects {gain_words(gain)} at C={load}", guessed=tuple(guessed))
    comparison = arena.compare(config, other)
    if comparison is None:
        return _Compared(None, missing=(f"{config} and {other} have no number to compare at C={load}",))
    return _Compared(comparison, _at(Gain.of(comparison), load))


def _of_knobs(
    question: KnobQuestionSpec, arenas: Mapping[Key, Arena], lossy: Collection[SpecConfig]
) -> Iterator[tuple[str, Iterator[_Compared]]]:
    for other in question.against:
        yield (
            f"best of {question.knob} {question.value} against best of {question.knob} {other}",
            (_values(question, other, arenas.get((RATE, load)), load, lossy) for load in sorted(question.at)),
        )


def _values(
    question: KnobQuestionSpec, other: int | str, arena: Arena | None, load: int, lossy: Collection[SpecConfig]
) -> _Compared:
    if arena is not None and (guess := _guessed(question, other, arena)) is not None:
        return guess
    values = {} if arena is None or arena.only_expected else values_of(arena, question.knob)
    missing = tuple(value for value in (question.value, other) if value not in values)
    if arena is None or missing:
        return _Compared(
            None, missing=tuple(_why_no_config(question.knob, value, arena, load, lossy) for value in missing)
        )
    found = rivals(arena, question.knob, values[question.value], values[other])
    comparison = found.best
    if comparison.gain is None or comparison.best is None or comparison.other is None:
        return _Compared(None, missing=(f"nothing can be compared at C={load}",))
    words = f"{_at(Gain.of(comparison.gain), load)} ({comparison.best} and {comparison.other}"
    words += ", started again after the choice)" if comparison.picked_afresh else ")"
    if found.alone is not None:
        pairs = f"{found.pairs} pair{'' if found.pairs == 1 else 's'}"
        words += f", {gain_words(Gain.of(found.alone))} at fixed other knobs ({pairs})"
    return _Compared(comparison.gain, words)


def _why_no_config(knob: str, value: int | str, arena: Arena | None, load: int, lossy: Collection[SpecConfig]) -> str:
    """Nothing with a value of a knob takes part at a load; those that were measured there are named."""
    there = [config for config in lossy if arena is not None and config in arena.groups]
    barred = sorted(str(config) for config in there if config.params.get(knob) == value)
    if not barred:
        return f"no config with {knob} {value} was measured at C={load}"
    return f"what was measured with {knob} {value} at C={load} ({', '.join(barred)}) has lossy answers: {_NO_PART}"


def _guessed(question: KnobQuestionSpec, other: int | str, arena: Arena) -> _Compared | None:
    """What the fit expects where it thinks the best of a value to be a config that it only extrapolates to.

    None where the bests of both values rest on data, and where nothing is fitted.
    """
    expects, load = arena.expects, arena.concurrency
    if expects is None:
        return None
    fitted = {} if arena.only_expected else values_of(arena, question.knob)
    far = values_of(arena, question.knob, guessed=True)
    sides = [[*fitted.get(value, ()), *far.get(value, ())] for value in (question.value, other)]
    if not all(sides):
        return None
    best = [max(side, key=lambda config: expects.rate(config, load).value) for side in sides]
    guessed = [one for one in best if one in arena.extrapolated]
    gain = arena.gain(*best)
    if not guessed or gain is None:
        return None
    words = f"the model expects {gain_words(gain)} at C={load} ({best[0]} and {best[1]})"
    return _Compared(None, words, guessed=tuple(guessed))


def _to_decide(spec: StudySpec, guessed: Sequence[SpecConfig]) -> str:
    """What was not measured, and the launches that would decide it."""
    command = f"`python -m search try --study {spec.study} {guessed[0]}`"
    if len(guessed) == 1:
        return f"{guessed[0]} was not measured, only extrapolated; {command} would decide it"
    return (
        f"{', '.join(map(str, guessed[:-1]))} and {guessed[-1]} were not measured, only extrapolated; a launch of each, "
        f"as {command}, would decide it"
    )


def _at(gain: Gain, load: int) -> str:
    text = f"{gain_words(gain)} at C={load}"
    if gain.separable is False:
        settled = settled_by(gain)
        text += f" (not separable{f'; {settled}' if settled else ''})"
    return text


def _why_missing(config: SpecConfig, load: int, launches: Sequence[LaunchRecord]) -> str:
    last = next((launch for launch in reversed(launches) if launch.asked == config), None)
    if last is None:
        return f"{config} was not launched"
    if last.config != config:
        return f"{config} was asked for, but {last.config} ran"
    if last.outcome is Outcome.GATED and last.evidence is not None:
        return f"{config} was ended early: {last.evidence.root_line}"
    if last.reason is not None:
        return f"{config} ended as {last.outcome} ({last.reason})"
    return f"{config} has no phase at C={load}"
