"""The valid space of a study, and what is not in it and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from search.config import KnobValue, SpecConfig, tree_bound
from search.deployment import Deployment
from search.dialects import Bound, Dialect, Rule
from search.space._choices import FULL_TREE, SpaceChoices

ALIAS: Final = "alias"
TREE_BOUND: Final = "tree-bound"
INVALID: Final = "invalid"


@dataclass(frozen=True, slots=True)
class Locked:
    """A canonical config that is understood but refused here.

    Attributes:
        rules: What refuses it; all of them have to be lifted.
    """

    config: SpecConfig
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A raw point that is no config of its own.

    Attributes:
        point: Written like a config id.
        reason: `alias`, `tree-bound`, `invalid`, or the id of the rule that nothing lifts.
        words: The reason in a sentence.
        rule: The rule, where it is one.
    """

    point: str
    reason: str
    words: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a config is or is not in the space.

    Attributes:
        config: The canonical config that would be launched.
        launchable: In the space, and nothing refuses it.
        rules: What refuses it here.
        unchosen: Choices it lies outside of, one sentence each.
    """

    config: SpecConfig
    launchable: bool
    rules: tuple[Rule, ...] = ()
    unchosen: tuple[str, ...] = ()

    @property
    def legal(self) -> bool:
        """Whether this deployment could launch it, chosen by the study or not."""
        return not self.rules

    @property
    def lines(self) -> tuple[str, ...]:
        """The reasons as sentences; empty for a launchable config."""
        refused = (
            f"{rule.text} [{rule.rule_id}; {rule.source}]" + (f" Unlocked by {rule.unlock}." if rule.locks else "")
            for rule in self.rules
        )
        return (*refused, *self.unchosen)


@dataclass(frozen=True)
class Space:
    """All canonical configs that can be launched, in a fixed order with the baselines first.

    Every raw point is exactly one of `configs`, `locked` and `dropped`.

    Attributes:
        raw: Number of raw points.
        choices: What the study opened; None for the space of a recording.
    """

    configs: tuple[SpecConfig, ...]
    locked: tuple[Locked, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    raw: int = 0
    choices: SpaceChoices | None = None
    deployment: Deployment | None = None
    dialect: Dialect | None = field(default=None, compare=False)
    _by_id: Mapping[str, SpecConfig] = field(init=False, repr=False, compare=False)
    _bound: Bound | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bound = self.dialect.on(self.deployment) if self.dialect and self.deployment else None
        object.__setattr__(self, "_bound", bound)
        object.__setattr__(self, "_by_id", {config.config_id: config for config in self.configs})

    @classmethod
    def recorded(cls, configs: Iterable[SpecConfig]) -> Space:
        """The space of a recording: what was recorded, and nothing else."""
        unique = tuple(sorted({config.config_id: config for config in configs}.values(), key=launch_order))
        return cls(unique, raw=len(unique))

    def including(self, named: Iterable[SpecConfig]) -> Space:
        """This space and those of `named` that are legal here but outside the study's choices.

        A study may name a config that its choices leave out. What no rule allows stays out.
        """
        outside = {
            found.config.config_id: found.config
            for found in map(self.explain, named)
            if found.legal and not found.launchable and self.choices is not None
        }
        configs = tuple(sorted((*self.configs, *outside.values()), key=launch_order))
        return replace(self, configs=configs, raw=self.raw + len(outside))

    @property
    def baselines(self) -> tuple[SpecConfig, ...]:
        """All configs without speculation."""
        return tuple(config for config in self.configs if not config.speculates)

    @property
    def counts(self) -> dict[str, int]:
        """Dropped raw points by reason, the most frequent first."""
        return dict(Counter(point.reason for point in self.dropped).most_common())

    def find(self, config: SpecConfig) -> SpecConfig | None:
        """The launchable config that `config` amounts to, or None."""
        return self._by_id.get(self._canonical(config).config_id)

    def explain(self, config: SpecConfig) -> Explanation:
        """Why a config is, or is not, in this space.

        Raises:
            UnsupportedKnob: The release has no spelling for a knob or value.
        """
        canonical = self._canonical(config)
        if self.find(canonical) is not None:
            return Explanation(canonical, launchable=True)
        rules: tuple[Rule, ...] = ()
        if self._bound is not None:
            rules = self._bound.violations(canonical)
        return Explanation(canonical, launchable=False, rules=rules, unchosen=self._unchosen(canonical, rules))

    def _canonical(self, config: SpecConfig) -> SpecConfig:
        return config if self._bound is None else self._bound.canonical(config)

    def _unchosen(self, config: SpecConfig, rules: tuple[Rule, ...]) -> tuple[str, ...]:
        if self.choices is None:
            return ("It was not recorded.",)
        values = self.choices.values
        found = config.params
        found.setdefault("allreduce_fusion", "off")
        lines = [
            f"`{name}` {value} is not among the study's {_listed(values.get(name, ()))}."
            for name, value in found.items()
            if not _chosen(name, value, config, values.get(name, ()))
        ]
        if not lines and not rules:
            left = ", ".join(f"`{name}`" for name in self.choices.further if name not in found)
            lines = [f"The study opens {left or 'its knobs'} without the default that this config leaves in place."]
        return tuple(lines)


def launch_order(config: SpecConfig) -> tuple[bool, str, int, int, int, str, str]:
    """Sort key of a space: baselines first, then by worker, tree and remaining knobs."""
    return (
        config.speculates,
        config.spec_version.value,
        config.topk or 0,
        config.num_steps or 0,
        config.num_draft_tokens or 0,
        "" if config.allreduce_fusion == "off" else config.allreduce_fusion,
        config.config_id,
    )


def _listed(values: tuple[KnobValue, ...]) -> str:
    return ", ".join(map(str, values)) or "knobs"


def _chosen(name: str, value: KnobValue, config: SpecConfig, values: tuple[KnobValue, ...]) -> bool:
    if name == "num_draft_tokens" and config.topk and config.num_steps:
        full = tree_bound(topk=config.topk, num_steps=config.num_steps)
        # With topk 1 the server sets the number itself.
        return config.topk == 1 or value in values or (value == full and FULL_TREE in values)
    return value in values
