"""A second phase of a study in another engine: when it begins, and what differs there."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from search.spec.part import Part
from search.spec.questions import AnyQuestion
from search.spec.types import ConfigId, Name

SUFFIX: Final = ".escalation"
"""After a study's name: its second phase, which every command takes."""

QuestionEnd: TypeAlias = Literal["supported", "refuted", "same", "not separable", "assumed scatter", "not measured"]


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class WhenSpec(Part):
    """Which question of the study has to end how, for the second phase to begin."""

    question: Name
    ends: Annotated[tuple[QuestionEnd, ...], BeforeValidator(_listed)] = Field(
        ("supported",), strict=False, min_length=1
    )


class EscalationSpec(Part):
    """What follows the study when its condition holds, with a fingerprint, launches and a report of its own.

    `engine`, `space` and `budget` name the keys that differ; each replaces the study's own as a whole. `known` and
    `questions` are all of the second phase. Its prompts, lengths, sampling and objectives are the study's, since both
    are compared in the end. A config counts there only once its answers were shown to be its baseline's.
    """

    when: WhenSpec
    engine: dict[str, Any] = Field(min_length=1)
    space: dict[str, Any] = Field(default_factory=dict)
    known: tuple[ConfigId, ...] = Field((), strict=False, max_length=200)
    questions: dict[Name, AnyQuestion] = Field(default_factory=dict)
    budget: dict[str, Any] = Field(default_factory=dict)
    note: str = ""
