"""What a target's architecture forces: backend and page size that nobody asked for, and what it refuses.

`forced.tsv` is what `verdicts/forced.py` took from the releases' own resolution. An architecture that is not in it is
not guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Literal

from search.dialects._order import at_least

Kind = Literal["refuses-backend", "refuses-algorithm"]
_UNTOLD = "?"


def default_backend(
    architecture: str, major: int, release: str, *, speculates: bool, topk: int | None, page: int | None
) -> str | None:
    """The backend that the release chooses where none is named; None where nothing was recorded.

    Args:
        architecture: Of the target.
        major: Compute capability, major number.
        release: SGLang's.
        speculates: Whether drafts are proposed.
        topk: As the command line gives it; None where it is not sent.
        page: As asked; None where nothing asks.
    """
    value = next((value for kind, value, _ in _rows(release).get((architecture, major), ()) if kind == "backend"), None)
    if value is None:
        return None
    off, unset, chain, tree = value.split(",")
    tree = chain if tree == _UNTOLD else tree  # refused with the backend that a chain gets
    chosen = off if not speculates else unset if topk is None else chain if topk == 1 else tree
    if topk == 1 and page not in (None, 1) and chosen.partition("+")[0] in ("fa3", "trtllm_mha"):
        chosen = tree  # a page size keeps the default from the backend of chains, as a tree does
    return None if chosen == _UNTOLD else chosen


def forced_page(architecture: str, major: int, release: str) -> int | None:
    """The page size that the release sets for a target whatever is asked; None for most."""
    rows = _rows(release).get((architecture, major), ())
    return next((int(value) for kind, value, _ in rows if kind == "page"), None)


def own_page(architecture: str, major: int, release: str, backend: str | None) -> int | None:
    """The page size that a target has with a backend where nothing asks for one; None for most.

    Args:
        architecture: Of the target.
        major: Compute capability's first number.
        release: Of SGLang.
        backend: The resolved one.
    """
    rows = _rows(release).get((architecture, major), ())
    pages = dict(value.split("=") for kind, value, _ in rows if kind == "own-page")
    return int(pages[backend]) if backend in pages else None


def refusals(kind: Kind, architecture: str, major: int, release: str) -> Mapping[str, str]:
    """Backend or algorithm that a release refuses on this target, and its own words with their place.

    Args:
        kind: What is refused.
        architecture: Of the target.
        major: Compute capability's first number.
        release: Of SGLang.
    """
    return {value: words for found, value, words in _rows(release).get((architecture, major), ()) if found == kind}


@cache
def _rows(release: str) -> Mapping[tuple[str, int], tuple[tuple[str, str, str], ...]]:
    found: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
    for architecture, majors, row in _lines(release):
        for major in majors.split():
            found.setdefault((architecture, int(major)), []).append(row)
    return {key: tuple(rows) for key, rows in found.items()}


def _lines(release: str) -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    text = resources.files("search.dialects").joinpath("forced.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            architecture, kind, majors, first, last, value, words = line.split("\t")
            if at_least(release, first) and at_least(last, release):
                yield architecture, majors, (kind, value, words)
