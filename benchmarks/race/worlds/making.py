"""From a seed to a table: a space, physics, faults, roughness and noise, as a recording with its truth."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Final, Literal, TypeAlias

from benchmarks.race.hypervolume import Point
from benchmarks.race.tables import TRUTH, Table
from benchmarks.race.worlds.drafts import Drafts
from benchmarks.race.worlds.limits import Limits
from benchmarks.race.worlds.passes import Passes
from search.config import SpecConfig, SpecVersion, tree_bound
from search.engines.recording import Recording, Row, write_recording
from search.outcomes import Outcome, Reason

Half: TypeAlias = Literal["building", "heldout"]
HALVES: Final[tuple[Half, ...]] = ("building", "heldout")
"""Even seeds are looked at while a sampler is built, odd ones only to judge it."""

ROUGH_EVERY: Final = 3
"""Every third world of a half is a rough one."""

LOADS: Final = (1, 100)
REPEATS: Final = 3
OUTPUT_TOKENS: Final = 256
REQUESTS: Final = {1: 16, 100: 300}
LEAST_CONFIGS: Final = 60
LEAST_FRONT: Final = 3
MOST_AT_START: Final = 0.9
"""A world whose first launches are nearly all there is to find is drawn anew."""


@dataclass(frozen=True, slots=True)
class _World:
    drafts: Drafts
    passes: Passes
    limits: Limits
    configs: tuple[SpecConfig, ...]
    known: tuple[SpecConfig, ...]
    release: str
    roughness: float
    noise: tuple[float, float]
    outliers: float
    boot_s: float


def make_world(seed: int) -> Table:
    """World number `seed`, the same on every machine.

    Worlds without a search worth the name (fewer than 60 configs, a front of fewer than three
    points, or nine tenths of the hypervolume in the first launches) are drawn anew from the same
    seed.
    """
    half = HALVES[seed % 2]
    rough = (seed // 2) % ROUGH_EVERY == ROUGH_EVERY - 1
    for attempt in count():
        rng = Random(f"race world {seed}/{attempt}")
        table = _table(_draw(rng, rough=rough), rng, seed=seed, half=half, rough=rough)
        worth = len(table.space.configs) >= LEAST_CONFIGS and len(table.front) >= LEAST_FRONT
        if worth and table.share(table.start) <= MOST_AT_START:
            return table
    raise AssertionError("unreachable: `count` has no end")


def write_world(folder: Path, table: Table) -> None:
    """The recording and its `truth.csv`, readable by `read_table`."""
    write_recording(folder, table.recording)
    with (folder / TRUTH).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("config_id", "feasible", "c1_tpot_ms", "c100_output_tps"))
        for config in table.space.configs:
            latency, throughput = table.truth.get(config, ("", ""))
            writer.writerow((config.config_id, int(config in table.truth), latency, throughput))


def _draw(rng: Random, *, rough: bool) -> _World:
    passes = Passes.draw(rng)
    new = rng.random() < 0.5
    configs = tuple(_space(rng, trees_on_v2=new))
    limits = Limits.draw(rng, base_ms=passes.base_ms, rough=rough)
    return _World(
        drafts=Drafts.draw(rng),
        passes=passes,
        limits=limits,
        configs=configs,
        known=_known(configs, rng),
        release="0.5.23" if new else "0.5.9",
        roughness=rng.uniform(0.03, 0.05) if rough else rng.uniform(0.0, 0.025),
        noise=(rng.uniform(0.04, 0.06), rng.uniform(0.015, 0.03))
        if rough
        else (rng.uniform(0.004, 0.03), rng.uniform(0.003, 0.015)),
        outliers=rng.choice((0.0, 0.02, 0.05)),
        boot_s=math.exp(rng.uniform(math.log(45.0), math.log(900.0))),
    )


def _space(rng: Random, *, trees_on_v2: bool) -> Iterator[SpecConfig]:
    """What a study would open: both workers, two or three widths, four to six depths, trees cut to a few sizes."""
    topks = [1, *sorted(rng.sample((2, 4, 8), k=rng.choice((2, 2, 3))))]
    depths = sorted({2, 3, *rng.sample(range(1, 7), k=rng.choice((4, 5, 6)))})
    sizes = sorted(rng.sample((4, 6, 8, 12, 16, 24, 32, 64), k=rng.choice((4, 5, 6))))
    fusions = ("off", "auto") if rng.random() < 0.7 else ("off",)
    for fusion in fusions:
        yield SpecConfig(SpecVersion.OFF, allreduce_fusion=fusion)
    for version, topk, steps, fusion in product((SpecVersion.V1, SpecVersion.V2), topks, depths, fusions):
        bound = tree_bound(topk=topk, num_steps=steps)
        if topk == 1:
            yield SpecConfig(version, 1, steps, steps + 1, fusion)
        elif version is SpecVersion.V1 or trees_on_v2:
            for tokens in [size for size in sizes if steps < size <= bound]:
                yield SpecConfig(version, topk, steps, tokens, fusion)


def _known(configs: tuple[SpecConfig, ...], rng: Random) -> tuple[SpecConfig, ...]:
    """A chain on v2 and a tree on v1 of at most 16 tokens, as people tend to try first."""
    trees = [
        config
        for config in configs
        if config.spec_version is SpecVersion.V1
        and (config.topk or 0) > 1
        and config.verify_tokens <= 16
        and config.allreduce_fusion == "off"
    ]
    chain = SpecConfig(SpecVersion.V2, 1, 2, 3)
    return (chain, rng.choice(trees)) if trees else (chain,)


def _truth(world: _World, config: SpecConfig, rng: Random) -> tuple[Point, dict[int, tuple[float, ...]]]:
    """Both objectives, and at each load the chance to accept at least 1, 2, … drafts."""
    reached = {load: world.drafts.reach(config, loaded=load > 1) for load in LOADS}
    alone = world.passes.cycle_ms(config, 1) / (1.0 + sum(reached[1]))
    running = world.limits.running(config, LOADS[1])
    cycle_ms = world.passes.cycle_ms(config, running)
    # While a request generates, each of the others prefills once: nobody generates meanwhile.
    request_ms = OUTPUT_TOKENS / (1.0 + sum(reached[100])) * cycle_ms + running * world.limits.prefill_ms
    together = 1000.0 * running * OUTPUT_TOKENS / request_ms * world.limits.kept(config, running)
    rough = [math.exp(rng.gauss(0.0, world.roughness)) for _ in LOADS]
    return (alone * rough[0], together / rough[1]), reached


def _table(world: _World, rng: Random, *, seed: int, half: Half, rough: bool) -> Table:
    truth: dict[SpecConfig, Point] = {}
    rows: list[Row] = []
    baseline = world.configs[0]
    safe = {baseline, *world.known}
    for number, config in enumerate(_shuffled(world.configs, rng), start=1):
        point, reached = _truth(world, config, rng)
        failure = world.limits.failure(config, rng)
        if config in safe:
            failure = None  # people name configs that they have seen run
        boot_s = world.boot_s * math.exp(rng.gauss(0.0, 0.05)) * (1.05 if config.allreduce_fusion != "off" else 1.0)
        if failure is not None:
            rows.append(_failed(config, number, failure, boot_s * rng.uniform(0.6, 1.1)))
            continue
        truth[config] = point
        rows += _repeats(world, config, number, point, reached, boot_s, rng)
    meta = {
        "name": f"own-{seed:04d}",
        "synthetic": True,
        "model": "synthetic",
        "draft": "synthetic",
        "algorithm": "EAGLE3",
        "gpus": "none",
        "versions": {"sglang": world.release},
        "concurrencies": list(LOADS),
        "objectives": {"c1_tpot_ms": "minimize", "c100_output_tps": "maximize"},
        "baseline": baseline.config_id,
        "known": [config.config_id for config in world.known],
        "rough": rough,
        "note": "synthetic: computed, not measured on any GPU",
    }
    return Table(
        group=f"{half}-rough" if rough else half, recording=Recording(meta, tuple(rows)), truth=truth, rough=rough
    )


def _shuffled(configs: tuple[SpecConfig, ...], rng: Random) -> list[SpecConfig]:
    rest = list(configs[1:])
    rng.shuffle(rest)
    return [configs[0], *rest]


def _failed(config: SpecConfig, number: int, reason: Reason, boot_s: float) -> Row:
    return Row(config=config, launch=number, outcome=Outcome.FAILED, reason=reason, boot_s=round(boot_s, 1))


def _repeats(
    world: _World,
    config: SpecConfig,
    number: int,
    point: Point,
    reached: dict[int, tuple[float, ...]],
    boot_s: float,
    rng: Random,
) -> Iterator[Row]:
    for repeat, (place, load) in product(range(1, REPEATS + 1), enumerate(LOADS)):
        slower = math.exp(rng.gauss(0.0, world.noise[place]))
        if rng.random() < world.outliers:
            slower *= rng.uniform(1.05, 1.2)
        tpot_ms = slower * (point[0] if load == 1 else 1000.0 * load / point[1])
        output_tps = (1000.0 / point[0] if load == 1 else point[1]) / slower
        histogram = _histogram(reached[load], REQUESTS[load], rng)
        accepted = None if not histogram else 1.0 + sum(n * k for n, k in enumerate(histogram)) / sum(histogram)
        yield Row(
            config=config,
            launch=number,
            outcome=Outcome.MEASURED,
            concurrency=load,
            repeat=repeat,
            requests=REQUESTS[load],
            output_tps=round(output_tps, 3),
            tpot_ms=round(tpot_ms, 5),
            ttft_ms=round(world.limits.prefill_ms * (1.0 if load == 1 else 3.0) * rng.uniform(1.0, 1.2), 2),
            accept_length=None if accepted is None else round(accepted, 4),
            accept_histogram=histogram,
            boot_s=round(boot_s, 1),
            duration_s=round(REQUESTS[load] * OUTPUT_TOKENS / output_tps, 1),
        )


def _histogram(reached: tuple[float, ...], requests: int, rng: Random) -> tuple[int, ...]:
    """Verify passes by drafts accepted; every bin strays as a count does."""
    if not reached:
        return ()
    passes = requests * OUTPUT_TOKENS / (1.0 + sum(reached))
    edges = (1.0, *reached, 0.0)
    expected = [passes * (edges[i] - edges[i + 1]) for i in range(len(edges) - 1)]
    counts = [max(0, round(mean + math.sqrt(max(mean, 0.0)) * rng.gauss(0.0, 1.0))) for mean in expected]
    return (max(1, counts[0]), *counts[1:])
