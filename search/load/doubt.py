"""How far a number may be off, and whether two numbers differ.

Two sources of doubt are combined: the sample within a repeat (prompts, or slices of the steady
window; by bootstrap) and the spread between repeats. Two repeats alone say little about a
spread, so it is drawn towards what repeats of one phase usually differ by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np
import numpy.typing as npt

from search.contracts import PhaseResult

DRAWS = 2000
REPEAT_CV = 0.01
"""Assumed spread between repeats, relative to the value: about 1 % on a quiet host."""
REPEAT_CV_WEIGHT = 4
"""How many observed deviations the assumption counts for."""

_FALL = 0.15
_PASSES = 200

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % interval; `lo` and `hi` are None where nothing tells the doubt."""

    value: float
    lo: float | None = None
    hi: float | None = None


def tpot_estimate(repeats: Sequence[PhaseResult], *, rng: np.random.Generator) -> Estimate:
    """Mean time per output token over prompts and repeats, in ms.

    Prompts are resampled as whole rows: a prompt's repeats stay together, since a slow prompt is
    slow in each of them.

    Raises:
        ValueError: There is no repeat that tells it.
    """
    samples = [np.asarray(r.prompt_tpot_ms, dtype=float) for r in repeats if len(r.prompt_tpot_ms) > 1]
    offsets = None
    if samples:
        shared = min(len(sample) for sample in samples)
        offsets = _bootstrap(np.mean([sample[:shared] for sample in samples], axis=0), rng)
    return _estimate([r.tpot_ms for r in repeats if r.tpot_ms is not None], offsets, rng)


def throughput_estimate(repeats: Sequence[PhaseResult], *, rng: np.random.Generator) -> Estimate:
    """Mean steady-window throughput over repeats, in tokens per second.

    Slices are resampled within each repeat: unlike prompts, slice 3 of one repeat has nothing in
    common with slice 3 of another.

    Raises:
        ValueError: There is no repeat.
    """
    samples = [np.asarray(r.window_tps, dtype=float) for r in repeats if len(r.window_tps) > 1]
    offsets = np.mean([_bootstrap(sample, rng) for sample in samples], axis=0) if samples else None
    return _estimate([r.output_tps for r in repeats], offsets, rng)


def separable(a: Estimate, b: Estimate) -> bool | None:
    """Whether two independent estimates differ beyond doubt; None where a doubt is not known.

    The gap must exceed the two half-intervals that face each other, added as independent
    errors add: in squares.
    """
    low, high = (a, b) if a.value <= b.value else (b, a)
    if low.hi is None or high.lo is None:
        return None
    return high.value - low.value > hypot(low.hi - low.value, high.value - high.lo)


def accept_drift(c1: PhaseResult, loaded: PhaseResult) -> bool:
    """Whether accept length fell under load beyond doubt (ACCEPT_DRIFT).

    A fall of over 15 % with at least 200 verify passes on both sides. A pass accepts some 1 ± 1
    drafts, and prompts differ by some 20 % in accept length, so over the handful of prompts of a
    C=1 phase chance alone stays under about 15 %; the faults seen fell by half (2.37 to 1.15,
    2.6 to 1.26). Accept length does not depend on load in a correct server: greedy, same prompts.
    """
    if c1.accept_length is None or loaded.accept_length is None:
        return False
    enough = all((r.output_tokens or 0) / (r.accept_length or 1) >= _PASSES for r in (c1, loaded))
    return enough and loaded.accept_length < (1 - _FALL) * c1.accept_length


def _bootstrap(sample: Floats, rng: np.random.Generator) -> Floats:
    """`DRAWS` deviations of the mean of a resampled `sample` from its own mean."""
    picks = rng.integers(len(sample), size=(DRAWS, len(sample)))
    deviations: Floats = sample[picks].mean(axis=1) - sample.mean()
    return deviations


def _estimate(values: Sequence[float], offsets: Floats | None, rng: np.random.Generator) -> Estimate:
    """Combine deviations within repeats with the spread between the repeats' `values`.

    One value without samples gets no interval: one that rests on the assumption alone would
    look measured.
    """
    if not values:
        raise ValueError("an estimate needs at least one repeat, but got none")
    count = len(values)
    value = float(np.mean(values))
    if offsets is None and count == 1:
        return Estimate(value)
    squares = float(np.sum((np.asarray(values) - value) ** 2))
    freedom = REPEAT_CV_WEIGHT + count - 1
    spread = ((REPEAT_CV_WEIGHT * (REPEAT_CV * value) ** 2 + squares) / freedom) ** 0.5
    draws = value + rng.standard_t(freedom, size=DRAWS) * spread / count**0.5
    if offsets is not None:
        draws = draws + offsets
    lo, hi = np.quantile(draws, (0.025, 0.975))
    return Estimate(value, max(0.0, min(float(lo), value)), max(float(hi), value))
