"""What is served, on what, by which release, and how people serve what was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from search.deployment import ArgValue
from search.server.command import OWNED_ARGUMENTS
from search.spec.part import Part
from search.spec.types import Count, FlagName, KnownAlgorithm, Positive, VariableName, Wish, Word


class ModelSpec(Part):
    """The target, its draft and how the draft speculates."""

    target: str = Field(min_length=1)
    draft: str = ""
    algorithm: KnownAlgorithm
    architecture: str = ""
    tp: Count = 1
    trust_remote_code: bool = False

    @model_validator(mode="after")
    def _has_its_draft(self) -> ModelSpec:
        if self.algorithm == "NGRAM" and self.draft:
            raise ValueError(f"NGRAM drafts from the text itself, without a model, but `draft` is {self.draft!r}")
        if self.algorithm in ("EAGLE3", "STANDALONE", "DFLASH") and not self.draft:
            own = (
                ", or write `algorithm: EAGLE` to draft with the target's own MTP layers"
                if self.algorithm == "EAGLE3"
                else ""
            )
            raise ValueError(f"{self.algorithm} needs a draft model: name its path or id as `draft`{own}")
        return self


class HardwareSpec(Part):
    """The GPUs a study is meant for; a real run checks them against the host."""

    gpus: Count
    kind: str
    sm: int = Field(ge=70, le=200)
    memory_gib: Positive
    links: Literal["pcie", "nvlink"]


class PatchSpec(Part):
    """A named change to the installed SGLang and the rules it lifts."""

    name: str
    lifts: tuple[str, ...] = Field(strict=False)
    note: str = ""


class EngineSpec(Part):
    """The SGLang that is launched.

    `shared_starts` is whether one start may measure several shapes: `auto` where release and draft are proven to switch
    them, `on` also where that was only checked against the release's code, `off` never.
    """

    release: str
    python: str = ""
    prefix: tuple[Word, ...] = Field((), strict=False)
    env: dict[VariableName, Word] = Field(default_factory=dict)
    server_args: dict[FlagName, Any] = Field(default_factory=dict)
    patches: tuple[PatchSpec, ...] = Field((), strict=False)
    max_running_requests: Count = 256
    boot_ceiling_minutes: Positive = 60
    stall_minutes: Positive = 10
    shared_starts: Wish = "auto"

    def over(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment that SGLang runs in, given the one it inherits."""
        return {**inherited, **self.env}

    @field_validator("server_args")
    @classmethod
    def _plain_values(cls, args: dict[str, Any]) -> dict[str, Any]:
        for name, value in args.items():
            if (why := OWNED_ARGUMENTS.get(name)) is not None:
                raise ValueError(f"`{name}` is set by this program and cannot be given here: {why}; leave it out")
            words = value if isinstance(value, list) else [value]
            if not words or not all(isinstance(word, str | int | float | bool) for word in words):
                raise ValueError(f"`{name}` takes a word, a number, true, or a list of them, but got {value!r}")
        return args


class ServingSpec(Part):
    """How what was found is served: what launch scripts say in place of what measuring needs.

    Nothing in it changes a measurement, so it may change at any time. `host` is left to SGLang where it is empty, which
    takes loopback. `prefix_cache` is off while measuring, where hits would flatter repeats. `server_args` and `env` are
    added to those of `engine`; `false` takes a switch out.
    """

    host: Word = ""
    port: Annotated[int, Field(ge=1, le=65535)] = 30000
    prefix_cache: bool = True
    max_running_requests: Count | None = None
    env: dict[VariableName, Word] = Field(default_factory=dict)
    server_args: dict[FlagName, Any] = Field(default_factory=dict)

    @field_validator("server_args")
    @classmethod
    def _plain_values(cls, args: dict[str, Any]) -> dict[str, Any]:
        for name, value in args.items():
            if name in _SERVING_FIELDS:
                raise ValueError(f"`{name}` is set by `serving.{_SERVING_FIELDS[name]}`; write it there")
            words = value if isinstance(value, list) else [value]
            if not words or not all(isinstance(word, str | int | float | bool) for word in words):
                raise ValueError(f"`{name}` takes a word, a number, true, or a list of them, but got {value!r}")
        return args


_SERVING_FIELDS = {
    "host": "host",
    "port": "port",
    "disable-radix-cache": "prefix_cache",
    "max-running-requests": "max_running_requests",
}


def flag_values(args: Mapping[str, Any]) -> dict[str, ArgValue]:
    """Server arguments of a study file as a deployment holds them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in args.items()}
