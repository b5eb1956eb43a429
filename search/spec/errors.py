"""Pydantic's errors in the words of a person who writes a study file: where, what is expected, what was found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Place: TypeAlias = tuple[str | int, ...]
Mistake: TypeAlias = tuple[Place, str]

_NAME_PATTERN: Final = "lower-case letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
_EXPECTED: Final[Mapping[str, str]] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping of keys to values",
    "mapping_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_pattern_mismatch": _NAME_PATTERN,
}
"""Error type to what is expected; those with a bound or choices are worded below."""


def mistakes(errors: Iterable[Mapping[str, Any]], data: Any) -> Iterator[Mistake]:
    """One mistake for each place; alternatives that failed at one place are joined.

    Args:
        errors: As pydantic lists them.
        data: What was read from the file.
    """
    by_place: dict[Place, list[Mapping[str, Any]]] = {}
    for item in errors:
        if item["type"] != "extra_forbidden":  # reported with the nearest key, by who knows the keys
            by_place.setdefault(_place(item, data), []).append(item)
    for place, items in by_place.items():
        # Its items are wrong, and those are reported.
        kept = [item for item in items if not (item["type"] == "too_short" and item["input"])]
        if kept:
            yield place, _sentence(kept)


def _place(item: Mapping[str, Any], data: Any) -> Place:
    """The part of pydantic's place that stands in the file: it adds names of alternatives, and `[key]`."""
    steps: Sequence[str | int] = item["loc"]
    if not steps:  # a rule over several keys: the first that it names
        named = re.search(r"`([a-z_]+(?:\.[a-z_]+)*)`", item["msg"])
        return tuple(named[1].split(".")) if named else ()
    place: list[str | int] = []
    for number, step in enumerate(steps, 1):
        inside = isinstance(data, Mapping) and step in data
        inside = inside or (isinstance(data, list) and isinstance(step, int) and step < len(data))
        if not inside:
            if item["type"] == "missing" and number == len(steps):
                return (*place, step)
            continue  # the name of an alternative
        place.append(step)
        data = data[step]
    return tuple(place)


def _sentence(items: Sequence[Mapping[str, Any]]) -> str:
    own = [item["msg"].removeprefix("Value error, ").rstrip(".") for item in items if item["type"] == "value_error"]
    if own:
        return f"{own[0]}."
    if items[0]["type"] == "missing":
        return "is required, but missing."
    expected = list(dict.fromkeys(_expected(item) for item in items))
    value = items[0]["input"]
    return f"should be {' or '.join(expected)}, but found {found(value)}.{_hint(items, value)}"


def _expected(item: Mapping[str, Any]) -> str:
    context = item.get("ctx", {})
    match item["type"]:
        case "literal_error" | "enum":
            return str(context["expected"])
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "greater_than":
            return f"above {context['gt']}"
        case "less_than_equal":
            return f"at most {context['le']}"
        case "less_than":
            return f"below {context['lt']}"
        case "too_short":
            return f"a list of at least {context['min_length']}"
        case "string_too_short":
            return "some text"
        case "string_too_long":
            return f"at most {context['max_length']} letters long"
    known = _EXPECTED.get(item["type"])
    if known is not None:
        return known
    message = str(item["msg"]).removeprefix("Input should be ")
    return f"{message[:1].lower()}{message[1:]}"


def _hint(items: Sequence[Mapping[str, Any]], value: Any) -> str:
    kinds = {item["type"] for item in items}
    if kinds & {"literal_error", "enum"} and isinstance(value, str):
        choices = [
            choice for item in items for choice in re.findall(r"'([^']*)'", str(item.get("ctx", {}).get("expected")))
        ]
        folded = {choice.casefold(): choice for choice in choices}
        near = difflib.get_close_matches(value.casefold(), folded, n=1)
        return f" Did you mean {folded[near[0]]!r}?" if near else ""
    if "string_type" in kinds and isinstance(value, bool):
        return ' YAML reads on, off, yes and no as truth values: write it in quotes, such as "off".'
    if "string_type" in kinds and isinstance(value, int | float):
        return f' Write it in quotes: "{value}".'
    if kinds & {"tuple_type", "list_type"} and isinstance(value, int | str) and not isinstance(value, bool):
        return f" Write it in brackets: [{value}]."
    if kinds & {"tuple_type", "list_type"} and value is False:
        return ' Write it in brackets: ["off"].'
    if kinds & {"int_type", "float_type"} and isinstance(value, str) and re.fullmatch(r"[\d.]+", value):
        return " Write it without quotes."
    return ""


def found(value: Any) -> str:
    """A value as it was read, with its type; long ones are cut."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"
