"""The table of SGLang's internals that the plugin touches (`internals.json`), and whether this SGLang has them."""

from __future__ import annotations

import inspect
import itertools
import json
import pkgutil
import re
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("internals.json")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*(?:\.post\d+)?")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def installed_release() -> str:
    """The release of the SGLang in this environment; `0.0.0` where it tells none."""
    try:
        return metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return "0.0.0"


def base(release: str) -> str:
    """The release a patched tree was made from: `0.5.16` of `0.5.16+sm120` and `0.5.16.dev3`."""
    match = _NUMBERS.match(release.removeprefix("v"))
    return match[0] if match else release


def releases() -> tuple[str, ...]:
    """Releases with a row, oldest first."""
    return tuple(_table()["releases"])


def profile(release: str) -> dict[str, Any] | None:
    """How one release does what differs between releases; None without a row.

    `config`: where settings are changed; `draft_context`: what the draft's context takes; `relay`: how relay
    buffers are made anew; `cpu_lens`: what the decision about host copies takes; `proven`: algorithms for
    which a GPU run stood beside starts apart.
    """
    found: dict[str, Any] | None = _table()["releases"].get(base(release))
    return found


def wanted(release: str) -> list[dict[str, Any]]:
    """The internals of one release, from the table."""
    order = list(releases())
    place = order.index(base(release))

    def holds(entry: dict[str, Any]) -> bool:
        last = order.index(entry["until"]) if "until" in entry else len(order)
        return order.index(entry["since"]) <= place <= last

    return [entry for entry in _table()["internals"] if holds(entry)]


def missing(release: str, *, loaded_only: bool = False) -> list[str]:
    """What this process's SGLang lacks of them, in words; imports the modules they stand in.

    Attributes of instances cannot be seen before there are instances: `live.LiveServer` looks for those.

    Args:
        release: The release.
        loaded_only: Look into modules that are loaded already. While SGLang starts a process the others must not be
            imported: they look for GPUs, before SGLang has chosen one.
    """
    entries = [entry for entry in wanted(release) if not loaded_only or _module(entry["name"]) in sys.modules]
    return [problem for entry in entries if (problem := _problem(entry))]


def _module(dotted: str) -> str:
    parts = dotted.split(".")[:-1]
    return ".".join(itertools.takewhile(lambda part: part.islower(), parts))


def _problem(entry: dict[str, Any]) -> str:
    if entry["kind"] == "attribute":
        return ""
    try:
        found = pkgutil.resolve_name(entry["name"])
    except (ImportError, AttributeError, ValueError) as error:
        return f"`{entry['name']}` ({type(error).__name__})"
    if entry["kind"] == "class":
        have = {*dir(found), *getattr(found, "__annotations__", ()), *getattr(found, "__struct_fields__", ())}
        lacking = [name for name in entry.get("fields", ()) if name not in have]
        return f"{lacking} of `{entry['name']}`" if lacking else ""
    return misfit(entry, _parameters(found))


def misfit(entry: dict[str, Any], found: dict[str, bool]) -> str:
    """Why a function cannot be called as the table says, from its parameters (name -> whether it has a default)."""
    asked = entry["params"]
    lacking = [name for name in asked if name not in found]
    surplus = [name for name, optional in found.items() if not optional and name not in asked]
    if not lacking and not surplus:
        return ""
    return f"`{entry['name']}({', '.join(asked)})`, found ({', '.join(found)})"


def _parameters(found: Any) -> dict[str, bool]:
    """Name -> whether it can be left out, of a function, a method, a property or a cached property."""
    function = getattr(found, "fget", None) or getattr(found, "func", None) or found
    if inspect.ismethod(function):
        function = function.__func__
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: parameter.default is not parameter.empty or parameter.kind in free
        for name, parameter in inspect.signature(inspect.unwrap(function)).parameters.items()
    }
