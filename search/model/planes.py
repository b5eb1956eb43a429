"""A prior without physics, for the ablation: log times and accept lengths are planes over the raw knobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from search.config import SpecConfig, SpecVersion
from search.model.mechanisms import Surfaces, knob_values

_SLOPE = 0.25
"""Per doubling of a number, or for one word against another."""
_LEVEL = 1.0
"""Between two loads, or of speculation against none."""


def sample_planes(
    configs: Sequence[SpecConfig], loads: Sequence[int], *, draws: int, rng: np.random.Generator
) -> Surfaces:
    """Surfaces as of `sample_surfaces`, from no knowledge: each load has slopes of its own.

    Args:
        configs: All valid ones.
        loads: Concurrencies.
        draws: How many surfaces.
        rng: Source of randomness.
    """
    words = sorted({item for config in configs for item in knob_values(config)}, key=str)
    at = np.array(
        [
            [
                np.log2(config.verify_tokens),
                np.log2(1 + (config.num_steps or 0)),
                np.log2(config.topk or 1),
                float(config.spec_version is SpecVersion.V2),
                *(float(word in knob_values(config)) for word in words),
            ]
            for config in configs
        ]
    )
    speculates = np.array([float(config.speculates) for config in configs])

    def planes() -> np.ndarray:
        slopes = _SLOPE * (
            rng.standard_normal((draws, at.shape[1], 1)) + rng.standard_normal((draws, at.shape[1], len(loads)))
        )
        return np.asarray(np.einsum("cf,dfl->dcl", at, slopes))

    levels = _LEVEL * rng.standard_normal((draws, 1, len(loads)))
    apart = _LEVEL * rng.standard_normal((draws, 1, 1))
    accept = np.abs(planes() + levels) * speculates[None, :, None]
    loaded = _LEVEL * rng.standard_normal((draws, 1, len(loads)))
    return Surfaces(accept=accept, cycle=planes() + loaded + apart * speculates[None, :, None])
