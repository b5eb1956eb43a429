"""What a simulated number is based on, as lines for reports."""

from __future__ import annotations

from collections.abc import Iterator

from search.physics.model import UNITS, Kind, Physics


def provenance(physics: Physics) -> list[str]:
    """Everything: a summary, the caveats, each parameter by kind, each fitted number."""
    return [*summary(physics), *parameter_lines(physics), *fit_lines(physics)]


def summary(physics: Physics) -> list[str]:
    """The few lines that belong on a first screen."""
    count = {kind: sum(origin.kind is kind for origin in physics.origins.values()) for kind in Kind}
    parts = [f"{physics.name}: {physics.about}"]
    if physics.points:
        worst = max(physics.points, key=lambda point: abs(point.error))
        parts += [
            f"{count[Kind.FITTED]} parameters are fitted to {len(physics.points)} numbers, from priors; "
            f"{count[Kind.PRIOR]} are priors that the numbers do not determine, {count[Kind.ASSUMED]} are assumed.",
            f"Largest miss: {worst.config} at concurrency {worst.concurrency}, {worst.error:+.1%}.",
            "Fitted: " + "; ".join(_coverage(physics)) + ". Every other config or load is extrapolated.",
        ]
    else:
        parts.append("Nothing is fitted: all of it is prior or assumed, so every value is extrapolated.")
    return [*parts, *physics.caveats]


def parameter_lines(physics: Physics) -> list[str]:
    """One line per parameter: kind, name, value, uncertainty, unit, reason."""
    return [_parameter(physics, name) for kind in Kind for name in UNITS if physics.origins[name].kind is kind]


def fit_lines(physics: Physics) -> list[str]:
    """One line per number the model was fitted to: how far it is off."""
    return [
        f"{point.config} at concurrency {point.concurrency}: {point.output_tps:g} tok/s measured, "
        f"{point.model_tps:.1f} modelled ({point.error:+.1%})"
        for point in physics.points
    ]


def _coverage(physics: Physics) -> Iterator[str]:
    loads: dict[str, list[int]] = {}
    for point in physics.points:
        loads.setdefault(point.config.config_id, []).append(point.concurrency)
    for config_id, concurrencies in loads.items():
        yield f"{config_id} at {', '.join(map(str, concurrencies))}"


def _parameter(physics: Physics, name: str) -> str:
    origin = physics.origins[name]
    value = getattr(physics.model, name)
    shown = "no limit" if value is None else f"{value:g}"
    spread = "" if origin.sd is None else f" ± {origin.sd:.2g}"
    before = "" if origin.prior is None else f", before the fit {origin.prior[0]:g} ± {origin.prior[1]:g}"
    return f"{origin.kind.value}: {name} = {shown}{spread} ({UNITS[name]}{before}). {origin.why}"
