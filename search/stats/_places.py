"""What measurements in one start differ by, beyond config and start: the effect and the scatter of their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from search.stats.readings import Mean, Reading, by_block, measurement_means


@dataclass(frozen=True, slots=True)
class Places:
    """Least squares of measurements on config, start and place, for starts that hold several.

    A config counts as another one once it was picked: what its fresh measurements differ by from those that it was
    picked by is small just where both were lucky, as with starts (`search.stats._contrasts`).
    """

    mean_square: float = 0.0
    freedom: float = 0.0
    inverse: float = 1.0
    slope: float | None = None
    slope_variance: float = 0.0

    @classmethod
    def of(cls, groups: Mapping[str, Sequence[Reading]]) -> Places:
        if not _any_start_holds_several(groups):
            return cls()
        rows: list[tuple[tuple[str, str, bool], tuple[int, str], Mean]] = []
        for config, readings in groups.items():
            fresh = {one.start for one in readings if one.fresh}
            for (_, prompts), mine in by_block(readings).items():
                means = measurement_means(mine)
                rows += [
                    ((config, prompts, start in fresh), (start, prompts), mean) for (start, _), mean in means.items()
                ]
        held = Counter(start for _, start, _ in rows)
        rows = [row for row in rows if held[row[1]] > 1]
        if not rows:
            return cls()
        design = np.hstack([_dummies([config for config, _, _ in rows]), _dummies([start for _, start, _ in rows])])
        places = np.array([[mean.place] for _, _, mean in rows])
        values = np.array([mean.log_value for _, _, mean in rows])
        rank = int(np.linalg.matrix_rank(design))
        slope, variance = None, 0.0
        free = places - design @ np.linalg.lstsq(design, places, rcond=None)[0]
        if (length := float(np.sum(free**2))) > 1e-9:
            slope, variance = float(free[:, 0] @ values) / length, 1 / length
            design, rank = np.hstack([design, places]), rank + 1
        left = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
        freedom = len(rows) - rank
        inverse = float(np.mean([mean.inverse for _, _, mean in rows]))
        if not freedom:
            return cls(inverse=inverse, slope=slope, slope_variance=variance)
        square = float(left @ left) / freedom
        return cls(square, freedom, inverse, slope, variance)


def _any_start_holds_several(groups: Mapping[str, Sequence[Reading]]) -> bool:
    """Whether one set of prompts was measured more than once in a start. Most studies have none, and all are asked."""
    first: dict[tuple[int, str], tuple[str, str, int]] = {}
    return any(
        first.setdefault((one.start, one.prompt_set), mine) != mine
        for config, readings in groups.items()
        for one in readings
        for mine in [(config, one.slot, one.place)]
    )


def _dummies(keys: Sequence[Hashable]) -> npt.NDArray[np.float64]:
    names = list(dict.fromkeys(keys))
    return np.array([[float(key == name) for name in names] for key in keys])
