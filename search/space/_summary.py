"""The plan of a space as data and as plain text: what is left, what was dropped or locked, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from search.dialects import Rule
from search.space._space import ALIAS, INVALID, TREE_BOUND, Space

_WORDS = {
    ALIAS: "Rewritten by the server into another config of the space.",
    TREE_BOUND: "More draft tokens than `1 + topk + (num_steps - 1) * topk**2`; the server would die in graph capture.",
    INVALID: "No config at all.",
}


@dataclass(frozen=True, slots=True)
class RuleCount:
    """How many points one rule or reason takes out.

    Attributes:
        unlock: What would lift it; empty for what is dropped.
        examples: The first points, written like config ids.
    """

    rule_id: str
    count: int
    words: str
    source: str = ""
    unlock: str = ""
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockedConfig:
    """A locked config's id and the ids of all rules that lock it."""

    config_id: str
    rule_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpaceSummary:
    """A space in numbers. `raw` is `launchable`, `locked` and all counts of `dropped` together.

    Attributes:
        baselines: Ids of the launchable configs without speculation; part of `launchable`.
        aliases: Raw points that the server would rewrite into another.
        locked_by: Rules that lock; a config locked by two is counted under both.
        lifted_by: Name of each patch, and the rules of this release that it lifts.
        dropped_points: Each dropped point and its reason.
    """

    release: str
    raw: int
    launchable: tuple[str, ...]
    baselines: tuple[str, ...]
    aliases: int
    dropped: tuple[RuleCount, ...]
    locked: tuple[LockedConfig, ...]
    locked_by: tuple[RuleCount, ...]
    lifted_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dropped_points: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, space: Space) -> SpaceSummary:
        """Count a space."""
        deployment = space.deployment
        return cls(
            release=deployment.release if deployment else "",
            raw=space.raw,
            launchable=tuple(config.config_id for config in space.configs),
            baselines=tuple(config.config_id for config in space.baselines),
            aliases=space.counts.get(ALIAS, 0),
            dropped=tuple(_dropped(space)),
            locked=tuple(
                LockedConfig(entry.config.config_id, tuple(rule.rule_id for rule in entry.rules))
                for entry in space.locked
            ),
            locked_by=tuple(_locked_by(space)),
            lifted_by=tuple(_lifted(space)),
            dropped_points=tuple((point.point, point.reason) for point in space.dropped),
        )

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return asdict(self)

    def render(self, *, listed: bool = False) -> str:
        """Plain text, a few lines; with `listed` every config and point as well."""
        return "\n".join(_lines(self, listed=listed))


def _lifted(space: Space) -> Iterator[tuple[str, tuple[str, ...]]]:
    if space.deployment is None:
        return
    here = {rule.rule_id for rule in space.dialect.rules()} if space.dialect else None
    for patch in space.deployment.patches:
        yield patch.name, tuple(rule_id for rule_id in patch.lifts if here is None or rule_id in here)


def _dropped(space: Space) -> Iterator[RuleCount]:
    for reason, count in space.counts.items():
        points = [point for point in space.dropped if point.reason == reason]
        rule = points[0].rule
        yield RuleCount(
            reason,
            count,
            words=rule.text if rule else _WORDS.get(reason, points[0].words),
            source=rule.source if rule else "",
            examples=tuple(point.point for point in points[:3]),
        )


def _locked_by(space: Space) -> Iterator[RuleCount]:
    rules: dict[str, Rule] = {rule.rule_id: rule for entry in space.locked for rule in entry.rules}
    counts = Counter(rule.rule_id for entry in space.locked for rule in entry.rules)
    for rule_id, count in counts.most_common():
        rule = rules[rule_id]
        ids = [entry.config.config_id for entry in space.locked if rule in entry.rules]
        yield RuleCount(rule_id, count, rule.text, rule.source, rule.unlock, tuple(ids[:3]))


def _lines(summary: SpaceSummary, *, listed: bool) -> Iterator[str]:
    release = f" for SGLang {summary.release}" if summary.release else ""
    dropped = sum(reason.count for reason in summary.dropped)
    yield f"space{release}: {summary.raw} raw points"
    yield f"  {len(summary.launchable)} launchable, {len(summary.baselines)} of them baselines without speculation"
    yield f"  {len(summary.locked)} locked: understood, but refused by this release or GPU"
    yield f"  {dropped} dropped, {summary.aliases} of them aliases of another point"
    for name, rule_ids in summary.lifted_by:
        yield f"  patch {name} lifts {', '.join(rule_ids) or 'no rule of this release'}"
    for title, reasons in (("dropped", summary.dropped), ("locked", summary.locked_by)):
        if reasons:
            yield f"{title}:"
        for reason in reasons:
            yield f"  {reason.count:>6}  {reason.rule_id}: {reason.words}"
            if reason.source:
                yield f"          source: {reason.source}"
            if reason.unlock:
                yield f"          unlocked by: {reason.unlock}"
            yield f"          such as {', '.join(reason.examples)}"
    if listed:
        yield "launchable:"
        yield from (f"  {config_id}" for config_id in summary.launchable)
        yield "locked configs:"
        yield from (f"  {entry.config_id}  {', '.join(entry.rule_ids)}" for entry in summary.locked)
        yield "dropped points:"
        yield from (f"  {point}  {reason}" for point, reason in summary.dropped_points)
