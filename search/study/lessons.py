"""What a failed start teaches about configs that were not launched: those that must fail alike are not tried.

Candidate elimination over simple explanations (Mitchell, Generalization as Search, 1982): with the knobs of those that
failed, a number of the tree is too high (`num_steps` above the MTP depth, draft tokens above what fits), or any tree is (a
backend that cannot draft). Each config that started strikes out the explanations that would have stopped it. A config
is spared only where every explanation that is left stops it, and where it has the knobs of those that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from search.config import TREE_KNOBS, KnobValue, SpecConfig, tree_bound
from search.outcomes import Outcome, Reason
from search.server.alike import cause_key
from search.storage.records import LaunchRecord
from search.study.blame import failed_at_start, started

_MEMORY: Final = frozenset({Reason.OOM_WEIGHTS, Reason.OOM_KV, Reason.OOM_GRAPH, Reason.OOM_RUNTIME})
_RULES: Final = frozenset(
    {Reason.ARG_INVALID_COMBO, Reason.DRAFT_MISMATCH, Reason.COMM_UNSUPPORTED, Reason.DETERMINISTIC_CRASH}
)
"""Causes that the next start of the same config meets again."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Why configs like those of some launches cannot start.

    Attributes:
        taught_by: The launches that failed alike, in order.
        same: Knobs that a config must have to be like them, and the values that failed.
        at_least: Numbers of the tree from which it is like them.
        shapes: How much of its full tree a tree must verify to be like them, see `_shape`; empty for any.
    """

    taught_by: tuple[LaunchRecord, ...]
    same: Mapping[str, frozenset[KnobValue]]
    at_least: Mapping[str, int]
    shapes: frozenset[str] = frozenset()

    def stops(self, config: SpecConfig) -> bool:
        """Whether a config must fail alike."""
        params = dict(config.params)
        words = {name: value for name, value in params.items() if name not in TREE_KNOBS}
        return (
            words.keys() == self.same.keys()
            and all(words[name] in values for name, values in self.same.items())
            and all(_number(params, name) >= least for name, least in self.at_least.items())
            and (not self.shapes or _shape(config) in self.shapes)
        )

    @property
    def words(self) -> str:
        """For people: which launch taught it, and what must fail alike."""
        first = self.taught_by[0]
        numbers = ", ".join(str(launch.number) for launch in self.taught_by)
        launches = "launch" if len(self.taught_by) == 1 else "launches"
        beyond = " and ".join(f"{name} of {least} or more" for name, least in self.at_least.items())
        like = f"with {beyond} and the knobs of {first.asked}" if beyond else f"with the knobs of {first.asked}"
        line = first.evidence.root_line if first.evidence else ""
        return f"as {launches} {numbers} showed, {like} ends in {first.reason}: {line}"


def lessons_of(launches: Iterable[LaunchRecord]) -> list[Lesson]:
    """What the failed starts of a study teach.

    Args:
        launches: That ended. A config that started once, `try` included, outweighs what it contradicts.
    """
    launches = list(launches)
    up = {launch.config for launch in launches if started(launch)}
    whole = {launch.config for launch in launches if launch.outcome is Outcome.MEASURED}
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        if (key := _kind(launch)) is not None:
            groups.setdefault(key, []).append(launch)
    found = [
        _lesson(group, whole, frozenset()) if key == "memory" else _lesson(group, up, _shapes(group))
        for key, group in groups.items()
    ]
    return [lesson for lesson in found if lesson is not None]


def spared(configs: Iterable[SpecConfig], launches: Sequence[LaunchRecord]) -> dict[SpecConfig, Lesson]:
    """The configs that nobody has launched and that must fail alike, with the lesson that says so."""
    tried = {launch.asked for launch in launches}
    lessons = lessons_of(launches)
    return {
        config: lesson
        for config in configs
        if config not in tried and (lesson := next((one for one in lessons if one.stops(config)), None)) is not None
    }


def _kind(launch: LaunchRecord) -> str | None:
    """What failures of one cause share; None for what teaches nothing of other configs."""
    if launch.reason in _MEMORY:
        return "memory"
    if launch.reason in _RULES and failed_at_start(launch) and launch.evidence is not None:
        return f"{launch.reason}: {cause_key(launch.evidence)}"
    return None


def _lesson(group: Sequence[LaunchRecord], came_up: set[SpecConfig], shapes: frozenset[str]) -> Lesson | None:
    """The lesson of launches that failed alike; None where one of them started at another time."""
    failed = [dict(launch.asked.params) for launch in group]
    words = {name for params in failed for name in params if name not in TREE_KNOBS}
    if any({name for name in params if name not in TREE_KNOBS} != words for params in failed):
        return None  # `off` and a tree, say: nothing simple explains both
    same = {name: frozenset(params[name] for params in failed) for name in words}
    least = {name: min(_number(params, name) for params in failed) for name in TREE_KNOBS if name in failed[0]}
    # What started with these knobs strikes out the numbers that it passed. Where it passed each of them, though never
    # all at once, only more of everything is sure to fail.
    like = [dict(config.params) for config in came_up if Lesson(tuple(group), same, {}).stops(config)]
    binding = [name for name, number in least.items() if not any(_number(params, name) >= number for params in like)]
    lesson = Lesson(tuple(group), same, {name: least[name] for name in binding or least}, shapes)
    return None if any(lesson.stops(config) for config in came_up) else lesson


def _shapes(group: Sequence[LaunchRecord]) -> frozenset[str]:
    """Of trees that failed of something but memory: a cut tree may die of being cut. A chain's death speaks of all."""
    seen = frozenset(_shape(launch.asked) for launch in group)
    return frozenset() if _CHAIN in seen else seen


_CHAIN: Final = "chain"


def _shape(config: SpecConfig) -> str:
    """How much of its full tree a config verifies: a chain, the whole tree, as few tokens as a chain, or between."""
    if not config.topk or not config.num_steps or config.topk == 1:
        return _CHAIN
    if config.num_draft_tokens == tree_bound(topk=config.topk, num_steps=config.num_steps):
        return "whole"
    return "bare" if config.num_draft_tokens == config.num_steps + 1 else "between"


def _number(params: Mapping[str, KnobValue], name: str) -> int:
    """A number of the tree; 0 for what does not speculate."""
    value = params.get(name)
    return value if isinstance(value, int) else 0
