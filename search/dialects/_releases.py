"""Which dialect speaks for which SGLang release."""

from __future__ import annotations

import re
from typing import Final

from search.dialects.base import Dialect
from search.dialects.spec_v1_default import SpecV1Default
from search.dialects.spec_v2_default import SpecV2Default
from search.errors import UnknownRelease

_DIALECTS: Final[tuple[type[Dialect], ...]] = (SpecV1Default, SpecV2Default)
"""Oldest first."""

_PUBLIC = re.compile(r"v?(?P<base>\d+(?:\.\d+)+(?:\.post\d+|(?:a|b|rc)\d+)?)(?:\.dev\d*)?(?:\+[\w.]+)?", re.ASCII)


def known_releases() -> tuple[str, ...]:
    """All releases with a dialect, oldest first."""
    return tuple(release for dialect in _DIALECTS for release in dialect.releases)


def for_release(release: str) -> Dialect:
    """The dialect of a release.

    A patched tree keeps the version it was made from: `0.5.9+sm120` and `0.5.9.dev3` speak like `0.5.9`.

    Raises:
        UnknownRelease: No dialect was read from exactly this release, however near a known one is.
    """
    match = _PUBLIC.fullmatch(release.strip())
    known = known_releases()
    if match is None:
        raise UnknownRelease(
            f"A SGLang release reads like `{known[-1]}` or `{known[0]}+patched`, but got {release!r}. "
            f"Known releases: {', '.join(known)}."
        )
    for dialect in _DIALECTS:
        if match["base"] in dialect.releases:
            return dialect()
    raise UnknownRelease(
        f"SGLang {release} is {_place(match['base'])}, and flags change between releases. "
        f"Known releases: {', '.join(known)}. Name the one that the installation behaves like, "
        "or use an installation of one of them."
    )


def _place(base: str) -> str:
    known = known_releases()
    if _order(base) > _order(known[-1]):
        return f"newer than the newest known one, {known[-1]}"
    if _order(base) < _order(known[0]):
        return f"older than the oldest known one, {known[0]}"
    return "between known ones"


def _order(base: str) -> tuple[int, ...]:
    public, pre, _ = re.split(r"(a|b|rc|\Z)", base, maxsplit=1)
    numbers = tuple(int(part) for part in re.findall(r"\d+", public))
    return (*numbers, -1) if pre else (*numbers, 0)
