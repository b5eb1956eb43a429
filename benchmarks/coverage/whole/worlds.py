"""Which studies there are: how their starts and repeats scatter, and what is true in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from search.config import SpecConfig
from search.dialects import for_release
from search.space import Space
from search.spec.file import load_study
from search.spec.study import StudySpec

STUDY = Path(__file__).parents[3] / "spaces" / "kimi-k25.yaml"
OFF = SpecConfig.from_id("off")
BETTER = SpecConfig.from_id("v1-k2-s2-d7")
"""The config that may be better, at one load."""
AT = 100
"""That load."""
KINDS = ("simulated", "replayed")


@dataclass(frozen=True, slots=True)
class World:
    """Relative standard deviations of starts and repeats, and how much `BETTER` is better at C=100."""

    between: float
    within: float
    gain: float = 0.0


WORLDS = (
    World(0.0, 0.01), World(0.02, 0.01), World(0.04, 0.01), World(0.02, 0.03),
    World(0.02, 0.01, 0.1), World(0.02, 0.03, 0.1), World(0.03, 0.02), World(0.03, 0.02, 0.1),
)  # fmt: skip
"""The last two were looked at only when all was done."""
ASIDE = 10_000
"""Numbers of studies from here on were not run while anything was built: the table that is reported is made of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: studies of one kind in one world."""

    kind: str
    world: World


ROWS = tuple(Row(kind, world) for kind in KINDS for world in WORLDS)


@lru_cache(maxsize=1)
def shipped() -> tuple[StudySpec, Space]:
    """The study that all are made of, and its space."""
    spec = load_study(STUDY)
    return spec, spec.space_of(for_release(spec.engine.release))
