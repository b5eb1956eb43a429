"""The product's own sampler in a race; imported late, so that a race without it needs nothing of it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

from benchmarks.race.rivals.optuna_side import OptunaEntrant
from benchmarks.race.tables import Table
from search.errors import UsageError
from search.storage import LaunchRecord

HOME = "search.samplers.frontier"
MISSING = f"there is no `FrontierSampler` in `{HOME}` yet"


def missing() -> str:
    """Why it cannot race here; empty when it can."""
    return "" if find_spec(HOME) else MISSING


class FrontierEntrant(OptunaEntrant):
    """`FrontierSampler` over the table's configs and loads; it gates when it has a `skips_throughput`.

    Args:
        table: Names configs and loads.
        seed: Of the sampler.
        options: Further arguments of its constructor.

    Raises:
        UsageError: The constructor has no such argument.
    """

    def __init__(self, table: Table, *, seed: int, **options: Any) -> None:
        make = import_module(HOME).FrontierSampler
        known = set(signature(make).parameters) - {"configs", "seed", "loads"}
        if unknown := sorted(options.keys() - known):
            raise UsageError(f"`frontier` takes {', '.join(sorted(known))}, but got {', '.join(unknown)}.")
        loads = (table.spec.objectives.latency, table.spec.objectives.throughput)
        sampler = make(configs=table.space.configs, seed=seed, loads=loads, **options)
        super().__init__(table, sampler, gate=sampler if hasattr(sampler, "skips_throughput") else None)
        self._module = import_module("search.samplers.frontier_evidence")

    def tell(self, launch: LaunchRecord) -> None:
        """See `Entrant`; repeats and histograms go along, as the two values alone lack them."""
        assert self._open is not None
        self._open.set_user_attr(self._module.EVIDENCE, self._module.evidence_of(launch.phases))
        super().tell(launch)
