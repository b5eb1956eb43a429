"""Whole studies at the level of verdicts: gains, drift and questions that are not there, and one gain that is."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import log1p
from typing import NamedTuple

import numpy as np

from benchmarks.coverage.worlds import Host, World
from search.stats.compare import compare
from search.stats.questions import best_of_each, drifts, finding
from search.stats.readings import Reading
from search.stats.scatter import Scatter, pooled_scatter
from search.stats.verdicts import Contest, study_winners

LOADS = (1, 100, 30, 250)
OBJECTIVES = (1, 100)


class Design(NamedTuple):
    """Of a study: starts of the baseline (first, middle, end), of every pick afresh, picks, configs, repeats."""

    baseline: int = 3
    afresh: int = 2
    picks: int = 3
    configs: int = 12
    repeats: tuple[int, ...] = (2,)


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of studies.

    Attributes:
        any_gain: A gain was claimed for a config that has none, at any load.
        found: The better config was claimed where it is better.
        won: It was the winner there.
        drift: The host was said to have drifted.
        question: The question was answered, of equal configs.
        knob: The best of one half of the configs was shown to differ from the best of the other half.
        error: Mean error of the claimed gain of the better config, relative.
        held: Of the picks' gains, by their fresh starts: the share whose 95% interval holds the truth.
        first: The same of what the search ranked first at a load, which owes it most to luck.
        freedom: Median pooled degrees of freedom.
    """

    world: World
    design: Design
    gain: float
    draws: int
    any_gain: float
    found: float
    won: float
    drift: float
    question: float
    knob: float
    error: float
    held: float
    first: float
    freedom: float


def tally(world: World, design: Design, gain: float, draws: int, rng: np.random.Generator) -> Tally:
    """Draw studies in which config 1 is better by `gain` at C=100, or nothing differs, and judge them."""
    counts = dict.fromkeys(("any", "found", "won", "drift", "question", "knob"), 0)
    errors, freedoms = [], []
    held: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(draws):
        groups, closing = _study(world, design, gain, rng)
        scatters = {load: pooled_scatter(groups[load]) for load in LOADS}
        contests: dict[Hashable, Contest] = {
            load: Contest(groups[load], scatters[load], objective=load in OBJECTIVES) for load in LOADS
        }
        verdicts = study_winners(contests, ["0"], int)
        claims = [(load, one) for load, verdict in verdicts.items() for one in verdict.claimed]
        counts["any"] += any(not (gain and load == 100 and one.config == "1") for load, one in claims)
        mine = [one.gain for load, one in claims if load == 100 and one.config == "1" and one.gain is not None]
        counts["found"] += bool(mine)
        counts["won"] += verdicts[100].winner == "1"
        errors += [one.log_ratio - log1p(gain) for one in mine]
        for load in LOADS:
            first = max(groups[load], key=lambda config: _searched(groups[load][config]))
            for one in verdicts[load].standings:
                if one.tested and one.gain is not None:
                    truth = 1 + gain * (load == 100 and one.config == "1")
                    held[one.config == first].append(one.gain.lo <= truth <= one.gain.hi)
        counts["drift"] += _drifted(groups, closing)
        counts["question"] += _answered(groups, scatters)
        counts["knob"] += _knob(groups[250], scatters[250])
        freedoms.append(scatters[100].start_freedom)
    shares = {name: count / draws for name, count in counts.items()}
    return Tally(
        world,
        design,
        gain,
        draws,
        shares["any"],
        shares["found"],
        shares["won"],
        shares["drift"],
        shares["question"],
        shares["knob"],
        float(np.mean(errors)) if errors else 0.0,
        float(np.mean(held[True] + held[False])),
        float(np.mean(held[True])),
        float(np.median(freedoms)),
    )


Study = dict[int, dict[str, list[Reading]]]


def _study(world: World, design: Design, gain: float, rng: np.random.Generator) -> tuple[Study, int]:
    """Readings by load and config, and the number of the closing start.

    Loads scatter independently: nothing would be known of how they do together. First the baseline, the search, the
    picks afresh with the baseline between, the baseline at the end.
    """
    total = design.configs + design.baseline + design.picks * design.afresh
    hosts = {load: Host(world, rng, starts=total) for load in LOADS}
    groups: Study = {load: {str(config): [] for config in range(design.configs + 1)} for load in LOADS}

    def start(config: int, *, fresh: bool = False) -> None:
        for load, host in hosts.items():
            repeats = design.repeats[len(groups[load][str(config)]) % len(design.repeats)]
            value = log1p(gain) if config == 1 and load == 100 else 0.0
            groups[load][str(config)] += host.start(value, repeats, config=config, fresh=fresh)

    start(0)
    for config in range(1, design.configs + 1):
        start(config)
    picks = _picks(groups, design.picks)
    middle = design.baseline - 2
    for turn in range(max(design.afresh, middle)):
        for config in picks if turn < design.afresh else []:
            start(config, fresh=True)
        if turn < middle:
            start(0)
    start(0)
    return groups, total - 1


def _picks(groups: Study, count: int) -> list[int]:
    """The fastest of the search at each load, objectives first, then the next ones at C=100."""
    ranked = {
        load: sorted(
            (config for config in mine if config != "0"),
            key=lambda config: -float(np.mean([r.value for r in mine[config]])),
        )
        for load, mine in groups.items()
    }
    wanted = dict.fromkeys([*(ranked[load][0] for load in (100, 1, 30)), *ranked[100]])
    return [int(config) for config in list(wanted)[:count]]


def _searched(readings: Sequence[Reading]) -> float:
    """What the search saw of a config; below everything for the baseline, which is in no ranking."""
    return -np.inf if readings[0].start == 0 else float(np.mean([one.value for one in readings if not one.fresh]))


def _drifted(groups: Study, closing: int) -> bool:
    pairs: dict[Hashable, tuple[list[Reading], list[Reading], Scatter]] = {}
    for load, mine in groups.items():
        before = {config: [one for one in readings if one.start != closing] for config, readings in mine.items()}
        last = [one for one in mine["0"] if one.start == closing]
        pairs[load] = (before["0"], last, pooled_scatter(before))
    found = drifts(pairs)
    return any(drift.shown for drift in found.values())


def _answered(groups: Study, scatters: dict[int, Scatter]) -> bool:
    """Config 2 against two others, at C=1 and C=250, where nothing differs."""
    gains = [
        compare(groups[load]["2"], groups[load][other], scatters[load]) for other in ("3", "4") for load in (1, 250)
    ]
    return finding(gains) in ("supported", "refuted")


def _knob(mine: dict[str, list[Reading]], scatter: Scatter) -> bool:
    half = len(mine) // 2
    best = best_of_each(
        {c: r for c, r in mine.items() if 0 < int(c) <= half}, {c: r for c, r in mine.items() if int(c) > half}, scatter
    )
    return best.gain is not None and best.gain.separable is True
