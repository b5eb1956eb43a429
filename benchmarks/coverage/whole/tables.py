"""Tables of ten equal configs with several starts each, to be replayed."""

from __future__ import annotations

import math
from random import Random

from benchmarks.coverage.whole.worlds import AT, BETTER, World, shipped
from search.config import SpecConfig
from search.engines.recording import Recording, Row
from search.outcomes import Outcome
from search.spec.study import StudySpec

STARTS, REPEATS = 6, 3
CONFIGS = (
    "off", "v2-k1-s2-d3", "v2-k1-s1-d2", "v2-k1-s3-d4", "v1-k1-s2-d3", "v1-k1-s1-d2", "v1-k2-s2-d7", "v1-k2-s3-d8",
    "v1-k4-s3-d16", "v1-k2-s2-d4",
)  # fmt: skip


def table(world: World, seed: int) -> Recording:
    """Ten configs at the study's loads; a start's luck is half shared by its loads, as in the simulator."""
    rng = Random(f"{seed}/{world}")
    spec = shipped()[0]
    each = world.between / math.sqrt(2)
    rows: list[Row] = []
    for number in range(STARTS):
        for place, config in enumerate(map(SpecConfig.from_id, CONFIGS)):
            launch = number * len(CONFIGS) + place + 1
            luck = each * rng.gauss(0, 1)
            for load in spec.loads:
                at = luck + each * rng.gauss(0, 1)
                better = math.log1p(world.gain) if config == BETTER and load == AT else 0.0
                objective = load in spec.objective_loads
                for repeat in range(1, (REPEATS if objective else 1) + 1):
                    rate = 100 * load**0.6 * math.exp(at + better + world.within * rng.gauss(0, 1))
                    rows.append(_row(config, launch, load, repeat, rate))
    meta = {
        "name": "table",
        "model": "a/b",
        "draft": "c/d",
        "baseline": "off",
        "concurrencies": list(spec.loads),
        "known": ["off"],
        "study_file": _study_of(spec),
    }
    return Recording(meta, tuple(rows))


def _row(config: SpecConfig, launch: int, load: int, repeat: int, rate: float) -> Row:
    return Row(
        config=config,
        launch=launch,
        outcome=Outcome.MEASURED,
        concurrency=load,
        repeat=repeat,
        requests=4 * load,
        output_tps=rate,
        tpot_ms=1000 * load / rate,
        boot_s=780.0,
        duration_s=60.0,
    )


def _study_of(spec: StudySpec) -> dict[str, object]:
    data = spec.model_dump(mode="json", exclude_unset=True)
    return data | {"known": list(CONFIGS[:3]), "earlier": []}
