"""What one range of SGLang releases understands, refuses, rewrites and says.

Shared code asks a dialect for a capability, never for a version. Defaults here are the cautious
answer; a knob that a range cannot express raises `UnsupportedKnob`, it is never dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from search.config import SpecConfig
from search.contracts import EffectiveSettings
from search.deployment import Deployment
from search.dialects._setting import Resolved
from search.errors import UnsupportedKnob
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
        files: Flag -> name and text of a file it takes the path of, which is not among `flags`:
            where the file lies is the launch's to say.
    """

    flags: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetaFields:
    """Names of per-request fields in `meta_info` of `/generate`.

    `completion_tokens` and `verify_count` are the portable pair: accept length is their ratio.
    """

    completion_tokens: str = "completion_tokens"
    verify_count: str = "spec_verify_ct"
    accept_histogram: str | None = None
    accepted_drafts: str | None = None
    proposed_drafts: str | None = None


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern that shows a cause.

    Attributes:
        pattern: A regular expression, searched in one line.
        reason: What it means.
        frame: A regular expression that must match somewhere before it in the log (the phase or
            the traceback it stands in); empty for anywhere.
    """

    pattern: str
    reason: Reason
    frame: str = ""


class Bound(Protocol):
    """A dialect on one deployment. Keeps what it worked out, so ask one of these for many configs."""

    def canonical(self, config: SpecConfig) -> SpecConfig:
        """See `Dialect.canonical`."""
        ...

    def violations(self, config: SpecConfig) -> tuple[Rule, ...]:
        """See `Dialect.violations`."""
        ...

    def resolve(self, config: SpecConfig) -> Resolved:
        """The values a server would end up with, those of the tree's numbers apart.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this release.
        """
        ...


class Dialect(ABC):
    """One SGLang release; ranges of releases that behave alike share a module."""

    releases: ClassVar[tuple[str, ...]]
    """The releases this dialect was read from, oldest first."""

    knob_flags: ClassVar[Mapping[str, str]] = {}
    """Optional knob -> flag that takes its value, for knobs spelled as one plain flag."""
    meta_fields: ClassVar[MetaFields] = MetaFields()
    phrases: ClassVar[tuple[Phrase, ...]] = ()
    """What logs of this range say beyond those of every release; tried in order, before the generic ones."""

    @property
    @abstractmethod
    def supports_v1(self) -> bool:
        """Whether EAGLE-like drafts can run the v1 worker."""

    @property
    def v1_by_default(self) -> bool:
        """Whether v1 runs unless the environment asks for v2."""
        return False

    @property
    def fusion_idles(self) -> bool:
        """Whether all-reduce fusion does nothing on a GPU without it, rather than ending the server."""
        return False

    @property
    def adaptive_steps(self) -> tuple[int, ...]:
        """All candidates of the release's own table of adaptive steps; empty without the feature."""
        return ()

    def schedule_file(self, steps: Mapping[int, int]) -> tuple[str, str]:
        """Name and text of the adaptive-steps file that runs so many steps at each load, 0 for no drafting.

        Raises:
            UnsupportedKnob: The release cannot switch by load, or not to no drafting; the text says from when on.
        """
        raise UnsupportedKnob(f"this release cannot run {len(steps)} step counts by load")

    @property
    @abstractmethod
    def supports_tree_on_v2(self) -> bool:
        """Whether the v2 worker drafts trees."""

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """All rules of this release, for `plan` and for checking the ids that patches name."""

    @abstractmethod
    def takes(self, algorithm: str, architecture: str) -> bool:
        """Whether this release drafts for such a target; true for an unknown (empty) architecture.

        The installed source, where there is one, is the better witness: a patched tree may know more.
        """

    @abstractmethod
    def forces_chains(self, deployment: Deployment) -> bool:
        """Whether the target forces what no tree runs on: a page size, or one MTP layer for each step."""

    @abstractmethod
    def default_tree(self, deployment: Deployment) -> tuple[int, int, int]:
        """Topk, steps and draft tokens that the release takes where the command gives none of them."""

    @abstractmethod
    def fuses_unasked(self, deployment: Deployment) -> bool:
        """Whether all-reduce fusion comes by itself on this deployment."""

    @abstractmethod
    def on(self, deployment: Deployment) -> Bound:
        """This dialect on one deployment."""

    def canonical(self, config: SpecConfig, deployment: Deployment) -> SpecConfig:
        """Apply the rewrites the server would do, so that equal launches have one id.

        Idempotent. Explicit defaults equal absent ones; a knob without effect on this
        deployment collapses to its default.

        Raises:
            ImpossibleTree: The algorithm cannot draft so many tokens.
            UnsupportedKnob: A knob or value has no spelling in this release.
        """
        return self.on(deployment).canonical(config)

    def violations(self, config: SpecConfig, deployment: Deployment) -> tuple[Rule, ...]:
        """Rules a canonical config breaks, those lifted by the deployment's patches left out."""
        return self.on(deployment).violations(config)

    @abstractmethod
    def launch_args(self, config: SpecConfig, deployment: Deployment) -> LaunchArgs:
        """Spell a config: always all its tree numbers, and the worker version explicitly.

        Raises:
            UnsupportedKnob: A knob or value has no spelling in this release.
        """

    @abstractmethod
    def server_args(self, deployment: Deployment) -> LaunchArgs:
        """Spell what all launches of a deployment share (model, tp, limits, the study's flags).

        Raises:
            UsageError: The study sets a flag that one of its own fields or a knob sets, or one that
                this release calls otherwise.
        """

    @abstractmethod
    def unknown_flags(self, deployment: Deployment) -> tuple[str, ...]:
        """A sentence for each of the study's flags that the stock parser of this release does not know.

        The installed parser is the better witness: a patched tree may have flags of its own.
        """

    @abstractmethod
    def effective(self, server_info: Mapping[str, Any], asked: SpecConfig) -> EffectiveSettings:
        """Read the config that really runs from the body of `/server_info`.

        `asked` only fills in what the server cannot report (a knob that no field reports).
        Missing or malformed fields never raise: what is not reported is taken from `asked`.
        """
