"""SGLang releases: spellings, capabilities, rules, rewrites, log phrases, metadata fields."""

from search.dialects._base import Bound, Dialect, LaunchArgs, MetaFields, Phrase, Rule
from search.dialects._releases import NewerRelease, for_release, is_newer, known_releases, known_rule_ids
from search.dialects._setting import Backends, Resolved
from search.dialects._targets import BUILT_IN_MTP

__all__ = [
    "BUILT_IN_MTP",
    "Backends",
    "Bound",
    "Dialect",
    "LaunchArgs",
    "MetaFields",
    "NewerRelease",
    "Phrase",
    "Resolved",
    "Rule",
    "for_release",
    "is_newer",
    "known_releases",
    "known_rule_ids",
]
