"""One config written by hand: `topk=2 num_steps=2`, or a config id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from search.config import (
    CORE_KNOBS,
    LONG_NAMES,
    OPTIONAL_KNOBS,
    TREE_KNOBS,
    KnobValue,
    SpecConfig,
    SpecVersion,
    check_tree,
    is_knob_name,
    is_variable,
    knob_value,
    tree_bound,
)
from search.dialects import Dialect
from search.errors import InvalidConfig
from search.space._choices import FULL_TREE

_KNOWN: Final = (*CORE_KNOBS, *OPTIONAL_KNOBS)
_FLAG: Final = "--"
"""Marks a plain server flag: `--chunked-prefill-size=4096`, or alone for a bare one."""
_ID: Final = re.compile(r"(off|v\d+-k)\S*")


def parse_assignments(
    text: str,
    defaults: Mapping[str, KnobValue] | None = None,
    *,
    dialect: Dialect | None = None,
    algorithm: str = "",
) -> SpecConfig:
    """Read `knob=value` pairs, divided by blanks or commas, or one config id.

    What is not said is taken from `defaults`. Left open by both, `num_draft_tokens` is the full
    tree, and `spec_version` is the worker that drafts such a tree: v2 for a chain, v1 for a tree
    unless the dialect's v2 can draft one.

    Args:
        text: As typed.
        defaults: Knobs that the text may leave out.
        dialect: Of the release, for the worker.
        algorithm: What drafts; an EAGLE tree is meant where it is empty.

    Raises:
        InvalidConfig: A knob that is given twice, an unknown knob (the nearest known one is named), a value that is not
            understood, part of the tree, or an impossible tree.
    """
    if _ID.fullmatch(text.strip()):
        return _drafted(SpecConfig.from_id(text.strip()), algorithm)
    pairs = [_pair(word) for word in text.replace(",", " ").split()]
    said = dict(pairs)
    if len(said) < len(pairs):
        twice = next(name for name in said if sum(other == name for other, _ in pairs) > 1)
        values = " and ".join(str(value) for name, value in pairs if name == twice)
        raise InvalidConfig(
            f"Each knob is written once, but `{twice}` is given as {values}. Leave one out, or ask once for each value."
        )
    if said.get("spec_version") == SpecVersion.OFF.value and (tree := [name for name in TREE_KNOBS if name in said]):
        raise InvalidConfig(
            f"`off` has no tree knobs, but got {', '.join(f'`{name}`' for name in tree)}. "
            "Leave them out, or choose `v1` or `v2`."
        )
    params = dict(defaults or {}) | said
    topk, steps = params.get("topk"), params.get("num_steps")
    if "spec_version" not in params:
        v1 = topk != 1 and (dialect is None or (dialect.supports_v1 and not dialect.supports_tree_on_v2))
        params["spec_version"] = (SpecVersion.V1 if v1 else SpecVersion.V2).value
    if params.get("num_draft_tokens", FULL_TREE) == FULL_TREE:
        params.pop("num_draft_tokens", None)
        if isinstance(topk, int) and isinstance(steps, int):
            params["num_draft_tokens"] = tree_bound(topk=topk, num_steps=steps)
    return _drafted(SpecConfig.from_params(params), algorithm)


def _drafted(config: SpecConfig, algorithm: str) -> SpecConfig:
    check_tree(config, algorithm)
    return config


def _pair(word: str) -> tuple[str, KnobValue]:
    name, equals, value = word.partition("=")
    if name.startswith(_FLAG):
        flag = name.removeprefix(_FLAG).replace("-", "_")
        return flag, (int(value) if value.isdecimal() else value) if equals else True
    if not equals or not value:
        raise InvalidConfig(f"A config is written like `topk=2 num_steps=2` or `v1-k2-s2-d7`, but got {word!r}.")
    name = LONG_NAMES.get(name, name)
    if is_variable(name) and is_knob_name(name):
        return name, knob_value(value)
    if name not in _KNOWN:
        near = get_close_matches(name, _KNOWN, n=1, cutoff=0.0)
        raise InvalidConfig(f"`{name}` is not a knob. The nearest one is `{near[0]}`; all: {', '.join(_KNOWN)}.")
    if name not in TREE_KNOBS or (name == "num_draft_tokens" and value == FULL_TREE):
        return name, knob_value(value)
    if not value.isdecimal():
        raise InvalidConfig(f"`{name}` is a whole number, but got {value!r}. Write it in digits.")
    return name, int(value)
