"""Which dialect speaks for which SGLang release."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Final

from search.dialects._base import Dialect
from search.dialects._order import order
from search.dialects.resolved_late import Sglang0520, Sglang0521, Sglang0522, Sglang0523
from search.dialects.spec_v1_default import Sglang0509, Sglang0510, Sglang0510Post1
from search.dialects.spec_v2_default import Sglang0511, Sglang0512, Sglang0512Post1
from search.dialects.spec_v2_only import (
    Sglang0513,
    Sglang0513Post1,
    Sglang0514,
    Sglang0515,
    Sglang0515Post1,
    Sglang0516,
    Sglang0517,
    Sglang0518,
    Sglang0519,
)
from search.errors import UnknownRelease

_DIALECTS: Final[tuple[type[Dialect], ...]] = (
    Sglang0509,
    Sglang0510,
    Sglang0510Post1,
    Sglang0511,
    Sglang0512,
    Sglang0512Post1,
    Sglang0513,
    Sglang0513Post1,
    Sglang0514,
    Sglang0515,
    Sglang0515Post1,
    Sglang0516,
    Sglang0517,
    Sglang0518,
    Sglang0519,
    Sglang0520,
    Sglang0521,
    Sglang0522,
    Sglang0523,
)
"""Oldest first."""

_PUBLIC = re.compile(r"v?(?P<base>\d+(?:\.\d+)+(?:\.post\d+|(?:a|b|rc)\d+)?)(?:\.dev\d*)?(?:\+[\w.]+)?", re.ASCII)


class NewerRelease(UserWarning):
    """A release newer than any that was read speaks the newest dialect, which may be wrong for it."""


def known_releases() -> tuple[str, ...]:
    """All releases with a dialect, oldest first."""
    return tuple(release for dialect in _DIALECTS for release in dialect.releases)


@cache
def known_rule_ids() -> frozenset[str]:
    """Ids of the rules of all releases: a patch that lifts one has its meaning, if only for another release."""
    return frozenset(rule.rule_id for dialect in _DIALECTS for rule in _speaker(dialect).rules())


@cache
def _speaker(dialect: type[Dialect]) -> Dialect:
    """The one instance: what it works out of its traits, it works out once."""
    return dialect()


def is_newer(release: str) -> bool:
    """Whether a release is newer than any that was read."""
    match = _PUBLIC.fullmatch(release.strip())
    return match is not None and order(match["base"]) > order(known_releases()[-1])


def for_release(release: str) -> Dialect:
    """The dialect of a release.

    A patched tree keeps the version it was made from: `0.5.9+sm120` and `0.5.9.dev3` speak like
    `0.5.9`. One newer than the newest known speaks like that one, with a `NewerRelease` warning.

    Raises:
        UnknownRelease: It is older than the known ones, or lies between two of them.
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
            return _speaker(dialect)
    if is_newer(release):
        warnings.warn(
            f"SGLang {release} is newer than the newest release that was read, {known[-1]}, and is spoken to like that "
            "one. Flags and rules may have changed since.",
            NewerRelease,
            stacklevel=2,
        )
        return _speaker(_DIALECTS[-1])
    raise UnknownRelease(
        f"SGLang {release} is {_place(match['base'])}, and flags change between releases. "
        f"Known releases: {', '.join(known)}. Name the one that the installation behaves like, "
        "or use an installation of one of them."
    )


def _place(base: str) -> str:
    known = known_releases()
    return f"older than the oldest known one, {known[0]}" if order(base) < order(known[0]) else "between known ones"
