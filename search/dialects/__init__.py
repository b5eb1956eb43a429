"""SGLang releases: spellings, capabilities, rules, rewrites, log phrases, metadata fields."""

from search.dialects._base import Bound, Dialect, LaunchArgs, MetaFields, Phrase, Rule
from search.dialects._classes import draft_algorithm, is_registered, loads, own_draft_class, releases_with
from search.dialects._flags import flag_names
from search.dialects._releases import NewerRelease, for_release, is_newer, known_releases, known_rule_ids
from search.dialects._rules_models import MULTI_LAYER as ONE_LAYER_A_STEP
from search.dialects._setting import Backends, Resolved
from search.dialects._targets import BUILT_IN_MTP
from search.dialects._variables import UNSET, simulating

__all__ = [
    "BUILT_IN_MTP",
    "ONE_LAYER_A_STEP",
    "UNSET",
    "Backends",
    "Bound",
    "Dialect",
    "LaunchArgs",
    "MetaFields",
    "NewerRelease",
    "Phrase",
    "Resolved",
    "Rule",
    "draft_algorithm",
    "flag_names",
    "for_release",
    "is_newer",
    "is_registered",
    "known_releases",
    "known_rule_ids",
    "loads",
    "own_draft_class",
    "releases_with",
    "simulating",
]
