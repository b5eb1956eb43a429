"""Whole studies with known truth: the loop, its sampler, its stages and its verdict, on computed servers and on tables.

Every study is run by `run_study` as a user's is: `spaces/kimi-k25.yaml` with its own budget, on a cost model whose
configs were made equal at every load (`LevelEngine`), or the replay of a table of ten equal configs with six starts
each. One config may be better at C=100. What is told at the end is held against that truth.

    nice python -m benchmarks.coverage.whole [--studies N] [--only simulated replayed] [--jobs N] [--json PATH]

Studies are seeded by their number, so a run that is cut short holds the first of them; `--json` is written as they come.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

import optuna

from search.analysis.findings import Judgement
from search.app.recordings import spec_of_recording
from search.cluster import Executor, InlineExecutor
from search.config import SpecConfig
from search.contracts import (
    Engine,
    LaunchPaths,
    OneConfigSession,
    Phase,
    PhaseResult,
    Session,
    Slot,
    StopReport,
    VirtualClock,
)
from search.dialects import for_release
from search.engines import ReplayEngine, SimulatedEngine
from search.engines.recording import Recording, Row
from search.outcomes import Outcome
from search.physics.cost import predict
from search.physics.files import load_physics
from search.physics.model import CostModel, Physics
from search.space import Space
from search.spec.file import load_study
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.study.context import Overrides, Recorded, StudyContext, Watch
from search.study.events import Ending, Judgements, Launching, RunStart
from search.study.runner import run_study
from search.study.scatter import pooled_freedom

STUDY = Path(__file__).parents[2] / "spaces" / "kimi-k25.yaml"
BETTER = SpecConfig.from_id("v1-k2-s2-d7")
OFF = SpecConfig.from_id("off")
AT = 100
"""The load at which one config may be better."""
TABLE_STARTS, TABLE_REPEATS = 6, 3
TABLE = (
    "off", "v2-k1-s2-d3", "v2-k1-s1-d2", "v2-k1-s3-d4", "v1-k1-s2-d3", "v1-k1-s1-d2", "v1-k2-s2-d7", "v1-k2-s3-d8",
    "v1-k4-s3-d16", "v1-k2-s2-d4",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """Relative standard deviations of starts and repeats, and how much `BETTER` is better at C=100."""

    between: float
    within: float
    gain: float = 0.0


WORLDS = (
    World(0.0, 0.01), World(0.02, 0.01), World(0.02, 0.03), World(0.04, 0.01),
    World(0.02, 0.01, 0.1), World(0.02, 0.03, 0.1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """What one study said.

    Attributes:
        any_gain: A gain was claimed of a config that has none, at any load.
        found: `BETTER` was claimed at C=100.
        error: Of its claimed gain, relative; None where it was not claimed.
        drift: The host was said to have drifted.
        verdict: A question was answered by `supported` or `refuted`, of equal configs.
        measured_questions: Questions that got any verdict but `not measured` and `assumed scatter`.
        launches: Server starts.
        hours: Of the host.
        freedom: Pooled degrees of freedom between starts, at the objective that has fewer.
        baseline_starts: Measured starts of the baseline that was started most.
        picks: Configs with two starts or more of their own after the choice.
        cpu_s: Processor time of the study.
    """

    any_gain: bool
    found: bool
    error: float | None
    drift: bool
    verdict: bool
    measured_questions: int
    launches: int
    hours: float
    freedom: float
    baseline_starts: int
    picks: int
    cpu_s: float


class LevelEngine:
    """The simulator with all configs made as fast as `off` at every load; `BETTER` by a gain more at C=100."""

    def __init__(self, inner: SimulatedEngine, physics: Physics, *, limit: int, gain: float) -> None:
        self._inner, self._physics, self._limit, self._gain = inner, physics, limit, gain

    def launch(
        self,
        config: SpecConfig,
        *,
        slot: Slot,
        paths: LaunchPaths,
        holds: tuple[SpecConfig, ...] = (),  # noqa: ARG002
    ) -> LevelSession:
        """See `Engine`."""
        return LevelSession(self._inner.launch(config, slot=slot, paths=paths), self, config)

    def level(self, config: SpecConfig, phase: Phase) -> tuple[float, float]:
        """Factors that make a config's time per token and rate those of `off`."""
        mine, plain = (
            _expected(self._physics.model, one, phase.concurrency, phase.output_tokens, self._limit)
            for one in (config, OFF)
        )
        better = 1.0 + (self._gain if config == BETTER and phase.concurrency == AT else 0.0)
        return plain[0] / mine[0] / better, plain[1] / mine[1] * better


class LevelSession(OneConfigSession):
    """One of its servers."""

    def __init__(self, inner: Session, engine: LevelEngine, config: SpecConfig) -> None:
        self._inner, self._engine, self._config = inner, engine, config
        self.effective, self.boot_s = inner.effective, inner.boot_s

    def measure(self, phase: Phase, repeat: int) -> PhaseResult:
        """See `Session`."""
        told = self._inner.measure(phase, repeat)
        slower, faster = self._engine.level(self._config, phase)
        assert told.tpot_ms is not None and told.duration_s is not None
        return replace(
            told,
            tpot_ms=told.tpot_ms * slower,
            # Prompts are paired where there is one stream; elsewhere a thousand of them only take room.
            prompt_tpot_ms=tuple(value * slower for value in told.prompt_tpot_ms) if phase.concurrency == 1 else (),
            prompt_ids=told.prompt_ids if phase.concurrency == 1 else (),
            output_tps=told.output_tps * faster,
            window_tps=tuple(value * faster for value in told.window_tps),
            duration_s=told.duration_s / faster,
            extrapolated=False,
        )

    def close(self) -> StopReport:
        """See `Session`."""
        return self._inner.close()

    def __enter__(self) -> LevelSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Quiet:
    """Keeps the end."""

    judgement: Judgement | None = None

    def started(self, start: RunStart) -> None:
        """Nothing."""

    def launching(self, launch: Launching) -> None:
        """Nothing."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """Nothing: judging when nobody looks costs time."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """The verdict."""
        self.judgement = judgement


def simulated(world: World, seed: int) -> Told:
    """One study of `STUDY` on levelled servers, as a measured one: with probes, gates and a closing baseline."""
    spec, space = _study()
    physics = _physics(world)
    limit = spec.engine.max_running_requests
    inner = SimulatedEngine(physics, seed=seed, deployment=spec.deployment)
    engine = LevelEngine(inner, physics, limit=limit, gain=world.gain)
    return _run(world, seed, spec=spec, space=space, engine=engine)


def replayed(world: World, seed: int) -> Told:
    """The replay of one table of ten configs with six starts each."""
    table = _table(world, seed)
    starts = {config: len(numbers) for config, numbers in table.starts().items()}
    return _run(
        world,
        seed,
        spec=spec_of_recording(table),
        space=Space.recorded(table.space()),
        engine=ReplayEngine(table),
        recorded=Recorded(lambda config: starts.get(config, 0), table.repeats_of_launch),
    )


KINDS = {"simulated": simulated, "replayed": replayed}


def _run(
    world: World,
    seed: int,
    *,
    spec: StudySpec,
    space: Space,
    engine: Engine,
    recorded: Recorded | None = None,
) -> Told:
    began = process_time()
    quiet = _Quiet()
    with TemporaryDirectory() as folder, InlineExecutor(engine) as executor:
        judgement, launches = _whole(Path(folder), spec, space, executor, quiet, seed=seed, recorded=recorded)
    return _told(world, spec, judgement, launches, process_time() - began)


def _whole(
    folder: Path,
    spec: StudySpec,
    space: Space,
    executor: Executor,
    quiet: _Quiet,
    *,
    seed: int,
    recorded: Recorded | None,
) -> tuple[Judgement, Sequence[LaunchRecord]]:
    with Store(folder / "trials.db") as store:
        run_study(
            StudyContext(
                spec=spec,
                name="whole",
                kind="replay" if recorded else "measured",
                space=space,
                fingerprint={},
                clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)),
                reports=folder / "reports",
                recorded=recorded,
            ),
            executor=executor,
            store=store,
            storage=optuna.storages.InMemoryStorage(),
            watch=Watch(quiet, lambda _: None),
            overrides=Overrides(seed=seed),
        )
        launches = store.launches("whole")
    assert quiet.judgement is not None
    return quiet.judgement, launches


def _told(world: World, spec: StudySpec, judgement: Judgement, launches: Sequence[LaunchRecord], cpu_s: float) -> Told:
    claims = [winner for winner in judgement.winners if winner.claimed and winner.config.speculates]
    right = [w for w in claims if world.gain and w.concurrency == AT and w.config == BETTER]
    measured = [launch for launch in launches if launch.outcome is Outcome.MEASURED]
    fresh = [launch.config for launch in measured if launch.stage == "confirm" and launch.config.speculates]
    plain = [launch.config for launch in measured if not launch.config.speculates]
    # `BETTER` runs on v1: where it is better, a refusal of v2 is right.
    right_too = {("width-or-overlap", "refuted")} if world.gain else set()
    answers = [one for one in judgement.verdicts if (one.name, one.verdict) not in right_too]
    return Told(
        any_gain=len(claims) > len(right),
        found=bool(right),
        error=right[0].gain.value / (1 + world.gain) - 1 if right else None,
        drift=any("drifted" in line or "is not like slot" in line for line in judgement.headlines),
        verdict=any(one.verdict in ("supported", "refuted") for one in answers),
        measured_questions=sum(one.verdict not in ("not measured", "assumed scatter") for one in judgement.verdicts),
        launches=len(launches),
        hours=sum(launch.duration_s or 0.0 for launch in launches) / 3600,
        freedom=pooled_freedom(spec.axes, launches),
        baseline_starts=max((plain.count(config) for config in set(plain)), default=0),
        picks=sum(fresh.count(config) >= 2 for config in set(fresh)),
        cpu_s=cpu_s,
    )


@lru_cache(maxsize=1)
def _study() -> tuple[StudySpec, Space]:
    spec = load_study(STUDY)
    return spec, spec.space_of(for_release(spec.engine.release))


@lru_cache(maxsize=8)
def _physics(world: World) -> Physics:
    physics = load_physics(_study()[0].simulation.physics)
    model = replace(physics.model, start_spread=world.between, repeat_spread=world.within)
    return replace(physics, model=model)


@lru_cache(maxsize=65536)
def _expected(
    model: CostModel, config: SpecConfig, concurrency: int, output_tokens: int, limit: int
) -> tuple[float, float]:
    told = predict(model, config, concurrency, output_tokens=output_tokens, running_limit=limit)
    return told.tpot_ms, told.output_tps


def _table(world: World, seed: int) -> Recording:
    """Ten configs at the study's loads; a start's luck is half shared by its loads, as in the simulator."""
    rng = Random(f"{seed}/{world}")
    spec = _study()[0]
    each = world.between / math.sqrt(2)
    rows: list[Row] = []
    for number in range(TABLE_STARTS):
        for place, config in enumerate(map(SpecConfig.from_id, TABLE)):
            launch = number * len(TABLE) + place + 1
            luck = each * rng.gauss(0, 1)
            for load in spec.loads:
                at = luck + each * rng.gauss(0, 1)
                better = math.log1p(world.gain) if config == BETTER and load == AT else 0.0
                objective = load in spec.objective_loads
                for repeat in range(1, (TABLE_REPEATS if objective else 1) + 1):
                    rate = 100 * load**0.6 * math.exp(at + better + world.within * rng.gauss(0, 1))
                    rows.append(_row(config, launch, load, repeat, rate))
    meta = {
        "name": "table",
        "model": "a/b",
        "draft": "c/d",
        "baseline": "off",
        "concurrencies": list(spec.loads),
        "known": ["off"],
        "study_file": _table_study(spec),
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


def _table_study(spec: StudySpec) -> dict[str, object]:
    told = spec.model_dump(mode="json", exclude_unset=True)
    return told | {"known": list(TABLE[:3]), "earlier": []}


def study_of(task: tuple[str, World, int]) -> Told:
    """One study by kind, world and number."""
    kind, world, seed = task
    logging.disable(logging.WARNING)
    return KINDS[kind](world, seed)


def line(kind: str, world: World, told: Sequence[Told]) -> str:
    """A row of the table, shares with their binomial standard errors."""

    def share(values: Sequence[bool]) -> str:
        mean = sum(values) / len(values)
        return f"{mean:.1%} ± {math.sqrt(mean * (1 - mean) / len(values)):.1%}"

    def middle(values: Sequence[float]) -> float:
        return sorted(values)[len(values) // 2]

    errors = [one.error for one in told if one.error is not None]
    error = f"{sum(errors) / len(errors):+.1%}" if errors else "-"
    found = f"{share([one.found for one in told])} | {error}" if world.gain else "- | -"
    cells = (
        kind,
        f"{world.between:.0%}, {world.within:.0%}",
        f"{world.gain:.0%}",
        str(len(told)),
        share([one.any_gain for one in told]),
        found,
        share([one.drift for one in told]),
        share([one.verdict for one in told]),
        f"{middle([one.launches for one in told])} ({middle([one.hours for one in told]):.1f} h)",
        f"{middle([one.freedom for one in told]):.1f} (least {min(one.freedom for one in told):.1f})",
        f"{min(one.baseline_starts for one in told)}, {middle([one.picks for one in told])}",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| study | starts, repeats | true gain | studies | any false gain | found | its error | drift | question | starts "
    "| pooled df | baseline starts (least), picks started twice |"
)


def lines_of(paths: Sequence[Path]) -> Iterator[str]:
    """The table of studies that `--json` wrote."""
    found: dict[tuple[str, World], dict[int, Told]] = {}
    for text in (text for path in paths for text in path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(text)
        key, number = (row.pop("kind"), World(**row.pop("world"))), row.pop("number")
        found.setdefault(key, {})[number] = Told(**row)
    yield HEAD
    yield f"|{'---|' * 12}"
    for kind in KINDS:
        for world in WORLDS:
            if told := found.get((kind, world)):
                yield line(kind, world, list(told.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.whole", description=__doc__)
    parser.add_argument("--studies", type=int, default=400, metavar="N", help="of each world (default 400)")
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=tuple(KINDS), help="kinds of studies")
    parser.add_argument("--worlds", nargs="+", type=int, metavar="PLACE", help="of the list, from 0; all without it")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first study (default 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="add every study there, as they come")
    parser.add_argument("--read", nargs="+", type=Path, metavar="PATH", help="only print what was written there")
    options = parser.parse_args(arguments)
    if options.read:
        print("\n".join(lines_of(options.read)))
        return 0
    worlds = [WORLDS[place] for place in options.worlds] if options.worlds else WORLDS
    print(HEAD)
    print(f"|{'---|' * 12}", flush=True)
    numbers = range(options.first, options.first + options.studies)
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        for kind in options.only:
            for world in worlds:
                tasks = [(kind, world, number) for number in numbers]
                found: Iterator[Told] = map(study_of, tasks) if pool is None else pool.map(study_of, tasks)
                told: list[Told] = []
                for number, one in zip(numbers, found, strict=True):
                    told.append(one)
                    if options.json:
                        row = {"kind": kind, "world": asdict(world), "number": number, **asdict(one)}
                        with options.json.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(row) + "\n")
                print(line(kind, world, told), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
