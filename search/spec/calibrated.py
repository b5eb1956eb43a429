"""Whether a study's cost model speaks of the study's own deployment."""

from __future__ import annotations

from search.errors import UsageError
from search.physics.files import load_physics
from search.spec.study import StudySpec


def is_calibrated(spec: StudySpec) -> bool:
    """Whether the study's cost model was fitted to numbers of its own model and GPUs; False where it cannot be read."""
    try:
        physics = load_physics(spec.simulation.physics)
    except UsageError:
        return False
    return physics.is_calibrated_for(target=spec.model.target, kind=spec.hardware.kind)
