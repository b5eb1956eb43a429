"""SGLang releases: spellings, capabilities, rules, rewrites, log phrases, metadata fields."""

from search.dialects._releases import for_release, known_releases
from search.dialects.base import Dialect, LaunchArgs, MetaFields, Phrase, Rule

__all__ = ["Dialect", "LaunchArgs", "MetaFields", "Phrase", "Rule", "for_release", "known_releases"]
