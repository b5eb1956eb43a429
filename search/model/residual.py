"""The residual: how far a config may lie from every mechanism, and which configs then share the miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig, SpecVersion
from search.model.mechanisms import knob_values

Floats: TypeAlias = NDArray[np.float64]

_ACCEPT_SHARE = 0.8
"""Scale of accept length misses beside those of cycle time."""
_DOUBLINGS = 1.4
"""Length scale: configs this many doublings apart in tokens, steps or width share 60% of a miss."""
_OTHER_WORKER, _OTHER_KIND, _OTHER_KNOB = 0.6, 0.2, 0.9
"""Correlation left between v1 and v2, between `off` and speculation, and per further knob that differs."""


@dataclass(frozen=True)
class Scales:
    """Standard deviations of log misses.

    Attributes:
        smooth: Of cycle time, shared by similar configs.
        rough: Of cycle time, of each config alone.
    """

    smooth: float
    rough: float

    @property
    def accept(self) -> float:
        """Of accept length, shared by similar configs: trees are closer to their mechanism than passes."""
        return _ACCEPT_SHARE * self.smooth


class TreeKernel:
    """Correlation of the smooth misses of two configs, from 0 to 1; knows that a tree has a shape.

    Args:
        configs: Of the space; the kernel answers by their index.
    """

    def __init__(self, configs: Sequence[SpecConfig]) -> None:
        self._shape = np.array(
            [
                (np.log2(config.verify_tokens), np.log2(1 + (config.num_steps or 0)), np.log2(1 + (config.topk or 0)))
                for config in configs
            ]
        ).reshape(-1, 3)
        self._worker = np.array([list(SpecVersion).index(config.spec_version) for config in configs], dtype=int)
        every = sorted({item for config in configs for item in knob_values(config)}, key=str)
        self._knobs = np.array([[item in knob_values(config) for item in every] for config in configs], dtype=float)
        self._knobs = self._knobs.reshape(len(configs), len(every))

    def __call__(self, rows: NDArray[np.int_], columns: NDArray[np.int_], *, workers_differ: bool = True) -> Floats:
        """Shape (rows, columns). Without `workers_differ`, v1 and v2 count as one: they verify one tree alike."""
        one, other = self._shape[rows], self._shape[columns]
        apart = np.maximum((one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2.0 * one @ other.T, 0.0)
        result = np.exp(-0.5 * apart / _DOUBLINGS**2)
        if workers_differ:
            result *= _WORKERS[np.ix_(self._worker[rows], self._worker[columns])]
        else:
            result *= (self._worker[rows] > 0)[:, None] * (self._worker[columns] > 0)[None, :]
        if workers_differ and self._knobs.shape[1]:
            mine, theirs = self._knobs[rows], self._knobs[columns]
            differ = mine.sum(1)[:, None] + theirs.sum(1)[None, :] - 2.0 * mine @ theirs.T
            result *= _OTHER_KNOB**differ
        return np.asarray(result)


_WORKERS = np.array(
    [[1.0, _OTHER_KIND, _OTHER_KIND], [_OTHER_KIND, 1.0, _OTHER_WORKER], [_OTHER_KIND, _OTHER_WORKER, 1.0]]
)
