"""What to run at which load, for people who route by load and for SGLang's adaptive steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search.analysis.findings import ConfigResult, Gain, LoadWinner
from search.config import SpecConfig, SpecVersion, simplicity


@dataclass(frozen=True, slots=True)
class Stretch:
    """One config, from a number of requests in flight up to the next stretch.

    Attributes:
        start: Requests in flight from which it is the answer; 1 for the first stretch.
        measured: Loads that say so. Between the last of them and the next stretch nothing was measured.
        gain: Over the best baseline at the first of them; None for a baseline.
        shown: The gain is claimed at each of them.
    """

    start: int
    config: SpecConfig
    measured: tuple[int, ...]
    gain: Gain | None
    shown: bool


@dataclass(frozen=True, slots=True)
class Single:
    """The one config that a schedule has to beat.

    Attributes:
        config: Best over all loads as measured, each counted alike: the geometric mean of its gains.
        loses: Loads at which the winner is shown to be better.
    """

    config: SpecConfig
    loses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The answer by load.

    Attributes:
        stretches: Ascending; none without a winner that rests on data.
        single: None where nothing was measured at all loads.
    """

    stretches: tuple[Stretch, ...]
    single: Single | None

    @property
    def pays(self) -> bool:
        """Whether it is shown to beat the best single config somewhere."""
        return len(self.stretches) > 1 and self.single is not None and bool(self.single.loses)


def schedule_of(winners: Sequence[LoadWinner], results: Sequence[ConfigResult]) -> Schedule:
    """The schedule that the winners by load make.

    Args:
        winners: Ascending by load; those that a fit alone expects are left out.
        results: Of all configs.
    """
    measured = [winner for winner in winners if not winner.only_expected]
    stretches: list[Stretch] = []
    for winner in measured:
        config = winner.config if winner.claimed else winner.baseline
        last = stretches[-1] if stretches else None
        if last is not None and _goes_on(last.config, winner):
            stretches[-1] = Stretch(
                last.start, last.config, (*last.measured, winner.concurrency), last.gain, last.shown
            )
            continue
        gain = winner.gain if config.speculates else None
        start = winner.concurrency if stretches else 1
        stretches.append(Stretch(start, config, (winner.concurrency,), gain, winner.claimed))
    return Schedule(tuple(stretches), _single(measured, results))


def _goes_on(config: SpecConfig, winner: LoadWinner) -> bool:
    """Whether the config of the stretch before serves this load as well as anything is shown to."""
    if not winner.claimed:
        return not config.speculates
    return config == winner.config or config in winner.same


def _single(winners: Sequence[LoadWinner], results: Sequence[ConfigResult]) -> Single | None:
    loads = [winner.concurrency for winner in winners]
    gains = {
        result.config: result.gains
        for result in results
        if loads
        and not result.lossy
        and all(load in result.gains and not result.loads[load].extrapolated for load in loads)
    }
    means = {config: math.fsum(math.log(mine[load].value) for load in loads) for config, mine in gains.items()}
    if not means:
        return None
    best = min(means, key=lambda config: (-means[config], simplicity(config)))
    loses = tuple(winner.concurrency for winner in winners if _is_better(winner, best, gains[best][winner.concurrency]))
    return Single(best, loses)


def _is_better(winner: LoadWinner, single: SpecConfig, gain: Gain) -> bool:
    """Whether the answer at a load is shown to be better than the single config, whose gain over the baseline is given."""
    if winner.claimed:
        return single not in (winner.config, *winner.tied)
    return single.speculates and gain.hi is not None and gain.hi < 1 and not gain.assumed


def steps_by_load(schedule: Schedule) -> tuple[dict[int, int], str]:
    """Draft steps at each measured load, 0 without speculation; or none, and why adaptive steps cannot run it."""
    speculating = [one.config for one in schedule.stretches if one.config.speculates]
    if not speculating:
        return {}, "no load has a gain that is shown"
    for config in speculating:
        if config.spec_version is not SpecVersion.V2 or config.topk != 1:
            return {}, f"adaptive steps switch chains of the v2 worker, and {config} is none"
    others = {(config.allreduce_fusion, config.extra) for config in speculating}
    if len(others) > 1:
        return {}, f"{speculating[0]} and {speculating[-1]} differ in more than their steps"
    steps = {
        load: one.config.num_steps if one.config.speculates and one.config.num_steps else 0
        for one in schedule.stretches
        for load in one.measured
    }
    if len(set(steps.values())) < 2:
        return {}, "one config is the answer at every load"
    return steps, ""
