"""What a server must say of itself before its config counts as read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search.config import SpecConfig

_ALWAYS = ("speculative_algorithm",)
_TREE = ("speculative_num_draft_tokens",)


def untold(info: Mapping[str, Any], config: SpecConfig) -> tuple[str, ...]:
    """Fields of `/server_info` that decide which config runs and are not there; empty when all are.

    Without them what was asked stands in, which is not the same as what runs. A server without
    speculation reports its algorithm too, as null. The depth and width of a tree are reported under other names
    by some algorithms, its size by all.
    """
    return tuple(name for name in (*_ALWAYS, *(_TREE if config.speculates else ())) if name not in info)
