"""A table small enough to reckon with by hand."""

from benchmarks.race.tables import table_of
from search.config import SpecConfig
from search.engines.recording import Recording, Row
from search.outcomes import Outcome, Reason

# Config id to time per token at concurrency 1 and rate at concurrency 100, one pair for each repeat.
VALUES = {
    "off": [(10.0, 1000.0)] * 3,
    "v2-k1-s1-d2": [(8.0, 1200.0)] * 3,
    "v2-k1-s2-d3": [(6.0, 900.0)] * 3,
    "v2-k1-s3-d4": [(5.0, 600.0)] * 3,
    "v1-k2-s2-d7": [(7.0, 500.0)] * 3,
    "v1-k2-s3-d11": [(9.0, 700.0)] * 3,
}
FAILED = ("v1-k4-s2-d21", "v1-k4-s3-d16")


def small_table(values=None, *, failed=FAILED, known=("v2-k1-s2-d3",), measure_s=60.0):
    """`off` first, two launches that fail, a minute for a boot and for each of the four phases."""
    rows = [
        Row(
            config=SpecConfig.from_id(name),
            launch=1,
            outcome=Outcome.MEASURED,
            concurrency=load,
            repeat=repeat,
            requests=16,
            output_tps=1000.0 / pair[0] if load == 1 else pair[1],
            tpot_ms=pair[0] if load == 1 else 100_000.0 / pair[1],
            boot_s=60.0,
            duration_s=measure_s,
        )
        for name, pairs in (values or VALUES).items()
        for repeat, pair in enumerate(pairs, start=1)
        for load in (1, 100)
    ]
    rows += [
        Row(
            config=SpecConfig.from_id(name),
            launch=1,
            outcome=Outcome.FAILED,
            reason=Reason.OOM_GRAPH,
            boot_s=30.0,
        )
        for name in failed
    ]
    meta = {"name": "small", "hand_made": True, "baseline": "off", "known": list(known), "concurrencies": [1, 100]}
    return table_of(Recording(meta, tuple(rows)), group="small")
