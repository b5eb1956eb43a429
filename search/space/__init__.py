"""The finite space of a study: enumeration, what is locked or dropped and why, and its plan."""

from search.space._assignments import parse_assignments
from search.space._choices import FULL_TREE, DraftTokens, SpaceChoices
from search.space._enumerate import check_patches, enumerate_space
from search.space._space import Dropped, Explanation, Locked, Space, launch_order
from search.space._summary import LockedConfig, RuleCount, SpaceSummary

__all__ = [
    "FULL_TREE",
    "DraftTokens",
    "Dropped",
    "Explanation",
    "Locked",
    "LockedConfig",
    "RuleCount",
    "Space",
    "SpaceChoices",
    "SpaceSummary",
    "check_patches",
    "enumerate_space",
    "launch_order",
    "parse_assignments",
]
