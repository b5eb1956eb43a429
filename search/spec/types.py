"""The types of a study file's values, with what YAML does to them undone."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from search.config import SpecConfig, check_tree
from search.deployment import Algorithm
from search.errors import SearchError
from search.metrics import METRICS
from search.spec.samplers import SAMPLERS


def _yaml_off(value: Any) -> Any:
    """YAML 1.1 reads a bare `off` as false; the word is meant."""
    return "off" if value is False else value


def _yaml_switch(value: Any) -> Any:
    """The same of `on`."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _yaml_switches(value: Any) -> Any:
    """YAML 1.1 reads bare `on` and `off` as truth values; the words are meant."""
    if not isinstance(value, list | tuple):
        return value
    return tuple({True: "on", False: "off"}[item] if isinstance(item, bool) else item for item in value)


def _decimals_as_text(value: Any) -> Any:
    """A flag's `0.8` is sent as it is written."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(repr(item) if isinstance(item, float) else item for item in value)


def _config_id(value: str) -> str:
    try:
        config = SpecConfig.from_id(value)
    except SearchError as error:
        raise ValueError(str(error)) from error
    if max(config.topk or 0, config.num_steps or 0, (config.num_draft_tokens or 0) // 16) > 256:
        raise ValueError(f"a tree is at most 256 wide and deep and has at most 4096 tokens, but got {value!r}")
    return value


def _drafted(value: str, info: ValidationInfo) -> str:
    """A tree that the algorithm of the study's `model`, read before it, can draft; EAGLE's where that has a mistake."""
    try:
        check_tree(SpecConfig.from_id(value), getattr(info.data.get("model"), "algorithm", ""))
    except SearchError as error:
        raise ValueError(str(error)) from error
    return value


def _flag_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]*", value):
        raise ValueError(f"a server flag is written without its leading dashes, such as `tp-size`, but got {value!r}")
    return value


def _variable_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value, re.ASCII):
        raise ValueError(
            f"an environment variable is named with letters, digits and underscores, not beginning with a digit, but got {value!r}"
        )
    if value.startswith("SPEC_SEARCH_"):
        raise ValueError(
            f"variables named SPEC_SEARCH_… mark the processes of a launch and are set by this tool, but got {value!r}"
        )
    return value


def _one_of(names: Collection[str]) -> AfterValidator:
    """A check against the names of a registry; its error is the one that pydantic has for a `Literal`."""

    def known(value: str) -> str:
        if value not in names:
            *most, last = map(repr, names)
            expected = f"{', '.join(most)} or {last}"
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    return AfterValidator(known)


def _word(value: str) -> str:
    """A word of an argument list or a value in an environment: the system takes no NUL, a log no line break."""
    if any(char in value for char in "\0\n\r"):
        raise ValueError(f"a word holds no NUL and no line break, but got {value!r}")
    return value


def _known_algorithm(value: Any) -> Any:
    """Algorithms that SGLang has and this project does not drive are refused with what is missing."""
    missing = {
        "DSPARK": "a space for its gamma and its confidence tables",
        "UNO": "a LoRA path per launch and its own tree limits",
        "FROZEN_KV_MTP": "Gemma4 assistant drafts (SGLang makes it of EAGLE by itself)",
        "MTP": "nothing: write EAGLE or NEXTN",
    }
    name = str(value).upper()
    if name in missing:
        raise ValueError(f"{name} is not driven by this project; missing: {missing[name]}")
    return value


ConfigId = Annotated[str, BeforeValidator(_yaml_off), AfterValidator(_config_id)]
KnownId = Annotated[ConfigId, AfterValidator(_drafted)]
Fusion = Annotated[str, BeforeValidator(_yaml_off)]
FlagName = Annotated[str, AfterValidator(_flag_name)]
VariableName = Annotated[str, AfterValidator(_variable_name)]
Word = Annotated[str, AfterValidator(_word)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
Concurrency = Annotated[int, Field(ge=1, le=4096)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1, le=2**53)]
Small = Annotated[int, Field(ge=1, le=256)]
"""Of a tree: no release drafts deeper or wider."""
SamplerName = Annotated[str, _one_of(SAMPLERS)]
MetricName = Annotated[str, _one_of(METRICS)]
KnownAlgorithm = Annotated[Algorithm, BeforeValidator(_known_algorithm)]
Wish = Annotated[Literal["auto", "on", "off"], BeforeValidator(_yaml_switch)]
KnobValues = Annotated[tuple[str | int, ...], BeforeValidator(_yaml_switches)]
FlagValues = Annotated[tuple[str | int | bool, ...], BeforeValidator(_decimals_as_text)]
