"""Where each rule stands in each release: file and line, relative to the wheel's `sglang/` folder.

The eleven wheels were searched for the words of each rule; a line is that of the words, not of the
condition above them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources


@cache
def sources_of(release: str) -> Mapping[str, str]:
    """Rule id to `file:line`; a rule that the release does not have is not in it."""
    text = resources.files("search.dialects").joinpath("sources.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {rule: place for rule, found, place in rows if found == release}
