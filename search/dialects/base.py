"""What one range of SGLang releases understands, refuses, rewrites and says.

Shared code asks a dialect for a capability, never for a version. Defaults here are the cautious
answer; a knob that a range cannot express raises `UnsupportedKnob`, it is never dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from search.config import SpecConfig
from search.contracts import EffectiveSettings
from search.deployment import Deployment
from search.outcomes import Reason


@dataclass(frozen=True, slots=True)
class Rule:
    """Why a release or GPU refuses a config.

    Attributes:
        rule_id: Stable id, such as `v2-topk1-only`; patches lift rules by it.
        text: The rule in words; where the server raises, its own words.
        source: Release and file, or issue, that the rule was read from.
        unlock: What would lift it; empty when nothing can (the point is dropped, not locked).
    """

    rule_id: str
    text: str
    source: str
    unlock: str = ""

    @property
    def locks(self) -> bool:
        """Whether another release, GPU or patch would make the config legal."""
        return bool(self.unlock)


@dataclass(frozen=True, slots=True)
class LaunchArgs:
    """The words of one config on the command line.

    Attributes:
        flags: Arguments, one word each.
        env: Variables to set; None unsets an inherited one.
    """

    flags: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetaFields:
    """Names of per-request fields in `meta_info` of `/generate`.

    `completion_tokens` and `verify_count` are the portable pair: accept length is their ratio.
    """

    completion_tokens: str = "completion_tokens"
    verify_count: str = "spec_verify_ct"
    accept_histogram: str | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern that tells a cause.

    Attributes:
        pattern: A regular expression, searched in one line.
        reason: What it means.
        frame: A regular expression that must match somewhere before it in the log (the phase or
            the traceback it stands in); empty for anywhere.
    """

    pattern: str
    reason: Reason
    frame: str = ""


class Dialect(ABC):
    """One range of SGLang releases that behave alike."""

    releases: ClassVar[tuple[str, ...]]
    """The releases this dialect was read from, oldest first."""

    supports_tree_on_v2: ClassVar[bool] = False
    supports_v1: ClassVar[bool] = True
    knob_flags: ClassVar[Mapping[str, str]] = {}
    """Optional knob -> flag that takes its value, for knobs spelled as one plain flag."""
    meta_fields: ClassVar[MetaFields] = MetaFields()
    phrases: ClassVar[tuple[Phrase, ...]] = ()
    """Tried in order; earlier ones are more specific."""

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """All rules of this range, for `plan` and for checking the ids that patches name."""

    @abstractmethod
    def canonical(self, config: SpecConfig, deployment: Deployment) -> SpecConfig:
        """Apply the rewrites the server would do, so that equal launches have one id.

        Idempotent. Explicit defaults equal absent ones; a knob without effect on this
        deployment collapses to its default.
        """

    @abstractmethod
    def violations(self, config: SpecConfig, deployment: Deployment) -> tuple[Rule, ...]:
        """Rules a canonical config breaks, those lifted by the deployment's patches left out."""

    @abstractmethod
    def launch_args(self, config: SpecConfig, deployment: Deployment) -> LaunchArgs:
        """Spell a config: always all three tree numbers, and the worker version explicitly.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this range.
        """

    @abstractmethod
    def server_args(self, deployment: Deployment) -> LaunchArgs:
        """Spell what all launches of a deployment share (model, tp, limits, the study's flags)."""

    @abstractmethod
    def effective(self, server_info: Mapping[str, Any], asked: SpecConfig) -> EffectiveSettings:
        """Read the config that really runs from the body of `/server_info`.

        `asked` only fills in what the server cannot tell (a knob that no field reports).
        Missing or malformed fields never raise: what is not told is taken from `asked`.
        """
