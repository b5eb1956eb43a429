"""How far a number may be off inside one start; what starts differ by is not in it (`search.stats.scatter`).

Two sources of uncertainty are combined: the sample within a repeat (prompts, or slices of the steady
window; by bootstrap) and the spread between repeats. Two repeats alone say little about a
spread, so it is drawn towards what repeats of one phase usually differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy import special

from search.contracts import PhaseResult

DRAWS = 2000
REPEAT_CV = 0.01
"""Assumed spread between repeats, relative to the value: about 1 % on a quiet host."""
REPEAT_CV_WEIGHT = 2
"""How many observed deviations the assumption counts for. With two, intervals hold the truth in 95 to
99 % of cases where repeats differ by 1 % or less, and in about 87 % where they differ by 3 % (and UNSTABLE
is then likely); with four, in 76 % there."""

_SEED = 20240501

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval; `lo` and `hi` are None where the uncertainty is unknown."""

    value: float
    lo: float | None = None
    hi: float | None = None


def tpot_estimate(repeats: Sequence[PhaseResult], *, rng: np.random.Generator) -> Estimate:
    """Mean time per output token over prompts and repeats, in ms.

    Prompts are resampled as whole rows: a prompt's repeats stay together, since a slow prompt is
    slow in each of them. Repeats that name their prompts are matched by name, others by place.

    Raises:
        ValueError: No repeat has it.
    """
    values = [r.tpot_ms for r in repeats if r.tpot_ms is not None]
    rows = _by_prompt(repeats)
    if rows:
        sample = np.asarray(list(rows.values()))
    else:
        samples = [np.asarray(r.prompt_tpot_ms, dtype=float) for r in repeats if len(r.prompt_tpot_ms) > 1]
        shared = min((len(one) for one in samples), default=0)
        sample = np.mean([one[:shared] for one in samples], axis=0) if samples else np.empty(0)
    return _estimate(values, _bootstrap(sample, rng) if len(sample) > 1 else None, rng)


def throughput_estimate(repeats: Sequence[PhaseResult], *, rng: np.random.Generator) -> Estimate:
    """Mean steady-window throughput over repeats, in tokens per second.

    Slices are resampled within each repeat: unlike prompts, slice 3 of one repeat has nothing in
    common with slice 3 of another. Neighbouring slices do (a burst of prefills, a full batch), so
    they are drawn in blocks.

    Raises:
        ValueError: There is no repeat.
    """
    samples = [np.asarray(r.window_tps, dtype=float) for r in repeats if len(r.window_tps) > 1]
    values = [r.output_tps for r in repeats]
    if not samples:
        return _estimate(values, None, rng)
    freedom = sum(len(sample) - 1 for sample in samples)
    drawn = [_block_bootstrap(sample, rng) for sample in samples]
    # Repeats differ by the noise of their slices too, which the bootstrap has counted already.
    noise = fmean(float(one.var()) for one in drawn)
    return _estimate(values, np.mean(drawn, axis=0) * _heavier_tails(freedom), rng, noise=noise)


def mean_estimate(values: Sequence[float], *, rng: np.random.Generator) -> Estimate:
    """Mean over repeats of a metric without samples within a repeat, such as a percentile; one repeat has no interval.

    Raises:
        ValueError: There is no value.
    """
    return _estimate(values, None, rng)


def rate_of(tpot: Estimate) -> Estimate:
    """Tokens per second of one stream; the ends of the interval change places."""
    return Estimate(1000 / tpot.value, 1000 / tpot.hi if tpot.hi else None, 1000 / tpot.lo if tpot.lo else None)


def _by_prompt(repeats: Sequence[PhaseResult]) -> dict[str, float]:
    """Time per token by prompt, mean over its answers; empty unless every repeat that has times names its prompts."""
    found: dict[str, list[float]] = {}
    for repeat in repeats:
        if not repeat.prompt_tpot_ms:
            continue
        if len(repeat.prompt_ids) != len(repeat.prompt_tpot_ms):
            return {}
        for name, ms in zip(repeat.prompt_ids, repeat.prompt_tpot_ms, strict=True):
            found.setdefault(name, []).append(ms)
    return {name: fmean(times) for name, times in found.items()}


def _bootstrap(sample: Floats, rng: np.random.Generator) -> Floats:
    """`DRAWS` deviations of the mean of a resampled `sample` from its own mean."""
    picks = rng.integers(len(sample), size=(DRAWS, len(sample)))
    deviations: Floats = sample[picks].mean(axis=1) - sample.mean()
    return deviations * _small_sample(len(sample))


def _block_bootstrap(sample: Floats, rng: np.random.Generator) -> Floats:
    """As `_bootstrap`, in circular blocks of n^(1/3) neighbours (Politis and Romano 1992); under eight, singly."""
    count = len(sample)
    block = int(count ** (1 / 3) + 1e-9)
    starts = rng.integers(count, size=(DRAWS, -(-count // block)))
    picks = (starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, :count] % count
    deviations: Floats = sample[picks].mean(axis=1) - sample.mean()
    return deviations * sqrt(count / (count - 1))


@lru_cache(maxsize=1024)
def _small_sample(count: int) -> float:
    """What a percentile interval lacks in small samples: n - 1 for n, and t for the normal (Hesterberg 2015)."""
    return sqrt(count / (count - 1)) * _heavier_tails(count - 1)


@lru_cache(maxsize=1024)
def _heavier_tails(freedom: int) -> float:
    """The 97.5 % quantile of Student's t / that of the normal distribution."""
    return float(special.stdtrit(freedom, 0.975) / special.ndtri(0.975))


def _estimate(
    values: Sequence[float], offsets: Floats | None, rng: np.random.Generator, *, noise: float = 0.0
) -> Estimate:
    """Combine deviations within repeats with the spread between the repeats' `values`.

    `noise` is the variance of a value that the deviations explain. One value without samples gets no interval: one from the assumption alone would
    look measured.
    """
    if not values:
        raise ValueError("an estimate needs at least one repeat, but got none")
    count = len(values)
    value = float(np.mean(values))
    if offsets is None and count == 1:
        return Estimate(value)
    spread, freedom = _spread(values, noise)
    draws = value + rng.standard_t(freedom, size=DRAWS) * spread / count**0.5
    if offsets is not None:
        draws = draws + offsets
    lo, hi = np.quantile(draws, (0.025, 0.975))
    return Estimate(value, max(0.0, min(float(lo), value)), max(float(hi), value))


def _spread(values: Sequence[float], noise: float = 0.0) -> tuple[float, int]:
    """Standard deviation between repeats beyond `noise`, drawn towards the assumed one, and its degrees of freedom."""
    value = float(np.mean(values))
    squares = max(0.0, float(np.sum((np.asarray(values) - value) ** 2)) - (len(values) - 1) * noise)
    freedom = REPEAT_CV_WEIGHT + len(values) - 1
    return sqrt((REPEAT_CV_WEIGHT * (REPEAT_CV * value) ** 2 + squares) / freedom), freedom
