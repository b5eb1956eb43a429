"""The questions of a study file: about named configs, or about the values of a knob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from search.spec.part import Part
from search.spec.types import Concurrency, ConfigId


class QuestionSpec(Part):
    """A named comparison: is `config` better than each of `against` at every load of `at`?"""

    config: ConfigId
    against: tuple[ConfigId, ...] = Field(strict=False, min_length=1)
    at: tuple[Concurrency, ...] = Field(strict=False, min_length=1)

    @property
    def configs(self) -> tuple[str, ...]:
        """Ids that have to be measured for an answer."""
        return (self.config, *self.against)

    @property
    def words(self) -> str:
        """Such as `v1-k2-s2-d7 against off at C=1, 100`."""
        return f"{self.config} against {', '.join(self.against)} at C={', '.join(map(str, self.at))}"


KnobWord: TypeAlias = int | str
"""A value of a knob, as in the space."""


class KnobQuestionSpec(Part):
    """A named comparison of a knob: is the best config with `value` better than the best with each of `against`?"""

    knob: str
    value: KnobWord
    against: tuple[KnobWord, ...] = Field(strict=False, min_length=1)
    at: tuple[Concurrency, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _compares_unlike_values(self) -> KnobQuestionSpec:
        if self.value in self.against:
            raise ValueError(f"`value` must not be among `against`, but {self.value!r} is; leave it out of one of them")
        return self

    @property
    def configs(self) -> tuple[str, ...]:
        """None: whichever configs with those values the study measures."""
        return ()

    @property
    def words(self) -> str:
        """Such as `topk 2 against 1, 4 at C=1, 100`."""
        return (
            f"{self.knob} {self.value} against {', '.join(map(str, self.against))} at C={', '.join(map(str, self.at))}"
        )


def _form_of_question(data: object) -> str:
    named = data if isinstance(data, Mapping) else getattr(data, "__dict__", {})
    return "of-a-knob" if "knob" in named else "of-configs"


AnyQuestion: TypeAlias = Annotated[
    Annotated[QuestionSpec, Tag("of-configs")] | Annotated[KnobQuestionSpec, Tag("of-a-knob")],
    Discriminator(_form_of_question),
]
"""`{config: v2-k1-s2-d3, against: [off], at: [100]}`, or `{knob: topk, value: 2, against: [1, 4], at: [1, 100]}`."""
