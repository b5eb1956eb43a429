"""Rivals that choose from the finite list without Optuna: what they share, and the simplest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from benchmarks.race.hypervolume import Point, hypervolume, point_of
from benchmarks.race.tables import Table
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Outcome
from search.samplers.knobs import distance, nearest
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord
from search.study.trials import objective_values


class ListedEntrant:
    """Keeps the launches and the configs still free; a rival says which of them is next."""

    def __init__(self, table: Table) -> None:
        self.spec: StudySpec = table.spec
        self.launches: list[LaunchRecord] = []
        self.free: list[SpecConfig] = list(table.space.configs)

    def ask(self, fixed: SpecConfig | None) -> SpecConfig | None:
        """See `Entrant`."""
        config = fixed if fixed is not None else self.choose() if self.free else None
        if config is not None:
            self.free.remove(config)
        return config

    def skips(self, config: SpecConfig, low: Sequence[PhaseResult]) -> bool:  # noqa: ARG002
        """See `Entrant`; measures everything."""
        return False

    def tell(self, launch: LaunchRecord) -> None:
        """See `Entrant`."""
        self.launches.append(launch)

    def choose(self) -> SpecConfig | None:
        """One of `free`, which is not empty; None ends the race."""
        raise NotImplementedError

    def measured(self) -> dict[SpecConfig, Point]:
        """Both objectives of what was measured, in launch order."""
        return {
            launch.config: point_of(self.spec.axes, values)
            for launch in self.launches
            if launch.outcome is Outcome.MEASURED and (values := objective_values(launch, self.spec)) is not None
        }


class Oracle(ListedEntrant):
    """Knows the truth and takes, each time, what adds most to the hypervolume: the floor."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._table = table

    def choose(self) -> SpecConfig | None:
        """The largest true gain; of equals the first in the space's order."""
        table = self._table
        have = [table.truth[launch.config] for launch in self.launches if launch.config in table.truth]
        sure = [config for config in self.free if config in table.truth]
        return max(
            sure, key=lambda config: hypervolume([*have, table.truth[config]], table.reference), default=self.free[0]
        )


class FixedList(ListedEntrant):
    """Goes through a list it was given and learns nothing; what is not in the space is passed over.

    After the list it goes on at random, from the seed.
    """

    def __init__(self, table: Table, order: Sequence[str], *, seed: int) -> None:
        super().__init__(table)
        rest = list(self.free)
        Random(seed).shuffle(rest)
        by_id = {config.config_id: config for config in self.free}
        self._order = list(dict.fromkeys([by_id[name] for name in order if name in by_id] + rest))

    def choose(self) -> SpecConfig | None:
        """The next that is free."""
        free = set(self.free)
        return next((config for config in self._order if config in free), None)


class Cookbook(ListedEntrant):
    """SGLang's own defaults for EAGLE: the baseline, then these, and no search.

    Left alone, `srt/server_args.py` of SGLang 0.5.9 to 0.5.23 (`auto_choose_speculative_params`) takes
    5 steps, topk 4 and 8 draft tokens for Llama and Grok targets, and 3 steps, topk 1 and 4 draft
    tokens for all others. A table does not name its kind of target, so both are launched.
    """

    DEFAULTS = ("v2-k1-s3-d4", "v1-k4-s5-d8")

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        speculating = [config for config in table.space.configs if config.speculates]
        wanted = map(SpecConfig.from_id, self.DEFAULTS)
        self._left = (
            list(dict.fromkeys(nearest(config.params, speculating) for config in wanted)) if speculating else []
        )

    def choose(self) -> SpecConfig | None:
        """The next default, or the nearest the space has."""
        return self._left.pop(0) if self._left else None


Objective = Callable[[Point], float]


class CoordinateDescent(ListedEntrant):
    """Changes one knob at a time, from the best known config, towards three goals in turn.

    The goals are latency, throughput and both speeds multiplied. A config's neighbours differ in one
    knob, nearest values first. When a goal's best has no free neighbour it takes the next best
    start; when nothing has one, whatever is left, from the seed.
    """

    GOALS: tuple[Objective, ...] = (
        lambda point: -point[0],
        lambda point: point[1],
        lambda point: point[1] / point[0],
    )

    def __init__(self, table: Table, *, seed: int) -> None:
        super().__init__(table)
        self._random = Random(seed)
        self._turn = 0

    def choose(self) -> SpecConfig | None:
        """A free neighbour of the best for the goal whose turn it is."""
        points = {config: point for config, point in self.measured().items() if config.speculates}
        for _ in self.GOALS:
            goal = self.GOALS[self._turn % len(self.GOALS)]
            self._turn += 1
            for config in sorted(points, key=lambda config: goal(points[config]), reverse=True):
                if near := self._neighbours(config):
                    return near[0]
        return self._random.choice(self.free)

    def _neighbours(self, config: SpecConfig) -> list[SpecConfig]:
        apart = {other: _apart(config, other) for other in self.free if other.speculates}
        close = [other for other, (knobs, _) in apart.items() if knobs == 1]
        self._random.shuffle(close)
        return sorted(close, key=lambda other: apart[other][1])


def _apart(one: SpecConfig, other: SpecConfig) -> tuple[int, float]:
    """In how many knobs two configs differ, and by how much; a chain's draft tokens follow from its steps."""
    first, second = one.params, other.params
    names = {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)}
    if one.topk == other.topk == 1:
        names.discard("num_draft_tokens")
    if "topk" in names and 1 in (one.topk, other.topk):
        names.discard("num_draft_tokens")
    return len(names), distance(first, second)
