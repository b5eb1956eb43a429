"""A rule and its test, before and after it is one release's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from search.dialects._base import Rule
from search.dialects._setting import Setting

Test = Callable[[Setting], bool]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the test that says whether a setting breaks it.

    Attributes:
        of_the_tree: Whether the test looks at a tree's numbers beyond topk 1 or more; all other
            tests are asked once for all trees.
    """

    rule: Rule
    broken: Test
    of_the_tree: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule before it is one release's.

    Attributes:
        source_of: The rule whose place in the source it shares; empty for its own.
    """

    rule_id: str
    text: str
    broken: Test
    unlock: str = ""
    of_the_tree: bool = False
    source_of: str = ""
