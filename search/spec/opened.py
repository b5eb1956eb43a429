"""What a study file opens to the search: values of knobs, flags and variables."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from search.config import OPTIONAL_KNOBS, is_knob_name, is_variable
from search.masking import is_harmless
from search.server.command import OWNED_ARGUMENTS
from search.spec.part import Part
from search.spec.types import FlagName, FlagValues, Fusion, KnobValues, Small, VariableName

MOST_POINTS = 100_000
"""Of a space: some four seconds to list."""


class SpaceSpec(Part):
    """The choices of each knob; what no release could run is left out by itself."""

    spec_version: tuple[Literal["v1", "v2"], ...] = Field(strict=False, min_length=1)
    topk: tuple[Small, ...] = Field(strict=False, min_length=1)
    num_steps: tuple[Small, ...] = Field(strict=False, min_length=1)
    num_draft_tokens: tuple[Annotated[int, Field(ge=2, le=4096)] | Literal["tree"], ...] = Field(
        strict=False, min_length=1
    )
    allreduce_fusion: tuple[Fusion, ...] = Field(("off",), strict=False, min_length=1)
    knobs: dict[str, KnobValues] = Field({}, strict=False)
    flags: dict[FlagName, FlagValues] = Field({}, strict=False)
    env: dict[VariableName, FlagValues] = Field({}, strict=False)

    @model_validator(mode="after")
    def _can_be_listed(self) -> SpaceSpec:
        opened = [*self.knobs.values(), *self.flags.values(), *self.env.values()]
        core = (self.spec_version, self.topk, self.num_steps, self.num_draft_tokens, self.allreduce_fusion)
        points = math.prod(len(choices) for choices in (*core, *opened))
        if points > MOST_POINTS:
            raise ValueError(
                f"`space` must have at most {MOST_POINTS:,} points before its rules drop any, because each is looked at, but "
                f"it has {points:,}; leave out values, or open fewer knobs, flags and variables"
            )
        return self

    @field_validator("flags")
    @classmethod
    def _free_flags(cls, flags: dict[str, Any]) -> dict[str, Any]:
        for name in flags:
            if (why := OWNED_ARGUMENTS.get(name)) is not None:
                raise ValueError(f"`{name}` is set by this program and cannot be opened: {why}; leave it out")
        return flags

    @field_validator("env")
    @classmethod
    def _searched_variables(cls, env: dict[str, Any]) -> dict[str, Any]:
        for name, values in env.items():
            if not (is_variable(name) and is_knob_name(name)):
                raise ValueError(
                    f"a variable that is searched is written in capitals, but got {name!r}; set it under `engine.env`"
                )
            for value in values:
                if not is_harmless(name, str(value)):
                    raise ValueError(
                        f"a variable that is searched stands in ids, tables and scripts with its value, so it must be known "
                        f"to hold no secret, but got `{name}`; set it under `engine.env`"
                    )
        return env

    @field_validator("knobs")
    @classmethod
    def _known_knobs(cls, knobs: dict[str, tuple[str | int, ...]]) -> dict[str, tuple[str | int, ...]]:
        for name in knobs:
            if name not in OPTIONAL_KNOBS:
                raise ValueError(
                    f"an optional knob is one of {', '.join(OPTIONAL_KNOBS)}, but got {name!r}; "
                    "any other server flag is opened under `space.flags`"
                )
        return knobs


def plain_values(values: tuple[str | int | bool, ...]) -> tuple[str | int, ...]:
    """A variable's values; YAML's truth values are 1 and 0 to a program that reads its environment."""
    return tuple(int(value) if isinstance(value, bool) else value for value in values)
