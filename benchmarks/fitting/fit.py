"""The fit of the cost model to a story's throughput numbers, deterministic and regularised.

Each free parameter has a prior, so that what the numbers do not determine stays where one would expect
it; everything else is held. The residuals are relative errors of throughput over `TOLERANCE` and
distances from the priors in standard deviations.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from search.config import SpecConfig
from search.physics.cost import predict, running_requests
from search.physics.model import LIMITS, UNITS, CostModel, FitPoint, FittedFor, Kind, Origin, Physics

TOLERANCE: Final = 0.006
"""Relative error of a number that weighs as much as one standard deviation of a prior."""

DIGITS: Final = 4
"""Significant digits kept, so that the last bits of a machine's arithmetic do not show."""


@dataclass(frozen=True, slots=True)
class Free:
    """A parameter the fit may move: its prior and the reason for it; `most` bounds it."""

    mean: float
    sd: float
    why: str
    most: float = math.inf


@dataclass(frozen=True, slots=True)
class Held:
    """A parameter the fit leaves alone.

    Members draw it from a normal distribution with `sd`, or evenly from `value` and `others`.
    """

    value: float | int | None
    kind: Kind
    why: str
    sd: float | None = None
    others: tuple[float | int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """One number to fit: output tokens per second of a config at a load."""

    config: SpecConfig
    concurrency: int
    output_tps: float


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is fitted, what is held, and what to say about it."""

    name: str
    about: str
    parameters: Mapping[str, Free | Held]
    fitted_for: FittedFor | None = None
    caveats: tuple[str, ...] = ()

    @property
    def free(self) -> dict[str, Free]:
        """The parameters the fit moves."""
        return {name: found for name in UNITS if isinstance(found := self.parameters[name], Free)}


@dataclass(frozen=True, slots=True)
class Solution:
    """Where a fit ended: values and standard deviations of the free parameters, unrounded."""

    values: Mapping[str, float]
    sds: Mapping[str, float]


def fit_physics(recipe: Recipe, targets: Sequence[Target], *, members: tuple[CostModel, ...] = ()) -> Physics:
    """Fit the free parameters; the same recipe and targets give the same values.

    Args:
        recipe: What is free, what is held, and why.
        targets: The numbers to fit.
        members: Other parameter sets that fit about as well, see `benchmarks.fitting.members`.

    Raises:
        ValueError: Not fewer free parameters than numbers, or the fit did not converge.
    """
    solution = solve(recipe, targets)
    values = {name: rounded(value) for name, value in solution.values.items()}
    spread = {name: rounded(sd, 2) for name, sd in solution.sds.items()}
    model = model_of(recipe, values)
    return Physics(
        name=recipe.name,
        about=recipe.about,
        model=model,
        origins={name: _origin(recipe.parameters[name], spread.get(name)) for name in UNITS},
        points=tuple(
            FitPoint(
                t.config, t.concurrency, t.output_tps, round(predict(model, t.config, t.concurrency).output_tps, 2)
            )
            for t in targets
        ),
        caveats=recipe.caveats,
        members=members,
        fitted_for=recipe.fitted_for,
    )


def solve(recipe: Recipe, targets: Sequence[Target]) -> Solution:
    """Least squares over the logarithms of the free parameters.

    Numbers of one config that share a running batch (both above its running limit) are one
    observation seen twice, so they share one weight.

    Raises:
        ValueError: Not fewer free parameters than numbers, or the fit did not converge.
    """
    import numpy as np
    from scipy.optimize import least_squares

    free = recipe.free
    if len(free) >= len(targets):
        raise ValueError(f"Fewer free parameters than numbers are needed, but got {len(free)} and {len(targets)}.")
    start = model_of(recipe, {name: prior.mean for name, prior in free.items()})
    batches = [(t.config, running_requests(start, t.config, t.concurrency)) for t in targets]
    shared = Counter(batches)

    def residuals(logs: Any) -> list[float]:
        values = {name: math.exp(log) for name, log in zip(free, logs, strict=True)}
        model = model_of(recipe, values)
        misses = [
            math.log(predict(model, t.config, t.concurrency).output_tps / t.output_tps)
            / (TOLERANCE * math.sqrt(shared[batch]))
            for t, batch in zip(targets, batches, strict=True)
        ]
        return misses + [(values[name] - prior.mean) / prior.sd for name, prior in free.items()]

    solution = least_squares(
        residuals,
        [math.log(prior.mean) for prior in free.values()],
        bounds=([-math.inf] * len(free), [math.log(prior.most) for prior in free.values()]),
        xtol=1e-13,
        ftol=1e-13,
        gtol=1e-13,
        max_nfev=5000,
    )
    if not solution.success:
        raise ValueError(f"The fit of `{recipe.name}` did not converge: {solution.message}")
    jacobian = np.asarray(solution.jac)
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    values = {name: math.exp(log) for name, log in zip(free, solution.x, strict=True)}
    return Solution(
        values,
        {name: value * math.sqrt(covariance[place, place]) for place, (name, value) in enumerate(values.items())},
    )


def model_of(recipe: Recipe, values: Mapping[str, float]) -> CostModel:
    """The cost model with the held parameters of a recipe and `values` for the free ones."""
    held: dict[str, Any] = {
        name: (parameter.value if name in LIMITS or parameter.value is None else float(parameter.value))
        for name, parameter in recipe.parameters.items()
        if isinstance(parameter, Held)
    }
    numbers: dict[str, Any] = held | dict(values)
    return CostModel(**numbers)


def _origin(parameter: Free | Held, spread: float | None) -> Origin:
    if isinstance(parameter, Held):
        return Origin(parameter.kind, parameter.why, sd=parameter.sd)
    return Origin(Kind.FITTED, parameter.why, sd=spread, prior=(parameter.mean, parameter.sd))


def rounded(value: float, digits: int = DIGITS) -> float:
    """To significant digits."""
    return float(f"{value:.{digits}g}")
