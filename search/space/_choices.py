"""What a study opens, and the raw points that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Final, Literal, TypeAlias

from search.config import (
    CORE_KNOBS,
    OPTIONAL_KNOBS,
    KnobValue,
    SpecVersion,
    is_knob_name,
    is_variable,
    tree_bound,
)
from search.errors import UsageError

DraftTokens: TypeAlias = int | Literal["tree"]
FULL_TREE: Final = "tree"


@dataclass(frozen=True, slots=True)
class RawPoint:
    """One combination of choices, before any rule; may be impossible."""

    spec_version: SpecVersion
    topk: int | None
    num_steps: int | None
    num_draft_tokens: int | None
    allreduce_fusion: str
    extra: tuple[tuple[str, KnobValue], ...]

    @property
    def label(self) -> str:
        """Written like a config id."""
        head = "off"
        if self.spec_version is not SpecVersion.OFF:
            head = f"{self.spec_version.value}-k{self.topk}-s{self.num_steps}-d{self.num_draft_tokens}"
        fusion = "" if self.allreduce_fusion == "off" else f"+arf={self.allreduce_fusion}"
        return head + fusion + "".join(f"+{OPTIONAL_KNOBS.get(name, name)}={value}" for name, value in self.extra)


@dataclass(frozen=True, slots=True)
class SpaceChoices:
    """The values of each knob that a study opens.

    Attributes:
        spec_version: Of `off`, `v1`, `v2`. `off` has only the knobs below the tree.
        num_draft_tokens: Numbers, or `tree` for the full tree of each topk and num_steps.
        optional: Optional knob to its values.
        flags: Any other server flag to its values, such as `chunked-prefill-size`; True sends a
            bare flag, False none.
        env: Environment variable to its values, such as `NCCL_PROTO`; `unset` sets none.

    Raises:
        UsageError: A knob is open without any value, or is not known; a flag that has a knob.
    """

    spec_version: tuple[SpecVersion, ...] = (SpecVersion.OFF, SpecVersion.V1, SpecVersion.V2)
    topk: tuple[int, ...] = (1,)
    num_steps: tuple[int, ...] = (2,)
    num_draft_tokens: tuple[DraftTokens, ...] = (FULL_TREE,)
    allreduce_fusion: tuple[str, ...] = ("off",)
    optional: Mapping[str, tuple[KnobValue, ...]] = field(default_factory=dict)
    flags: Mapping[str, tuple[KnobValue, ...]] = field(default_factory=dict)
    env: Mapping[str, tuple[KnobValue, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec_version", tuple(SpecVersion(version) for version in self.spec_version))
        # Knobs are columns and parameters, so a flag's name is written with underscores here.
        object.__setattr__(self, "flags", {name.replace("-", "_"): values for name, values in self.flags.items()})
        for name, values in self.values.items():
            if not values:
                raise UsageError(f"A knob has at least one value, but `{name}` has none. Name one, or leave it out.")
        for name in self.optional:
            if name not in OPTIONAL_KNOBS:
                raise UsageError(f"Optional knobs are {', '.join(sorted(OPTIONAL_KNOBS))}, but got `{name}`.")
        for name in self.flags:
            if name in OPTIONAL_KNOBS or name in CORE_KNOBS:
                raise UsageError(f"`{name}` is a knob, but stands among the plain server flags. Open it as the knob.")
        for name in self.env:
            if not (is_variable(name) and is_knob_name(name)):
                raise UsageError(
                    f"A variable that is searched is written in capitals, but got `{name}`. Set it under `engine.env`."
                )

    @property
    def values(self) -> dict[str, tuple[KnobValue, ...]]:
        """Every open knob and its values, under the knobs' parameter names."""
        return {
            "spec_version": tuple(version.value for version in self.spec_version),
            "topk": self.topk,
            "num_steps": self.num_steps,
            "num_draft_tokens": self.num_draft_tokens,
            "allreduce_fusion": self.allreduce_fusion,
            **self.further,
        }

    @property
    def further(self) -> dict[str, tuple[KnobValue, ...]]:
        """Optional knobs, flags and variables together."""
        return {**self.optional, **self.flags, **self.env}

    @property
    def raw(self) -> int:
        """Number of raw points."""
        rest = len(self.allreduce_fusion) * prod(len(values) for values in self.further.values())
        trees = len(self.topk) * len(self.num_steps) * len(self.num_draft_tokens)
        return sum(rest if version is SpecVersion.OFF else rest * trees for version in self.spec_version)

    def points(self) -> Iterator[RawPoint]:
        """All raw points, in the order of the choices."""
        further = self.further
        rests = [
            (fusion, tuple(sorted(zip(further, values, strict=True))))
            for fusion in self.allreduce_fusion
            for values in product(*further.values())
        ]
        for version in self.spec_version:
            if version is SpecVersion.OFF:
                for fusion, extra in rests:
                    yield RawPoint(version, None, None, None, fusion, extra)
                continue
            for topk, steps, asked in product(self.topk, self.num_steps, self.num_draft_tokens):
                tokens = tree_bound(topk=topk, num_steps=steps) if asked == FULL_TREE else int(asked)
                for fusion, extra in rests:
                    yield RawPoint(version, topk, steps, tokens, fusion, extra)
