"""What a day's traffic makes of the answers by load: the one config for it, what a schedule would add, what it saves.

The time that a start needs for the traffic is one number of that start, made of all its loads, so it is compared like any
other metric: what a start's luck does to several loads at once is in the interval. The shares are of the day as it runs on
the best baseline, whose paces make the weights. A schedule and other shares are read off what was measured, without claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp

from search.analysis.arenas import RATE, Arena, Key
from search.config import SpecConfig, simplicity
from search.metrics import Traffic, gain_percent, pace_of
from search.spec.study import StudySpec
from search.stats.comparison import Comparison
from search.stats.levels import level_of
from search.stats.readings import Reading, by_block, start_means
from search.stats.scatter import pooled_scatter
from search.stats.verdicts import Verdict, winners

LEVEL = 0.01
"""Chance of a false gain at the traffic, on top of what a study's own contests spend."""
_HOURS = 24.0

Paces = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Switch:
    """From which share of the lowest load on another config is the best one, as measured."""

    share: float
    config: SpecConfig


@dataclass(frozen=True, slots=True)
class TrafficAnswer:
    """The answer for one traffic.

    Attributes:
        gpus: Of the server.
        verdict: Of the contest in time for the traffic, over starts that hold all its loads.
        reference: The best baseline for the traffic.
        times: As measured: time for the traffic by config, where every load is known, best first; the reference's is 1.
        schedule: The best config of each load, as measured.
        schedule_time: Time for the traffic with it.
        switches: Best single config by the share of the lowest load, from 0% on.
        unmeasured: Loads of the traffic at which no baseline was measured.
    """

    traffic: Traffic
    gpus: int
    verdict: Verdict | None
    reference: SpecConfig | None
    times: Mapping[SpecConfig, float]
    schedule: Mapping[int, SpecConfig]
    schedule_time: float
    switches: tuple[Switch, ...]
    unmeasured: tuple[int, ...]

    @property
    def best(self) -> SpecConfig | None:
        """As measured; None where no config has every load."""
        return next(iter(self.times), None)

    @property
    def shown(self) -> Comparison | None:
        """The gain of the winner over the best baseline where it is shown: 1.1 is a tenth less time."""
        return self.verdict.gain if self.verdict is not None else None

    def hours(self, time: float) -> float:
        """GPU hours a day that a time for the traffic saves against the reference; negative where it costs."""
        return _HOURS * self.gpus * (1.0 - time)


def traffic_answer(
    spec: StudySpec, arenas: Mapping[Key, Arena], traffic: Traffic | None = None
) -> TrafficAnswer | None:
    """The answer for a study's traffic, or for another one; None without any.

    Args:
        spec: The study.
        arenas: Of its rates, by load.
        traffic: In place of the study's.
    """
    traffic = traffic or spec.used
    if traffic is None:
        return None
    at = {load: arenas.get((RATE, load)) for load in traffic.loads}
    known = {load: arena for load, arena in at.items() if arena is not None}
    paces = _paces(known)
    plain = [config for config, mine in paces.items() if not config.speculates and mine.keys() >= set(traffic.loads)]
    missing = tuple(
        load for load in traffic.loads if not any(load in paces.get(c, {}) for c in paces if not c.speculates)
    )
    if not plain:
        return TrafficAnswer(traffic, spec.model.tp, None, None, {}, {}, 1.0, (), missing)
    fastest = {load: min(mine[load] for config, mine in paces.items() if config in plain) for load in traffic.loads}
    reference = min(plain, key=lambda config: (traffic.time(paces[config], fastest), simplicity(config)))
    base = paces[reference]
    whole = {config: mine for config, mine in paces.items() if mine.keys() >= set(traffic.loads)}
    times = {config: traffic.time(mine, base) for config, mine in whole.items()}
    ranked = dict(sorted(times.items(), key=lambda item: (item[1], simplicity(item[0]))))
    schedule = {
        load: min(
            (config for config in paces if load in paces[config]),
            key=lambda config: (paces[config][load], simplicity(config)),
        )
        for load in traffic.loads
    }
    scheduled = traffic.time({load: paces[config][load] for load, config in schedule.items()}, base)
    return TrafficAnswer(
        traffic,
        spec.model.tp,
        _verdict(known, traffic, base, spec.worth),
        reference,
        ranked,
        schedule,
        scheduled,
        tuple(_switches(whole, traffic, base)),
        missing,
    )


def _paces(arenas: Mapping[int, Arena]) -> dict[SpecConfig, dict[int, float]]:
    """Milliseconds per token of one request by config and load, of what may be recommended."""
    found: dict[SpecConfig, dict[int, float]] = {}
    for load, arena in arenas.items():
        for config in sorted(arena.open, key=simplicity):
            estimate = level_of(arena.judge.fresh_or_all(arena.groups[config]), arena.scatter)
            if estimate is not None:
                found.setdefault(config, {})[load] = _pace(estimate.value, load)
    return found


def _pace(value: float, load: int) -> float:
    return value if load == 1 else pace_of(value, load)


def _verdict(arenas: Mapping[int, Arena], traffic: Traffic, base: Paces, worth: float) -> Verdict | None:
    groups: dict[str, list[Reading]] = {}
    for config in sorted({config for arena in arenas.values() for config in arena.open}, key=simplicity):
        mixed = list(_mixed(config, arenas, traffic, base))
        if mixed:
            groups[config.config_id] = mixed
    bases = [name for name in groups if not SpecConfig.from_id(name).speculates]
    if not bases:
        return None
    return winners(
        groups,
        bases,
        pooled_scatter(groups),
        lambda name: simplicity(SpecConfig.from_id(name)),
        level=LEVEL,
        worth=worth,
        higher_is_better=False,
    )


def _mixed(config: SpecConfig, arenas: Mapping[int, Arena], traffic: Traffic, base: Paces) -> Iterator[Reading]:
    """One reading for each start that holds every load with one set of prompts: its time for the traffic."""
    by_load = {load: by_block(arenas[load].groups.get(config, ())) for load in traffic.loads if load in arenas}
    if len(by_load) < len(traffic.loads):
        return
    blocks = set.intersection(*(set(blocks) for blocks in by_load.values()))
    for block in sorted(blocks):
        means = {load: start_means(blocks[block]) for load, blocks in by_load.items()}
        fresh = {one.start for blocks in by_load.values() for one in blocks[block] if one.fresh}
        for start in sorted(set.intersection(*(set(mine) for mine in means.values()))):
            paces = {load: _pace(exp(mine[start].log_value), load) for load, mine in means.items()}
            yield Reading(start, traffic.time(paces, base), slot=block[0], prompt_set=block[1], fresh=start in fresh)


def _switches(whole: Mapping[SpecConfig, Paces], traffic: Traffic, base: Paces) -> Iterator[Switch]:
    """The lower envelope of times, which are straight lines in the share of the lowest load."""
    low = traffic.loads[0]
    if len(traffic.loads) < 2:
        return
    lines = {}
    for config, paces in sorted(whole.items(), key=lambda item: simplicity(item[0])):
        without = traffic.with_share(low, 0.0).time(paces, base)
        lines[config] = (without, paces[low] / base[low] - without)
    share, now = 0.0, min(lines, key=lambda config: (lines[config][0], lines[config][1]))
    yield Switch(0.0, now)
    while True:
        start, slope = lines[now]
        crossings = [
            ((other[0] - start) / (slope - other[1]), other[1], config)
            for config, other in lines.items()
            if other[1] < slope - 1e-12
        ]
        later = [crossing for crossing in crossings if crossing[0] >= share and crossing[0] < 1.0]
        if not later:
            return
        share, _, now = min(later, key=lambda crossing: (crossing[0], crossing[1]))
        yield Switch(share, now)


def traffic_sentences(spec: StudySpec, arenas: Mapping[Key, Arena], traffic: Traffic | None = None) -> list[str]:
    """The answer in words; none without traffic."""
    answer = traffic_answer(spec, arenas, traffic)
    return [] if answer is None else list(_sentences(answer))


def _sentences(answer: TrafficAnswer) -> Iterator[str]:
    words = answer.traffic.words
    if answer.reference is None or answer.best is None:
        at = ", ".join(map(str, answer.unmeasured))
        yield f"Traffic ({words}): no baseline was measured at {'C=' + at if at else 'all of its loads'}, so nothing can be said of it."
        return
    yield f"Traffic ({words}, of a day on {answer.reference}): {_best(answer)}"
    yield from _schedule(answer)
    if len(answer.switches) > 1:
        low = answer.traffic.loads[0]
        parts = [
            f"{switch.config} {'at first' if not place else f'from {switch.share:.0%} on'}"
            for place, switch in enumerate(answer.switches)
        ]
        yield f"Traffic by the share of C={low}, the other loads in proportion: {', '.join(parts)} (as measured)."
    elif answer.switches:
        yield f"Traffic: {answer.switches[0].config} is the best single config at any share of C={answer.traffic.loads[0]} (as measured)."


def _best(answer: TrafficAnswer) -> str:
    gain, verdict = answer.shown, answer.verdict
    if gain is not None and verdict is not None:
        low, high = (answer.hours(1 / end) for end in (gain.lo, gain.hi))
        return (
            f"{verdict.winner} serves it best, {gain_percent(gain.ratio)} [{gain_percent(gain.lo)}, {gain_percent(gain.hi)}] over {verdict.reference}: "
            f"{answer.hours(1 / gain.ratio):.1f} [{low:.1f}, {high:.1f}] GPU hours a day of a server with {answer.gpus} GPUs."
        )
    best, reference = answer.best, answer.reference
    assert best is not None and reference is not None
    if best == reference:
        return f"{reference} serves it best as far as measured; no single config saves time."
    time = answer.times[best]
    assumed = ", on assumed scatter" if verdict is not None and verdict.assumed else ""
    return (
        f"no gain is shown{assumed}; as measured {best} would need {time:.1%} of the time, which saves {answer.hours(time):.1f} GPU hours a day "
        f"of a server with {answer.gpus} GPUs."
    )


def _schedule(answer: TrafficAnswer) -> Iterator[str]:
    assert answer.best is not None
    single = answer.times[answer.best]
    added = answer.hours(answer.schedule_time) - answer.hours(single)
    if len(set(answer.schedule.values())) == 1 or added <= 0:
        return
    parts = _runs(answer.schedule)
    yield (
        f"Traffic by a schedule ({parts}) would save {added:.1f} GPU hours a day more than {answer.best} alone, as measured: it takes as "
        "many servers, or one that switches."
    )


def _runs(schedule: Mapping[int, SpecConfig]) -> str:
    return ", ".join(f"{config} at C={load}" for load, config in schedule.items())
