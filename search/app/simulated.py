"""`--simulate`: a study on the packaged cost model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from search.app.assembly import Assembly, RawWords, assembly_of, read_spec, virtual_executor
from search.app.options import RunOptions
from search.app.sharing import sharing_of
from search.dialects import for_release
from search.spec.fingerprint import fingerprint


def assemble_simulated(options: RunOptions, raw: RawWords) -> Assembly:  # noqa: ARG001
    """The parts of a simulated study; needs no GPU."""
    from search.engines import SimulatedEngine
    from search.physics.files import load_physics

    spec = read_spec(options)
    physics = load_physics(spec.simulation.physics)
    dialect = for_release(spec.engine.release)
    limits = spec.measure.limits.load_limits
    make = partial(
        SimulatedEngine,
        physics,
        seed=spec.seed,
        deployment=spec.deployment,
        limits=limits,
        acceptance=spec.simulation.acceptance,
    )
    space = spec.space_of(dialect)
    sharing = sharing_of(spec, space, dialect)
    assembly = assembly_of(
        options,
        spec,
        kind="simulated",
        space=space,
        facts=fingerprint(spec, kind="simulated", facts={"seed": str(spec.seed)}),
        open_executor=virtual_executor(options, make),
        dialect=dialect,
    )
    return replace(assembly, sharing=sharing)
