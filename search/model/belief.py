"""Belief: every config's time per token at every load, with its uncertainty, given what was measured so far.

The prior is an ensemble of invented deployments (`mechanisms`) plus a Gaussian-process residual on a
kernel that knows the tree (`residual`). Conditioning is closed form and exact up to one choice:

1. Draws are weighted by a tempered likelihood (the residual is integrated out), as far as at least
   `_EFFECTIVE` draws keep their say. This part is not linear: a collapse or a tile edge is kept or dropped.
2. The rest of the likelihood updates the weighted draws as a Gaussian (an ensemble Kalman step).
3. The residual is conditioned on what the draws leave over.

This is repeated for a few residual scales, weighted by their evidence: a study whose numbers follow
the mechanisms gets narrow bands, a rough one wide bands. The posterior is that mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from search.config import SpecConfig
from search.errors import UsageError
from search.model.blas import one_blas_thread
from search.model.mechanisms import Surfaces, sample_surfaces
from search.model.observations import Observation
from search.model.planes import sample_planes
from search.model.residual import Scales, TreeKernel
from search.model.rows import Rows, rows_of

Floats: TypeAlias = NDArray[np.float64]

_GRID: Final = tuple(
    (Scales(smooth, rough), share)
    for smooth, share in ((0.03, 0.35), (0.08, 0.4), (0.2, 0.25))
    for rough in (0.006, 0.03, 0.07)
)
"""Residual scales and their prior shares; the measurements choose among them."""
_EFFECTIVE: Final = 400.0
"""Draws that keep their say after the tempered step, in effective number; never more than 15% of all."""
_LARGE_SPACE: Final = 1500
"""Beyond so many configs only the likeliest scales are used: under a second per ask at 10,000."""
DRAWS: Final = 3000
_WORK: Final = 2_000_000
"""Draws x configs x loads at most: large spaces get fewer draws, at least 160."""
_UNIT_LOG_MS, _UNIT_SD = float(np.log(12.0)), 1.3
"""A plain pass at concurrency 1 takes 12 ms, or a quarter, or four times as much."""
_AMPLITUDE: Final = (0.7, 0.15)
"""Smooth misses grow with the pass: their scale for one token, and what each doubling of its tokens adds."""
_DISCREPANCY: Final = 0.05
"""What no residual scale explains, of a config that was not measured: as many launches accumulate, the ensemble grows
surer than it is right (`benchmarks.calibration`; Kennedy and O'Hagan 2001 on why a model needs such a term). It widens
the bands that are reported. Choosing by them costs launches, so choices do without."""
_LOADS_ALIKE: Final = {"accept": 0.8, "smooth": 0.5, "rough": 0.4}
"""Correlation of a miss at one load with that at another."""


@dataclass(frozen=True)
class Prior:
    """What is thought of a space before any launch; made once per study."""

    configs: tuple[SpecConfig, ...]
    loads: tuple[int, ...]
    surfaces: Surfaces
    kernel: TreeKernel
    index: dict[SpecConfig, int] = field(repr=False)

    @classmethod
    def of(
        cls,
        configs: Sequence[SpecConfig],
        loads: Sequence[int] = (1, 100),
        *,
        seed: int = 0,
        draws: int | None = None,
        physics: bool = True,
    ) -> Prior:
        """Draw the ensemble.

        Args:
            configs: All configs to be predicted, locked ones too.
            loads: Concurrencies to be observed or predicted.
            seed: Of the draws.
            draws: So many; without it 3,000, and fewer for large spaces.
            physics: Whether they are deployments, or (to show what that pays) planes over the raw knobs.
        """
        if len(set(loads)) != len(loads) or any(load < 1 for load in loads):
            raise UsageError(f"Loads are different whole numbers from 1, but got {tuple(loads)}. Remove the others.")
        draws = draws or int(np.clip(_WORK / max(1, len(configs) * len(loads)), 160, DRAWS))
        rng = np.random.default_rng((seed, 20))
        return cls(
            configs=tuple(configs),
            loads=tuple(loads),
            surfaces=(sample_surfaces if physics else sample_planes)(configs, loads, draws=draws, rng=rng),
            kernel=TreeKernel(configs),
            index={config: place for place, config in enumerate(configs)},
        )

    def part(self, configs: Sequence[SpecConfig]) -> Prior:
        """The same draws for a few of the configs, for beliefs that are made many times."""
        kept = tuple(dict.fromkeys(configs))
        at = [self.index[config] for config in kept]
        return Prior(
            configs=kept,
            loads=self.loads,
            surfaces=Surfaces(self.surfaces.accept[:, at], self.surfaces.cycle[:, at]),
            kernel=TreeKernel(kept),
            index={config: place for place, config in enumerate(kept)},
        )

    @cached_property
    def times(self) -> Floats:
        """Log time per token of each draw, shape (loads, draws, configs): a belief reads one load at a time."""
        return np.ascontiguousarray(np.moveaxis(self.surfaces.cycle - self.surfaces.accept, 2, 0))

    def load_index(self, load: int) -> int:
        """Place of a load.

        Raises:
            UsageError: The prior was not made for it.
        """
        if load not in self.loads:
            raise UsageError(f"Beliefs were made for the loads {self.loads}, but got {load}. Add it to `loads`.")
        return self.loads.index(load)


@dataclass(frozen=True)
class Belief:
    """A mixture of Gaussians over log milliseconds per token of one request.

    Attributes:
        prior: Space and loads.
        weights: Of the components, shape (k,); they sum to 1.
        mean: Log milliseconds, shape (k, configs, loads).
        sd: Standard deviation of the same.
        correlation: Between the first and the last load, shape (k, configs).
        scales: Residual scales of the components.
        noise: Of a launch, as a share of its value, one standard deviation by load, as far as repeats show it.
        measured: Whether this study measured a config at a load, shape (configs, loads).
    """

    prior: Prior
    weights: Floats
    mean: Floats
    sd: Floats
    correlation: Floats
    scales: tuple[Scales, ...]
    noise: Floats
    measured: NDArray[np.bool_]

    @classmethod
    def given(cls, prior: Prior, observations: Sequence[Observation]) -> Belief:
        """Condition the prior on observations; those outside the space are ignored."""
        with one_blas_thread():
            return cls._given(prior, rows_of(observations, prior.index, prior.loads))

    @classmethod
    def _given(cls, prior: Prior, rows: Rows) -> Belief:
        parts = _Parts(prior, rows)
        evidence = np.empty(len(_GRID))
        solved = []
        for place, (scales, share) in enumerate(_GRID):
            update = _Update(parts, scales)
            evidence[place] = update.log_evidence + np.log(share)
            solved.append(update)
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        kept = np.flatnonzero(weights > 0.03)
        if len(prior.configs) > _LARGE_SPACE:
            kept = np.array([int(np.argmax(weights))])
        weights = weights[kept] / weights[kept].sum()
        marginals = [solved[place].marginals() for place in kept]
        return cls(
            prior,
            weights,
            np.stack([mean for mean, _, _ in marginals]),
            np.stack([sd for _, sd, _ in marginals]),
            np.stack([correlation for _, _, correlation in marginals]),
            tuple(_GRID[place][0] for place in kept),
            rows.noise,
            _measured(prior, rows),
        )

    def expected(self, load: int) -> Floats:
        """Mean log milliseconds per token at a load, shape (configs,)."""
        result: Floats = self.weights @ self.mean[:, :, self.prior.load_index(load)]
        return result

    def std(self, load: int) -> Floats:
        """Standard deviation of log milliseconds at a load, shape (configs,)."""
        at = self.prior.load_index(load)
        second = self.weights @ (self.sd[:, :, at] ** 2 + self.mean[:, :, at] ** 2)
        return np.sqrt(np.maximum(second - self.expected(load) ** 2, 0.0))

    def probability_below(self, log_ms: Floats | float, load: int, *, of_launch: bool = False) -> Floats:
        """Chance that a config takes fewer log milliseconds than `log_ms`, shape (configs,).

        With `of_launch`, that a launch of it shows fewer: noise and the model's own uncertainty included.
        """
        at = self.prior.load_index(load)
        return np.asarray(self.weights @ ndtr((log_ms - self.mean[:, :, at]) / self._sd(at, of_launch)))

    def quantile(self, probability: float, load: int, *, of_launch: bool = False) -> Floats:
        """Log milliseconds that a config stays below with `probability`, shape (configs,); `of_launch` as above."""
        at = self.prior.load_index(load)
        sd = self._sd(at, of_launch)
        low, high = (self.mean[:, :, at] - 8.0 * sd).min(axis=0), (self.mean[:, :, at] + 8.0 * sd).max(axis=0)
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = self.probability_below(middle, load, of_launch=of_launch) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))

    def _sd(self, at: int, of_launch: bool) -> Floats:
        """Of each component and config at one load."""
        if not of_launch:
            return np.maximum(self.sd[:, :, at], 1e-12)
        besides = np.hypot(self.noise[at], np.where(self.measured[:, at], 0.0, _DISCREPANCY))
        return np.asarray(np.hypot(self.sd[:, :, at], besides))


def _measured(prior: Prior, rows: Rows) -> NDArray[np.bool_]:
    """Configs and loads with a time per token of this study, not of an earlier one."""
    result = np.zeros((len(prior.configs), len(prior.loads)), dtype=bool)
    own = (rows.cycle > 0) & (rows.off == 0)
    result[rows.config[own], rows.load[own]] = True
    return result


class _Parts:
    """What all residual scales share: draws and correlations at the rows."""

    def __init__(self, prior: Prior, rows: Rows) -> None:
        self.prior, self.rows = prior, rows
        surfaces, at = prior.surfaces, (slice(None), rows.config, rows.load)
        self.drawn = rows.accept * surfaces.accept[at] + rows.cycle * surfaces.cycle[at]
        self.time = prior.times
        every = np.arange(len(prior.configs))
        self.tree = prior.kernel(every, rows.config, workers_differ=False)
        self.near = prior.kernel(every, rows.config)
        self.speculates = np.array([config.speculates for config in prior.configs], dtype=float)
        tokens = np.outer([config.verify_tokens for config in prior.configs], prior.loads)
        self.amplitude = _AMPLITUDE[0] + _AMPLITUDE[1] * np.log2(tokens)
        self.row_amplitude = self.amplitude[rows.config, rows.load]

    def alike(self, kind: str, load: NDArray[np.int_] | int) -> Floats:
        """Correlation across loads: rows against one load, or against the rows' own."""
        loads = np.atleast_1d(load)
        return np.asarray(np.where(loads[:, None] == self.rows.load[None, :], 1.0, _LOADS_ALIKE[kind]))


class _Update:
    """The conditional of one pair of residual scales."""

    def __init__(self, parts: _Parts, scales: Scales) -> None:
        self._parts, self._scales = parts, scales
        rows = parts.rows
        covariance = self._covariance()
        covariance[np.diag_indices_from(covariance)] += rows.variance
        factor = cholesky(covariance, lower=True) if len(rows.value) else np.zeros((0, 0))
        left = rows.value - rows.cycle * _UNIT_LOG_MS - parts.drawn
        white = solve_triangular(factor, left.T, lower=True) if len(rows.value) else np.zeros((0, len(left)))
        loglik = -0.5 * (white**2).sum(axis=0)
        power = _tempering(loglik)
        raised = power * loglik
        log_det = 2.0 * np.log(np.diag(factor)).sum()
        top = raised.max()
        weights = np.exp(raised - top)
        self.log_evidence = float(top + np.log(weights.mean()) - 0.5 * log_det)
        weights /= weights.sum()
        self._kept = np.flatnonzero(weights > 1e-3 / len(weights)) if power > 0 else np.arange(len(weights))
        self._weights = weights[self._kept] / weights[self._kept].sum()
        self._factor = factor
        drawn = parts.drawn[self._kept]
        self._centre = self._weights @ drawn
        self._anomalies = (np.sqrt(self._weights)[:, None] * (drawn - self._centre)).T
        self._off_centre = rows.value - rows.cycle * _UNIT_LOG_MS - self._centre
        self._gain: Floats | None = None
        self._after = self._off_centre
        if power < 1.0 and len(rows.value):
            inflated = covariance / (1.0 - power)
            spread = self._anomalies @ self._anomalies.T
            self._gain = cholesky(spread + inflated, lower=True)
            self._pull = solve_triangular(
                self._gain.T, solve_triangular(self._gain, self._off_centre, lower=True), lower=False
            )
            self._after = self._off_centre - spread @ self._pull
            self.log_evidence += float(
                -0.5 * self._off_centre @ self._pull
                - np.log(np.diag(self._gain)).sum()
                + 0.5 * (log_det - len(rows.value) * np.log(1.0 - power))
            )

    def _covariance(self) -> Floats:
        """Residual covariance of the rows with one another."""
        parts, scales = self._parts, self._scales
        rows = parts.rows
        at = rows.config
        trees = (
            np.outer(rows.accept, rows.accept) * scales.accept**2 * parts.tree[at] * parts.alike("accept", rows.load)
        )
        smooth = scales.smooth**2 * np.outer(parts.row_amplitude, parts.row_amplitude) * parts.near[at]
        alone = scales.rough**2 * (at[:, None] == at[None, :])
        passes = _UNIT_SD**2 + smooth * parts.alike("smooth", rows.load) + alone * parts.alike("rough", rows.load)
        result: Floats = trees + np.outer(rows.cycle, rows.cycle) * passes
        return result + rows.shared() if rows.off.any() else result

    def _cross(self, load: int) -> Floats:
        """Residual covariance of every config's time at one load with the rows; as `_covariance`, for many configs."""
        parts, scales = self._parts, self._scales
        rows = parts.rows
        smooth = scales.smooth**2 * parts.alike("smooth", load)[0] * parts.row_amplitude * rows.cycle
        cross = parts.near * smooth
        cross *= parts.amplitude[:, load, None]
        cross -= parts.tree * (scales.accept**2 * parts.alike("accept", load)[0] * rows.accept)
        cross += _UNIT_SD**2 * rows.cycle
        kink = scales.rough**2 * parts.alike("rough", load)[0] * rows.cycle
        cross[rows.config, np.arange(len(rows.value))] += kink
        return np.asarray(cross)

    def marginals(self) -> tuple[Floats, Floats, Floats]:
        """Mean and standard deviation of log ms per token (configs, loads); correlation of first and last load."""
        parts, scales = self._parts, self._scales
        loads = range(len(parts.prior.loads))
        fixed = scales.accept**2 * parts.speculates + _UNIT_SD**2 + scales.rough**2
        shared = (
            scales.accept**2 * parts.speculates * _LOADS_ALIKE["accept"]
            + _UNIT_SD**2
            + scales.smooth**2 * _LOADS_ALIKE["smooth"] * parts.amplitude[:, 0] * parts.amplitude[:, -1]
            + scales.rough**2 * _LOADS_ALIKE["rough"]
        )
        roots = np.sqrt(self._weights)[:, None]
        if seen := len(parts.rows.value):
            after = solve_triangular(self._factor, self._after, lower=True)
            anomalies = solve_triangular(self._factor, self._anomalies, lower=True)
        means, variances, ways = [], [], []
        for load in loads:
            time = parts.time[load][self._kept]
            centre = self._weights @ time
            time -= centre
            time *= roots
            spread = time.T
            mean, way = centre + _UNIT_LOG_MS, [spread]
            if seen:
                cross = self._cross(load)
                white = solve_triangular(self._factor, cross.T, lower=True)
                if self._gain is not None:
                    mean = mean + spread @ (self._anomalies.T @ self._pull)
                mean = mean + white.T @ after
                through = spread - white.T @ anomalies
                way = [through, white.T]
                if self._gain is not None:
                    way.append(solve_triangular(self._gain, self._anomalies @ through.T, lower=True).T)
            means.append(mean)
            ways.append(way)
            own = fixed + (scales.smooth * parts.amplitude[:, load]) ** 2
            variances.append(_combine(own, way, way))
        mean, variance = np.stack(means, axis=1), np.maximum(np.stack(variances, axis=1), 1e-10)
        joint = _combine(shared, ways[0], ways[-1]) if len(ways) > 1 else variance[:, 0]
        correlation = joint / np.sqrt(variance[:, 0] * variance[:, -1])
        return mean, np.sqrt(variance), np.clip(correlation, -0.999, 0.999)


def _combine(own: Floats, one: list[Floats], other: list[Floats]) -> Floats:
    """Prior residual plus the draws' part, less what the rows and the Kalman step took away."""
    signs = (1.0, -1.0, -1.0)
    return own + sum(
        (sign * np.einsum("ij,ij->i", mine, theirs) for sign, mine, theirs in zip(signs, one, other, strict=False)),
        start=np.zeros_like(own),
    )


def _tempering(loglik: Floats) -> float:
    """The largest power from 0 to 1 of the likelihood that leaves enough draws in play."""

    shifted = loglik - loglik.max()

    def effective(power: float) -> float:
        weight = np.exp(power * shifted)
        return float(weight.sum() ** 2 / (weight**2).sum())

    wanted = min(_EFFECTIVE, 0.15 * len(loglik))
    if effective(1.0) >= wanted:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(middle) >= wanted else (low, middle)
    return low
