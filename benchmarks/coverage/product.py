"""Whole judgements over studies with known truth: what a report says when nothing is true, and when one thing is.

Draws launches of the default design (the baseline first, one start for each config, fresh starts of the picks, the
baseline in between and at the end) and hands them to `judge`, as a run would.

    python -m benchmarks.coverage.product [--studies N] [--designs] [--jobs N] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from math import exp, log1p
from pathlib import Path

import numpy as np

from search.analysis.analyse import judge
from search.analysis.findings import Judgement, QuestionVerdict
from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Outcome
from search.spec.file import parse_study
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord, Stage

LOADS = (1, 30, 100, 250)
OBJECTIVES = (1, 100)
OTHERS = (
    "v2-k1-s2-d3", "v2-k1-s1-d2", "v2-k1-s3-d4", "v1-k1-s2-d3", "v1-k1-s1-d2", "v1-k2-s2-d7", "v1-k2-s3-d8",
    "v1-k4-s3-d16", "v1-k2-s2-d4",
)  # fmt: skip
BETTER = "v1-k2-s2-d7"
SECOND = "off+arf=auto"
STUDY = """\
study: coverage
model: {target: a/b, draft: c/d, algorithm: EAGLE3}
hardware: {gpus: 1, kind: H200, sm: 90, memory_gib: 141, links: nvlink}
engine: {release: 0.5.11}
space: {spec_version: [v1, v2], topk: [1, 2, 4], num_steps: [1, 2, 3], num_draft_tokens: [tree], allreduce_fusion: ["off", auto]}
watch: [30, 250]
questions:
  wide: {knob: topk, value: 2, against: [1, 4], at: [1, 100]}
  overlap: {config: v2-k1-s2-d3, against: [v1-k1-s2-d3], at: [1, 100]}
"""
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class World:
    """Relative standard deviations of starts and repeats, and how much `BETTER` is better at C=100."""

    between: float
    within: float
    gain: float = 0.0


@dataclass(frozen=True, slots=True)
class Design:
    """What a study starts and repeats.

    Attributes:
        baseline: Starts of the baseline: first, confirming, closing.
        afresh: Fresh starts of a pick.
        picks: How many.
        repeats: Of an objective in a start of the search.
        plain: The same in a start of a baseline, for each set of prompts.
        again: The same in a fresh start of a pick.
        lead: Further fresh starts of what leads at an objective by more than 2% after those of the picks.
        second: Starts of a second baseline, which all gains are over too; the first measures as a baseline, further
            ones as fresh starts.
    """

    baseline: int = 3
    afresh: int = 2
    picks: int = 3
    repeats: int = 2
    plain: int = 2
    again: int = 2
    lead: int = 1
    second: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of studies.

    Attributes:
        any_gain: Any gain was claimed of a config that has none, or said to pay where nothing does.
        found: `BETTER` was claimed at C=100.
        drift: The host was said to have drifted, or a slot to differ.
        question: A question was answered with `supported` or `refuted`, of equal configs.
        error: Mean error of the claimed gain of `BETTER`, relative.
    """

    world: World
    design: Design
    studies: int
    any_gain: float
    found: float
    drift: float
    question: float
    error: float


def tally(world: World, design: Design, studies: int, seed: int) -> Tally:
    """Judge so many studies."""
    spec = parse_study(STUDY, name="coverage.yaml")
    counts = dict.fromkeys(("any", "found", "drift", "question"), 0)
    errors: list[float] = []
    for number in range(studies):
        judged = judge(spec, launches(spec, world, design, np.random.default_rng((seed, number))))
        claims = [winner for winner in judged.winners if winner.claimed]
        right = [w for w in claims if world.gain and w.concurrency == 100 and w.config.config_id == BETTER]
        counts["any"] += len(claims) > len(right)
        counts["found"] += bool(right)
        errors += [winner.gain.value / (1 + world.gain) - 1 for winner in right]
        counts["drift"] += any("drifted" in line or "is not like slot" in line for line in judged.headlines)
        counts["question"] += any(answer.verdict in ("supported", "refuted") for answer in answers(judged, world))
    shares = {name: count / studies for name, count in counts.items()}
    mean = float(np.mean(errors)) if errors else 0.0
    return Tally(world, design, studies, shares["any"], shares["found"], shares["drift"], shares["question"], mean)


def answers(judged: Judgement, world: World) -> Iterator[QuestionVerdict]:
    """Verdicts on questions of which nothing is true in this world."""
    for answer in judged.verdicts:
        if not (world.gain and answer.name == "wide"):
            yield answer


def launches(spec: StudySpec, world: World, design: Design, rng: np.random.Generator) -> list[LaunchRecord]:
    """All starts of one study, in their order."""
    made: list[LaunchRecord] = []

    def start(config_id: str, stage: Stage, sets: Mapping[bool, int]) -> None:
        config = SpecConfig.from_id(config_id)
        phases = []
        for load in LOADS:
            true = log1p(world.gain) if config_id == BETTER and load == 100 else 0.0
            level = 0.05 * log1p(load) + true + world.between * rng.standard_normal()
            objective = load in OBJECTIVES
            for held_out, repeats in sets.items() if objective else [(next(iter(sets)), 1)]:
                for repeat in range(repeats):
                    rate = 100 * load * exp(level - 0.03 * held_out + world.within * rng.standard_normal())
                    phases.append(_phase(load, repeat + 1, rate, held_out=held_out))
        made.append(
            LaunchRecord(len(made) + 1, stage, config, config, _START, outcome=Outcome.MEASURED, phases=tuple(phases))
        )

    both = {False: design.plain, True: design.plain}
    fresh = {True: design.again, False: design.again}
    start("off", "baseline", both)
    if design.second:
        start(SECOND, "baseline", both)
    for config_id in OTHERS:
        start(config_id, "search", {False: design.repeats})
    picks = _picks(made, design.picks)
    middle = design.baseline - 2
    for turn in range(max(design.afresh, middle, design.second - 1)):
        if turn < middle:
            start("off", "confirm", both)
        if turn < design.second - 1:
            start(SECOND, "confirm", both)
        for config_id in picks if turn < design.afresh else ():
            start(config_id, "confirm", fresh)
    for config_id in _leads(spec, made) if design.lead else ():
        for _ in range(design.lead):
            start(config_id, "confirm", fresh)
    start("off", "closing", both)
    assert spec.loads == LOADS
    return made


def _leads(spec: StudySpec, made: Sequence[LaunchRecord]) -> dict[str, None]:
    """What wins or is ahead at an objective by a gain that matters, as a study's own third starts go."""
    found: dict[str, None] = {}
    for winner in judge(spec, made).winners:
        best = (winner.config, winner.gain) if winner.config.speculates else None
        if best is None and winner.ahead:
            best = (winner.ahead[0].config, winner.ahead[0].gain)
        if winner.concurrency in OBJECTIVES and best is not None and best[1].value > 1 + spec.worth:
            found[best[0].config_id] = None
    return found


def _phase(load: int, repeat: int, rate: float, *, held_out: bool) -> PhaseResult:
    tpot = 1000 * load / rate
    base = PhaseResult(load, repeat, 16, 4096, 10.0, rate, rate, tpot, 50.0)
    return replace(base, held_out=held_out)


def _picks(made: Sequence[LaunchRecord], count: int) -> list[str]:
    """The fastest of the search at each objective, then the next ones at C=100."""

    def ranked(load: int) -> list[str]:
        rates = {
            one.config.config_id: np.mean([phase.output_tps for phase in one.repeats(load)])
            for one in made
            if one.stage == "search"
        }
        return sorted(rates, key=lambda name: -float(rates[name]))

    wanted = dict.fromkeys([ranked(100)[0], ranked(1)[0], *ranked(100)])
    return list(wanted)[:count]


DESIGNS = {
    "no third start": Design(lead=0),
    "no third start, fresh starts repeat three times": Design(lead=0, again=3),
    "no third start, a fourth of the baseline": Design(lead=0, baseline=4),
    "no third start, but of each pick": Design(lead=0, afresh=3),
    "a third start of what leads (the default)": Design(),
    "the default, a fourth start of the baseline": Design(baseline=4),
    "a second baseline started once": Design(second=1),
    "a second baseline started twice (the default)": Design(second=2),
    "a second baseline started twice, fresh starts repeat three times": Design(second=2, again=3),
}
"""What a study may be spent on: rows in which 10% at C=100 are looked for, starts scatter by 2%, repeats by 3%."""
WORLDS = (
    World(0.0, 0.01), World(0.02, 0.01), World(0.02, 0.03), World(0.04, 0.01),
    World(0.02, 0.01, 0.1), World(0.02, 0.03, 0.1),
)  # fmt: skip


def _tallies(tasks: Sequence[tuple[World, Design, int]], options: argparse.Namespace) -> list[Tally]:
    """Of each task, over processes where there may be several."""
    worlds, designs, seeds = zip(*tasks, strict=True)
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        every = map if pool is None else pool.map
        return list(every(tally, worlds, designs, [options.studies] * len(tasks), seeds))


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.product", description=__doc__)
    parser.add_argument("--studies", type=int, default=400, metavar="N", help="of each world (default 400)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--designs", action="store_true", help="what a study may be spent on, instead of the worlds")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows there too")
    options = parser.parse_args(arguments)
    if options.designs:
        rows = _tallies([(World(0.02, 0.03, 0.1), design, 100) for design in DESIGNS.values()], options)
        print("| spent on | any false gain | found | its error |\n|---|---|---|---|")
        for name, row in zip(DESIGNS, rows, strict=True):
            print(f"| {name} | {row.any_gain:.1%} | {row.found:.1%} | {row.error:+.1%} |")
        return 0
    rows = _tallies([(world, Design(), seed) for seed, world in enumerate(WORLDS)], options)
    print("| starts, repeats | true gain at C=100 | any false gain | found | its error | drift | question |")
    print(f"|{'---|' * 7}")
    for row in rows:
        world = row.world
        found = f"{row.found:.1%} | {row.error:+.1%}" if world.gain else "- | -"
        print(
            f"| {world.between:.0%}, {world.within:.0%} | {world.gain:.0%} | {row.any_gain:.1%} | {found} "
            f"| {row.drift:.1%} | {row.question:.1%} |",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
