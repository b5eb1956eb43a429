"""The value everything else is about: one speculation setting, its tree arithmetic and its id."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from search.errors import ImpossibleTree, InvalidConfig

KnobValue: TypeAlias = str | int | bool


class SpecVersion(StrEnum):
    """No speculation, the v1 worker, or the overlapped v2 worker."""

    OFF = "off"
    V1 = "v1"
    V2 = "v2"


TREE_KNOBS = ("topk", "num_steps", "num_draft_tokens")
CORE_KNOBS = ("spec_version", *TREE_KNOBS, "allreduce_fusion")

OPTIONAL_KNOBS: Mapping[str, str] = {
    "adaptive": "adapt",
    "allreduce_transport": "art",
    "attention_backend": "attn",
    "draft_attention_backend": "dattn",
    "overlap": "overlap",
    "page_size": "page",
    "speculative_attention_mode": "smode",
}
"""Optional knobs that a study may open, and the short name each has in a config id.

Any other server flag and environment variables can be opened too, and have no shorter name: a flag is written with
underscores, a variable in capitals."""

_KNOB_NAME = re.compile(r"[a-z][a-z0-9_]*|[A-Z][A-Z0-9_]*")
_KNOB_VALUE = re.compile(r"[^+=\s/]+")

LONG_NAMES: Mapping[str, str] = {"arf": "allreduce_fusion"} | {short: name for name, short in OPTIONAL_KNOBS.items()}
"""The knob of each short name."""

_LONGEST_ID = 255
"""Letters, as databases hold them."""

_ID = re.compile(r"(?:(?P<off>off)|(?P<v>v[12])-k(?P<k>\d+)-s(?P<s>\d+)-d(?P<d>\d+))(?P<rest>(?:\+[^+=\s]+=[^+=\s]+)*)")


UNBOUNDED = frozenset({"NGRAM", "DFLASH"})
"""Algorithms that grow no tree of beams."""


def tree_bound(*, topk: int, num_steps: int) -> int:
    """Largest `num_draft_tokens` a draft tree can fill, root included.

    The first step proposes `topk` nodes, every later one `topk` children for each of `topk`
    beams. SGLang does not check it: past the bound `torch.topk` fails during graph capture
    (sglang 0.5.9 `srt/speculative/eagle_utils.py:27`).
    """
    return 1 + topk + (num_steps - 1) * topk**2


def check_tree(config: SpecConfig, algorithm: str = "") -> None:
    """Refuse a tree of more tokens than its algorithm can draft.

    EAGLE, EAGLE3 and STANDALONE grow the tree of `tree_bound`, topk 1 apart: there SGLang rewrites the draft tokens to
    `num_steps + 1`. NGRAM cannot have too many: it joins what follows each suffix of the text that its trie knows, and
    pads what is left with zeros (sglang 0.5.9 `srt/speculative/cpp_ngram/ngram.cpp:45`). DFLASH drafts one block.

    Raises:
        ImpossibleTree: It does not fit.
    """
    if algorithm in UNBOUNDED or not config.topk or not config.num_steps or config.topk == 1:
        return
    room = tree_bound(topk=config.topk, num_steps=config.num_steps)
    if config.verify_tokens > room:
        raise ImpossibleTree(
            f"`num_draft_tokens <= 1 + topk + (num_steps - 1) * topk**2 = {room}` must hold for topk {config.topk} and "
            f"num_steps {config.num_steps}, but got {config.num_draft_tokens}. Lower `num_draft_tokens`, or raise "
            "`num_steps` or `topk`."
        )


@dataclass(frozen=True, slots=True)
class SpecConfig:
    """One setting of the speculation knobs; what one launch runs.

    Attributes:
        spec_version: `off` has no tree knobs.
        topk: Width of the draft tree, from 1.
        num_steps: Depth of the draft tree, from 1.
        num_draft_tokens: Tokens per verify pass and request, root included.
        allreduce_fusion: `off`, `auto`, or from 0.5.14 a named backend.
        extra: Optional knobs, and server flags and environment variables opened as knobs, that differ
            from the release's default, sorted by name. A value is a part of the config id, which names
            a folder.

    Whether its algorithm can fill the tree is for `check_tree`.

    Raises:
        InvalidConfig: A part of the tree is missing, superfluous, or below its least value.
    """

    spec_version: SpecVersion
    topk: int | None = None
    num_steps: int | None = None
    num_draft_tokens: int | None = None
    allreduce_fusion: str = "off"
    extra: tuple[tuple[str, KnobValue], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec_version", SpecVersion(self.spec_version))
        object.__setattr__(self, "extra", tuple(sorted(self.extra)))
        for name, value in self.extra:
            if not is_knob_name(name) or name in CORE_KNOBS:
                raise InvalidConfig(
                    f"A knob is named like `page_size` or `NCCL_PROTO`, but got {name!r}. Write a flag in lower case with "
                    "underscores, a variable in capitals."
                )
            if not _KNOB_VALUE.fullmatch(str(value)):
                raise InvalidConfig(
                    f"A value of `{name}` has no blanks, slashes, `+` or `=`, because it stands in the config id, "
                    f"but got {value!r}. Set it for every launch under `engine.{'env' if is_variable(name) else 'server_args'}` "
                    "instead."
                )
        given = {name: getattr(self, name) for name in TREE_KNOBS}
        if self.spec_version is SpecVersion.OFF:
            if any(value is not None for value in given.values()):
                raise InvalidConfig(
                    f"`off` has no tree knobs, but got {given}. Leave them out, or choose `v1` or `v2`."
                )
            return
        missing = [f"`{name}`" for name, value in given.items() if value is None]
        if missing:
            raise InvalidConfig(
                "`topk`, `num_steps` and `num_draft_tokens` are given together or not at all, because SGLang "
                f"fails on a part of them; missing: {' and '.join(missing)}. Give all three, or none."
            )
        for name, least in (("topk", 1), ("num_steps", 1), ("num_draft_tokens", 2)):
            if given[name] < least:
                none = (
                    " Not drafting is `off`, or a candidate of `adaptive`, such as `0-1-3`."
                    if name == "num_steps"
                    else ""
                )
                raise InvalidConfig(f"`{name} >= {least}` must hold, but got {given[name]}. Raise `{name}`.{none}")

    @property
    def speculates(self) -> bool:
        """Whether drafts are proposed at all."""
        return self.spec_version is not SpecVersion.OFF

    @property
    def verify_tokens(self) -> int:
        """Tokens per request that one forward pass of the target sees: 1 without speculation."""
        return self.num_draft_tokens or 1

    @property
    def family(self) -> str:
        """`off`, or worker version and shape, such as `v2 chain` or `v1 tree`."""
        if not self.speculates:
            return "off"
        return f"{self.spec_version.value} {'chain' if self.topk == 1 else 'tree'}"

    @property
    def config_id(self) -> str:
        """The readable id, such as `v1-k4-s3-d16+arf=auto`. One per canonical config."""
        head = (
            f"{self.spec_version.value}-k{self.topk}-s{self.num_steps}-d{self.num_draft_tokens}"
            if self.speculates
            else "off"
        )
        knobs = [("arf", self.allreduce_fusion)] if self.allreduce_fusion != "off" else []
        knobs += [(OPTIONAL_KNOBS.get(name, name), str(value)) for name, value in self.extra]
        return head + "".join(f"+{name}={value}" for name, value in knobs)

    def __str__(self) -> str:
        return self.config_id

    @property
    def params(self) -> dict[str, KnobValue]:
        """The knobs under their Optuna parameter names; `off` has no tree knobs."""
        values: dict[str, KnobValue | None] = {name: getattr(self, name) for name in CORE_KNOBS}
        values["spec_version"] = self.spec_version.value
        return {name: value for name, value in (values | dict(self.extra)).items() if value is not None}

    @classmethod
    def from_params(cls, params: Mapping[str, KnobValue | None]) -> SpecConfig:
        """Build from knob names and values; knobs `off` does not have are ignored for it.

        Raises:
            InvalidConfig: A value is not understood, or a part of the tree is missing or below its least value.
        """
        values = {name: value for name, value in params.items() if value is not None}
        try:
            version = SpecVersion(str(values.pop("spec_version", "")))
        except ValueError:
            raise InvalidConfig(
                f"`spec_version` is one of off, v1, v2, but got {params.get('spec_version')!r}."
            ) from None
        tree = {name: _whole(name, values.pop(name)) for name in TREE_KNOBS if name in values}
        fusion = str(values.pop("allreduce_fusion", "off"))
        return cls(
            version,
            **({} if version is SpecVersion.OFF else tree),
            allreduce_fusion=fusion,
            extra=tuple(values.items()),
        )

    @classmethod
    def from_id(cls, config_id: str) -> SpecConfig:
        """Read a config id back.

        Raises:
            InvalidConfig: The text is not a config id, or a number of the tree is below its least value.
        """
        match = _ID.fullmatch(config_id) if len(config_id) <= _LONGEST_ID else None
        if match is None:
            raise InvalidConfig(
                "A config id reads like `off`, `v2-k1-s2-d3` or `v1-k4-s3-d16+arf=auto`, but got "
                f"{config_id[:_LONGEST_ID]!r}."
            )
        knobs: dict[str, KnobValue] = {}
        for part in match["rest"].split("+")[1:]:
            name, _, text = part.partition("=")
            knobs[name if name == "arf" else LONG_NAMES.get(name, name)] = knob_value(text)
        fusion = str(knobs.pop("arf", "off"))
        extra = tuple(knobs.items())
        if match["off"]:
            return cls(SpecVersion.OFF, allreduce_fusion=fusion, extra=extra)
        return cls(
            SpecVersion(match["v"]),
            int(match["k"]),
            int(match["s"]),
            int(match["d"]),
            allreduce_fusion=fusion,
            extra=extra,
        )


def knob_value(text: str) -> KnobValue:
    """A knob's value from how it is written in a config id: a truth value, a whole number, or the text."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"0|[1-9]\d*", text, re.ASCII) else text


def _whole(name: str, value: KnobValue | float) -> int:
    """A tree knob as a whole number; tables and storages may hand over `3.0` or `"3"`."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not number.is_integer():
        raise InvalidConfig(f"`{name}` is a whole number, but got {value!r}. Write it without a fraction.")
    return int(number)


def simplicity(config: SpecConfig) -> tuple[int, int, int, int, str]:
    """Sort key for ties: off before on, fewer draft tokens, fewer steps, fewer extra knobs."""
    knobs = len(config.extra) + (config.allreduce_fusion != "off")
    return (int(config.speculates), config.verify_tokens, config.num_steps or 0, knobs, config.config_id)


def is_knob_name(name: str) -> bool:
    """Whether an optional knob may be called so: in small letters like a flag, or in capitals like a variable."""
    return _KNOB_NAME.fullmatch(name) is not None


def is_variable(name: str) -> bool:
    """Whether a knob is an environment variable: they are written in capitals, and no flag is."""
    return name[:1].isupper()


def flag_name(name: str) -> str:
    """A knob or argument as SGLang's command line spells it, without dashes in front: `page_size` as `page-size`."""
    return name.replace("_", "-")
