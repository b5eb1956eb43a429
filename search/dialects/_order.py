"""Releases in order."""

from __future__ import annotations

import re


def order(release: str) -> tuple[int, ...]:
    """Sort key of a public release: `0.5.10.post1` comes after `0.5.10` and before `0.5.11`."""
    public, pre, _ = re.split(r"(a|b|rc|\Z)", release, maxsplit=1)
    numbers = tuple(int(part) for part in re.findall(r"\d+", public))
    return (*numbers, -1) if pre else (*numbers, 0)


def at_least(release: str, least: str) -> bool:
    """Whether `release` is `least` or newer."""
    return order(release) >= order(least)
