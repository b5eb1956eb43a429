"""What each release can load: its registered model classes, and which of them only draft, for which algorithm.

`classes.tsv` is what `verdicts/classes.py` read from the wheels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from search.dialects._order import at_least

HOOKED: Final = ("EAGLE3", "DFLASH")
"""Algorithms whose draft reads hidden states that the target's class must hand over."""


@dataclass(frozen=True, slots=True)
class _Span:
    kind: str
    first: str
    last: str


@cache
def _spans() -> Mapping[str, tuple[_Span, ...]]:
    text = resources.files("search.dialects").joinpath("classes.tsv").read_text(encoding="utf-8")
    found: dict[str, list[_Span]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, *rest = line.split("\t")
            found.setdefault(name, []).append(_Span(*rest))
    return {name: tuple(spans) for name, spans in found.items()}


def draft_algorithm(name: str) -> str:
    """The algorithm that a class drafts for; empty for a target's class and for one that no release has."""
    kinds = (span.kind for span in _spans().get(name, ()))
    return next((kind.removeprefix("draft:") for kind in kinds if kind.startswith("draft:")), "")


def is_registered(name: str) -> bool:
    """Whether any release that was read has the class."""
    return bool(_registered(name))


def loads(name: str, release: str) -> bool:
    """Whether one release has the class."""
    return any(_within(span, release) for span in _registered(name))


def releases_with(name: str) -> str:
    """The releases that have a class, such as `0.5.12 and later` or `0.5.9 to 0.5.15.post1`; empty for none."""
    return " and ".join(
        f"SGLang {span.first} and later" if span.last == newest() else f"SGLang {span.first} to {span.last}"
        for span in _registered(name)
    )


def _registered(name: str) -> list[_Span]:
    return [span for span in _spans().get(name, ()) if span.kind == "target" or span.kind.startswith("draft:")]


def has_hook(algorithm: str, architecture: str, release: str) -> bool:
    """Whether a target's class hands `algorithm` the hidden states its draft reads."""
    spans = _spans().get(architecture, ())
    return any(span.kind == f"hook:{algorithm}" and _within(span, release) for span in spans)


def own_draft_class(architecture: str, release: str) -> str:
    """The class that reads a target's own MTP layers in one release; empty where there is none."""
    spans = _spans().get(architecture, ())
    return next(
        (span.kind.removeprefix("mtp:") for span in spans if span.kind.startswith("mtp:") and _within(span, release)),
        "",
    )


@cache
def newest() -> str:
    """The newest release that was read."""
    from search.dialects._order import order

    return max((span.last for spans in _spans().values() for span in spans), key=order)


def _within(span: _Span, release: str) -> bool:
    return at_least(release, span.first) and (at_least(span.last, release) or span.last == newest())
