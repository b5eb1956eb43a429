"""The rules of all releases, each with the test that finds it broken.

A text is the server's own where the server raises. Which releases have a rule, and where, is in
`sources.tsv`.
"""

from __future__ import annotations

from collections.abc import Iterator

from search.dialects import _rules_backends, _rules_drafting, _rules_links, _rules_models, _rules_modes
from search.dialects._base import Rule
from search.dialects._rule import Check
from search.dialects._sources import sources_of
from search.dialects._traits import Traits

_TOPICS = (_rules_drafting, _rules_models, _rules_backends, _rules_modes, _rules_links)


def checks_of(traits: Traits) -> tuple[Check, ...]:
    """All rules that one release has, with its own words and places."""
    return tuple(_checks(traits))


def _checks(traits: Traits) -> Iterator[Check]:
    places = sources_of(traits.release)
    for topic in _TOPICS:
        for draft in topic.rules(traits):
            place = places.get(draft.source_of or draft.rule_id)
            if place is not None:
                rule = Rule(draft.rule_id, draft.text, f"sglang {traits.release} {place}", draft.unlock)
                yield Check(rule, draft.broken, draft.of_the_tree, draft.detail)
