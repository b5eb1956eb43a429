"""Studies whose configs share starts, where nothing differs: what verdicts say of a common start's luck.

    nice python -m benchmarks.coverage.shared [--draws N] [--json PATH]

A start draws once for all that is measured in it, a place changes every value by a slope and by chance, and the first
config of a start is measured again at the fourth place and every sixth after it, as a study does. The baseline and the
picks have starts of their own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import exp
from pathlib import Path
from typing import NamedTuple

import numpy as np

from search.stats.compare import compare
from search.stats.questions import best_of_each, finding
from search.stats.readings import Reading
from search.stats.scatter import pooled_scatter
from search.stats.verdicts import Contest, study_winners
from search.study.starts import ANCHORED_AT

LOADS = (1, 100)
Groups = dict[str, list[Reading]]


class SharedWorld(NamedTuple):
    """Relative scatter of starts, of repeats and of places, and what each place adds."""

    between: float
    within: float
    place: float = 0.005
    slope: float = 0.0


class SharedDesign(NamedTuple):
    """Of a study: shared starts, configs in each, starts of the baseline, of every pick afresh, and picks."""

    starts: int = 2
    configs: int = 10
    baseline: int = 3
    afresh: int = 2
    picks: int = 3
    repeats: int = 2


@dataclass(frozen=True, slots=True)
class SharedTally:
    """Shares of studies.

    Attributes:
        any_gain: A gain over the baseline was claimed.
        inside: Two configs of one start were said to differ.
        across: Two configs of different starts were said to differ.
        question: A question was answered, of two configs of one start and one of another.
        knob: The best of one start was shown to differ from the best of the other.
        half_inside: Median half of the 95% interval inside a start, relative.
        half_across: Of that between two shared starts.
    """

    world: SharedWorld
    design: SharedDesign
    draws: int
    any_gain: float
    inside: float
    across: float
    question: float
    knob: float
    half_inside: float
    half_across: float


def drawn(world: SharedWorld, design: SharedDesign, rng: np.random.Generator) -> Groups:
    """Readings of one load, by config; `0` is the baseline, configs are numbered through the shared starts."""
    groups: Groups = {}
    starts = iter(range(10**6))

    def measure(config: str, start: int, luck: float, place: int, *, fresh: bool = False) -> None:
        here = luck + world.slope * place + (float(rng.normal(0, world.place)) if place else 0.0)
        for repeat in range(1, design.repeats + 1):
            value = 100 * exp(here + float(rng.normal(0, world.within)))
            groups.setdefault(config, []).append(
                Reading(start=start, value=value, place=place, repeat=repeat, fresh=fresh)
            )

    def alone(config: str, *, fresh: bool = False) -> None:
        measure(config, next(starts), float(rng.normal(0, world.between)), 0, fresh=fresh)

    alone("0")
    for number in range(design.starts):
        start, luck = next(starts), float(rng.normal(0, world.between))
        names = [str(1 + number * design.configs + one) for one in range(design.configs)]
        waiting, place = list(names), 0
        while waiting:
            measure(names[0] if place in ANCHORED_AT else waiting.pop(0), start, luck, place)
            place += 1
    means = {one: float(np.mean([r.value for r in mine])) for one, mine in groups.items() if one != "0"}
    picks = sorted(means, key=lambda one: -means[one])[: design.picks]
    for turn in range(max(design.afresh, design.baseline - 1)):
        for pick in picks if turn < design.afresh else []:
            alone(pick, fresh=True)
        if turn < design.baseline - 1:
            alone("0")
    return groups


def shared_tally(world: SharedWorld, design: SharedDesign, draws: int, rng: np.random.Generator) -> SharedTally:
    """Draw studies in which nothing differs, and judge them."""
    counts = dict.fromkeys(("any", "inside", "across", "question", "knob"), 0)
    halves: tuple[list[float], list[float]] = ([], [])
    for _ in range(draws):
        loads = {load: drawn(world, design, rng) for load in LOADS}
        scatters = {load: pooled_scatter(groups) for load, groups in loads.items()}
        contests: dict[Hashable, Contest] = {load: Contest(loads[load], scatters[load]) for load in LOADS}
        counts["any"] += any(verdict.claimed for verdict in study_winners(contests, ["0"], int).values())
        groups, scatter = loads[100], scatters[100]
        second = str(1 + design.configs)
        near, far = compare(groups["2"], groups["3"], scatter), compare(groups["2"], groups[second], scatter)
        assert near is not None and far is not None
        counts["inside"] += near.separable is True
        counts["across"] += far.separable is True
        counts["question"] += finding([near, far]) in ("supported", "refuted")
        names = [one for one in groups if one != "0"]
        first = {one: groups[one] for one in names if int(one) <= design.configs}
        other = {one: groups[one] for one in names if int(one) > design.configs}
        gain = best_of_each(first, other, scatter).gain
        counts["knob"] += gain is not None and gain.separable is True
        halves[0].append(near.hi / near.ratio - 1)
        halves[1].append(far.hi / far.ratio - 1)
    shares = {name: count / draws for name, count in counts.items()}
    return SharedTally(
        world,
        design,
        draws,
        shares["any"],
        shares["inside"],
        shares["across"],
        shares["question"],
        shares["knob"],
        float(np.median(halves[0])),
        float(np.median(halves[1])),
    )


def cells() -> Iterator[tuple[SharedWorld, SharedDesign]]:
    """What is drawn."""
    for between in (0.0, 0.02, 0.04):
        for world in (SharedWorld(between, 0.01), SharedWorld(between, 0.01, place=0.01, slope=0.005)):
            yield world, SharedDesign()
    yield SharedWorld(0.02, 0.01), SharedDesign(afresh=0)
    yield SharedWorld(0.04, 0.01), SharedDesign(baseline=6, afresh=0)
    yield SharedWorld(0.02, 0.01), SharedDesign(starts=5, configs=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every cell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.shared")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    found = []
    for number, (world, design) in enumerate(cells()):
        tally = shared_tally(world, design, options.draws, np.random.default_rng(number))
        found.append(asdict(tally) | {"world": world._asdict(), "design": design._asdict()})
        print(json.dumps(found[-1]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
