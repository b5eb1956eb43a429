"""Where tables come from: folders, worlds of our own, and the simulator of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from benchmarks.race.hypervolume import Point, point_of
from benchmarks.race.tables import Table, read_table, results_of
from benchmarks.race.worlds import HALVES, Half, make_world
from search.app.assembly import read_spec
from search.app.options import RunOptions
from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, PhaseResult, Slot
from search.dialects import for_release
from search.engines import SimulatedEngine
from search.engines.recording import META, Recording, Row, beside_of
from search.errors import LaunchFailed, UsageError
from search.metrics import fields_beside, values_of
from search.outcomes import Outcome
from search.physics.files import load_physics

HERE = Path(__file__).parents[2]
SIMULATED_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A table by name, light enough to send to another process.

    Attributes:
        where: A folder, the number of a world, or the name of a study.
        group: Tables of one group are summed up together; rough worlds leave the group of their half.
    """

    kind: Literal["folder", "world", "simulator"]
    where: str
    group: str


def folders(path: Path, *, group: str | None = None) -> list[Source]:
    """One recording, or every recording in a folder of them.

    Raises:
        UsageError: There is none.
    """
    found = [path] if (path / META).exists() else sorted(meta.parent for meta in path.glob(f"*/{META}"))
    if not found:
        raise UsageError(f"`--worlds` names a recording or a folder of recordings, but there is none in {path}.")
    named = group or (path.parent.name if found == [path] else path.name)
    return [Source("folder", str(folder), named) for folder in found]


def own_worlds(half: Half, count: int, *, skip: int = 0) -> list[Source]:
    """Worlds of a half, from its first or a later one; its rough ones are a group of their own."""
    return [Source("world", str(2 * number + HALVES.index(half)), half) for number in range(skip, skip + count)]


@lru_cache(maxsize=2)
def load_table(source: Source) -> Table:
    """The table a source names; the last two are kept.

    Raises:
        UsageError: It cannot be read.
    """
    if source.kind == "folder":
        return read_table(Path(source.where), group=source.group)
    if source.kind == "world":
        return make_world(int(source.where))
    return simulated_table(source.where, group=source.group)


def simulated_table(study: str, *, group: str) -> Table:
    """A study on its own cost model: every config launched once, and its expectation as the truth.

    This table obeys the very physics that the product's model assumes: who does well here alone has
    shown nothing.
    """
    spec = read_spec(RunOptions(here=HERE, study=study))
    physics = load_physics(spec.simulation.physics)
    space = spec.space_of(for_release(spec.engine.release))
    limits = spec.measure.limits.load_limits
    noisy = SimulatedEngine(physics, seed=spec.seed, deployment=spec.deployment, limits=limits)
    exact = SimulatedEngine(physics, seed=spec.seed, deployment=spec.deployment, noise=False, limits=limits)
    axes, loads = spec.axes, spec.objective_loads
    phases = [spec.measure.phase(load, warm=True) for load in loads]
    fields = fields_beside(axes)
    rows: list[Row] = []
    truth: dict[SpecConfig, Point] = {}
    for number, config in enumerate(space.configs, start=1):
        made = list(_launched(noisy, config, number, phases, fields, repeats=SIMULATED_REPEATS))
        rows += made
        if made[0].measured:
            values = values_of(axes, results_of(list(_launched(exact, config, number, phases, fields, repeats=1))))
            assert values is not None, "a simulator has every metric"
            truth[config] = point_of(axes, values)
    meta = {
        "name": f"{study}.simulated",
        "synthetic": True,
        "versions": {"sglang": spec.engine.release},
        "concurrencies": list(loads),
        "objectives": dict(zip(spec.objective_names, spec.directions, strict=True)),
        "baseline": "off",
        "known": [config.config_id for config in spec.known_configs],
    }
    return Table(group=group, recording=Recording(meta, tuple(rows)), truth=truth)


def _launched(
    engine: SimulatedEngine,
    config: SpecConfig,
    number: int,
    phases: Sequence[Phase],
    fields: Sequence[str],
    *,
    repeats: int,
) -> Iterator[Row]:
    try:
        with engine.launch(config, slot=Slot(0), paths=LaunchPaths(Path(f"{number:04d}"))) as session:
            for repeat in range(1, repeats + 1):
                for phase in phases:
                    yield _row(config, number, session.measure(phase, repeat), fields, boot_s=session.boot_s)
    except LaunchFailed as error:
        yield Row(config=config, launch=number, outcome=Outcome.FAILED, reason=error.reason, boot_s=error.spent_s)


def _row(config: SpecConfig, number: int, phase: PhaseResult, fields: Sequence[str], *, boot_s: float) -> Row:
    return Row(
        config=config,
        launch=number,
        outcome=Outcome.MEASURED,
        concurrency=phase.concurrency,
        repeat=phase.repeat,
        requests=phase.requests,
        output_tps=phase.output_tps,
        tpot_ms=phase.tpot_ms,
        ttft_ms=phase.ttft_ms,
        beside=beside_of(phase, fields),
        accept_length=phase.accept_length,
        accept_histogram=phase.accept_histogram,
        boot_s=boot_s,
        duration_s=phase.duration_s,
    )
