"""SGLang releases: spellings, capabilities, rules, rewrites, log phrases, metadata fields."""

from search.dialects.base import Dialect, LaunchArgs, MetaFields, Phrase, Rule

__all__ = ["Dialect", "LaunchArgs", "MetaFields", "Phrase", "Rule"]
