"""Invented deployments whose formulas are not those of the belief: for tests of calibration and of samplers.

Acceptance saturates as a stretched exponential of depth instead of growing a tree; a pass costs what a
random rising curve through a few knots says; knobs multiply by amounts that depend on the size of
the pass; each config has luck of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from search.config import SpecConfig, SpecVersion, tree_bound


@dataclass(frozen=True)
class Invented:
    """One invented table, free of noise.

    Attributes:
        configs: All of its space; the first is the baseline.
        ms_per_token: Of one request, by config and load.
        accept_length: By config and load; 1 without speculation.
        histogram: Share of verify passes that accepted 0, 1, 2, … drafts, for chains.
        failing: Configs that do not start.
        noise: Relative standard deviation of one mean over repeats.
    """

    configs: tuple[SpecConfig, ...]
    ms_per_token: dict[tuple[SpecConfig, int], float]
    accept_length: dict[tuple[SpecConfig, int], float]
    histogram: dict[tuple[SpecConfig, int], tuple[float, ...]]
    failing: frozenset[SpecConfig]
    noise: float


def invented_space(rng: np.random.Generator) -> tuple[SpecConfig, ...]:
    """A space as studies have them: two workers, some widths and depths, perhaps one more knob."""
    widths = sorted({1, *rng.choice([2, 3, 4, 8], size=rng.integers(1, 4), replace=False).tolist()})
    depths = sorted({1, 2, *rng.choice([3, 4, 5, 6, 8], size=rng.integers(2, 4), replace=False).tolist()})
    sizes = [3, 5, 8, 16, 32, 64]
    knob = [("off", ()), ("auto", ())] if rng.random() < 0.5 else [("off", ()), ("off", (("page_size", 64),))]
    wide_v2 = rng.random() < 0.5
    configs = [SpecConfig(SpecVersion.OFF, allreduce_fusion=fusion, extra=extra) for fusion, extra in knob]
    for version in (SpecVersion.V1, SpecVersion.V2):
        for topk in widths:
            if version is SpecVersion.V2 and topk > 1 and not wide_v2:
                continue
            for steps in depths:
                room = tree_bound(topk=topk, num_steps=steps)
                tokens = [steps + 1] if topk == 1 else sorted({size for size in sizes if steps < size <= room} | {room})
                for size in tokens:
                    if size > 72:
                        continue
                    configs += [SpecConfig(version, topk, steps, size, fusion, extra) for fusion, extra in knob]
    return tuple(configs)


def invented(seed: int, *, loads: Sequence[int] = (1, 100), roughness: float = 0.015, noise: float = 0.01) -> Invented:
    """Make one table.

    Args:
        seed: Of everything in it.
        loads: Concurrencies.
        roughness: Relative standard deviation of each config's own luck.
        noise: Stated in the result; the table itself is without.
    """
    rng = np.random.default_rng((seed, 77))
    configs = invented_space(rng)
    most, reach, bend = rng.uniform(0.8, 4.5), rng.uniform(1.0, 4.0), rng.uniform(0.7, 1.2)
    width_gain, thirst = rng.uniform(0.03, 0.35), rng.uniform(0.3, 1.5)
    collapse = rng.uniform(0.2, 0.7) if rng.random() < 0.25 else 1.0
    scale = np.exp(rng.normal(np.log(9.0), 0.7))
    knots = np.log2([1, 4, 16, 64, 128, 256, 512, 1024, 4096, 20000])
    rises = rng.gamma(0.6, 0.35, len(knots) - 1) * np.linspace(0.3, 1.6, len(knots) - 1)
    curve = np.concatenate([[0.0], np.cumsum(rises)])
    requests_cost, draft = rng.uniform(0.0, 0.5), np.exp(rng.normal(np.log(0.05), 0.6))
    host = {
        SpecVersion.V1: np.exp(rng.normal(np.log(0.12), 0.7)),
        SpecVersion.V2: np.exp(rng.normal(np.log(0.04), 0.8)),
    }
    knob_small, knob_large = rng.normal(-0.02, 0.06), rng.normal(-0.02, 0.06)
    edge = rng.choice([40.0, 70.0, 1e9])
    luck = roughness * rng.standard_normal((len(configs), len(loads)))
    times, accepts, histograms, failing = {}, {}, {}, set()
    for place, config in enumerate(configs):
        steps, topk, tokens = config.num_steps or 0, config.topk or 1, config.verify_tokens
        for at, load in enumerate(loads):
            batch = tokens * load
            cycle = np.exp(np.interp(np.log2(batch), knots, curve)) + requests_cost * load / 100
            length = 1.0
            if config.speculates:
                fill = 1.0 - np.exp(-thirst * (tokens - 1) / (steps * topk**0.5))
                shares = most * (1.0 - np.exp(-((np.arange(1, steps + 1) / reach) ** bend)))
                gain = min(shares[-1] * (1.0 + width_gain * np.log2(topk)) * (fill if topk > 1 else 1.0), 0.97 * steps)
                drop = collapse if config.spec_version is SpecVersion.V1 and load > 10 else 1.0
                length = 1.0 + gain * drop
                cycle += draft * steps * (1.0 + 0.002 * load * topk) + host[config.spec_version] * (1.0 + load / 150)
                if topk == 1:
                    reached = np.diff(np.concatenate([[0.0], np.minimum(shares, 0.97 * np.arange(1, steps + 1))]))
                    steps_down = np.concatenate([[1.0], np.minimum.accumulate(np.minimum(reached, 1.0)) * drop, [0.0]])
                    histograms[config, load] = tuple(float(share) for share in -np.diff(steps_down))
                    length = 1.0 + float(steps_down[1:].sum())
            if config.allreduce_fusion != "off" or config.extra:
                small = np.exp(-batch / 200)
                cycle *= np.exp(knob_small * small + knob_large * (1 - small))
            times[config, load] = float(scale * cycle / length * np.exp(luck[place, at]))
            accepts[config, load] = float(length)
        if config.speculates and tokens * (1 + 0.1 * topk) > edge:
            failing.add(config)
    return Invented(configs, times, accepts, histograms, frozenset(failing), noise)
