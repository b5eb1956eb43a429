"""Verdicts on the study file's questions."""

from __future__ import annotations

from collections.abc import Sequence

from search.analysis.drift import gain_words
from search.analysis.findings import ConfigResult, QuestionVerdict
from search.analysis.winners import TIE, rates_at
from search.config import SpecConfig
from search.outcomes import Outcome
from search.spec.study import QuestionSpec, StudySpec
from search.stats.estimates import Estimate, ratio, separable
from search.storage.records import LaunchRecord


def verdicts(
    spec: StudySpec, results: Sequence[ConfigResult], launches: Sequence[LaunchRecord]
) -> list[QuestionVerdict]:
    """One verdict per question, in the order of the study file."""
    return [_verdict(name, question, results, launches) for name, question in spec.questions.items()]


def _verdict(
    name: str, question: QuestionSpec, results: Sequence[ConfigResult], launches: Sequence[LaunchRecord]
) -> QuestionVerdict:
    """Supported: faster than each at every load. Refuted: slower than one at some load."""
    config = SpecConfig.from_id(question.config)
    told: list[bool | None] = []
    parts: list[str] = []
    missing: dict[str, None] = {}
    for other in map(SpecConfig.from_id, question.against):
        gains: list[str] = []
        for load in sorted(question.at):
            mine, theirs = rates_at(results, config, other, load)
            if mine is None or theirs is None:
                missing |= dict.fromkeys(
                    _why_missing(c, load, launches) for c, r in ((config, mine), (other, theirs)) if r is None
                )
                continue
            faster = _faster(mine, theirs)
            told.append(faster)
            doubt = "" if faster is not None else " (not separable)"
            gains.append(f"{gain_words(ratio(mine, theirs))} at C={load}{doubt}")
        if gains:
            parts.append(f"{config} against {other}: {', '.join(gains)}")
    text = "; ".join(parts)
    if guessed := [
        str(c) for c in (config, *map(SpecConfig.from_id, question.against)) if _guessed(results, c, question.at)
    ]:
        text += f"; extrapolated, not a fact: {', '.join(guessed)}"
    if missing:
        return QuestionVerdict(name, "not measured", "; ".join(filter(None, ("; ".join(missing), text))) + ".")
    verdict = "refuted" if False in told else "not separable" if None in told else "supported"
    return QuestionVerdict(name, verdict, text + ".")


def _guessed(results: Sequence[ConfigResult], config: SpecConfig, loads: Sequence[int]) -> bool:
    """Whether a config's value at one of the loads is a simulator's beyond what it was fitted to."""
    found = next((result for result in results if result.config == config), None)
    return found is not None and any(load in found.loads and found.loads[load].extrapolated for load in loads)


def _faster(mine: Estimate, theirs: Estimate) -> bool | None:
    """Whether mine is faster; None when they cannot be told apart. Without known doubt 1% decides."""
    told = separable(mine, theirs)
    if told is None:
        told = abs(mine.value / theirs.value - 1) > TIE
    return mine.value > theirs.value if told else None


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
