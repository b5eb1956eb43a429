"""One study or recording as a table of readings, with the winners that it says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from search.config import SpecConfig, simplicity
from search.stats.comparison import Comparison
from search.stats.readings import Groups, Reading
from search.stats.scatter import Scatter, pooled_scatter
from search.stats.standings import Judge
from search.stats.verdicts import Contest, Verdict, study_winners


def higher_is_better(load: int) -> bool:
    """Whether readings at a load are rates; at 1 they are times per token."""
    return load != 1


@dataclass(frozen=True)
class Side:
    """One study or recording.

    Attributes:
        name: For people.
        release: Of SGLang; empty where unknown.
        conditions: What its numbers depend on, flat, by name.
        readings: By concurrency, then by config: time per token at concurrency 1, throughput above it.
        objectives: Concurrencies of its objectives, tested before others.
        hand_made: Typed in or computed, not measured by this tool.
        failed: Configs that never gave a number, with the reason.
    """

    name: str
    release: str
    conditions: Mapping[str, str]
    readings: Mapping[int, Mapping[SpecConfig, tuple[Reading, ...]]]
    objectives: tuple[int, ...] = ()
    hand_made: bool = False
    failed: Mapping[SpecConfig, str] = field(default_factory=dict)

    @property
    def loads(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(sorted(self.readings))

    @property
    def configs(self) -> frozenset[SpecConfig]:
        """Everything that gave a number."""
        return frozenset(config for mine in self.readings.values() for config in mine)

    def groups(self, load: int) -> Groups:
        """Readings at a load by config id, the simplest first."""
        mine = self.readings.get(load, {})
        return {config.config_id: mine[config] for config in sorted(mine, key=simplicity)}

    @cached_property
    def scatter(self) -> Mapping[int, Scatter]:
        """Pooled, by load."""
        return {load: pooled_scatter(self.groups(load)) for load in self.loads}

    def judge(self, load: int) -> Judge:
        """Compares at a load, with more being better."""
        return Judge(self.scatter[load], higher_is_better(load))

    def baseline(self, load: int) -> SpecConfig | None:
        """The best one measured at a load."""
        bases = {
            name: readings for name, readings in self.groups(load).items() if not SpecConfig.from_id(name).speculates
        }
        return SpecConfig.from_id(self.judge(load).best(bases)) if bases else None

    def gain(self, config: SpecConfig, load: int) -> Comparison | None:
        """Over the best baseline of this side at this load; None without one, and for baselines."""
        base = self.baseline(load)
        mine = self.readings[load].get(config)
        if base is None or mine is None or not config.speculates:
            return None
        judge = self.judge(load)
        return judge.gain(judge.fresh_or_all(mine), self.readings[load][base])

    @cached_property
    def verdicts(self) -> Mapping[int, Verdict]:
        """The contest of each load, as a study decides it."""
        contests: dict[Hashable, Contest] = {
            load: Contest(
                self.groups(load), self.scatter[load], load in (self.objectives or self.loads), higher_is_better(load)
            )
            for load in self.loads
        }
        bases = [config.config_id for config in self.configs if not config.speculates]
        by_load = study_winners(contests, bases, lambda name: simplicity(SpecConfig.from_id(name)))
        return {load: by_load[load] for load in self.loads}
