"""A rule and its test, before and after it is one release's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from search.dialects._base import Rule
from search.dialects._setting import Setting

Test = Callable[[Setting], bool]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the test that says whether a setting breaks it.

    Attributes:
        detail: What the rule says of one setting beyond its text.
        of_the_tree: Whether the test looks at a tree's numbers beyond topk 1 or more; all other
            tests are asked once for all trees.
    """

    rule: Rule
    broken: Test
    of_the_tree: bool = False
    detail: Callable[[Setting], str] | None = None

    def rule_for(self, setting: Setting) -> Rule:
        """The rule as an error message states it."""
        if self.detail is None:
            return self.rule
        return replace(self.rule, text=f"{self.rule.text} {self.detail(setting)}")


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule before it is one release's.

    Attributes:
        source_of: The rule whose place in the source it shares; empty for its own.
        detail: What it says of one setting beyond its text.
    """

    rule_id: str
    text: str
    broken: Test
    unlock: str = ""
    of_the_tree: bool = False
    source_of: str = ""
    detail: Callable[[Setting], str] | None = None
