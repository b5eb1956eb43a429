"""From a command line to the parts of a run: study, space, engine, executor, clock, fingerprint."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE, RunOptions
from search.cluster import Executor, InlineExecutor
from search.contracts import Clock, Engine, RealClock, Slot, VirtualClock
from search.dialects import Dialect, for_release
from search.errors import HostUnfit, UsageError
from search.host.hardware import installed_release, probe_host
from search.host.nvml import GpuFacts
from search.preflight.facts import cluster_facts, measured_facts, slot_gpus
from search.preflight.installed_check import check_arguments
from search.preflight.requirements import missing_for
from search.server.reaper import reap_orphans
from search.space import Space
from search.spec.file import find_study, known_studies, load_study, packaged_spaces
from search.spec.fingerprint import fingerprint, study_name
from search.spec.study import StudySpec
from search.storage.records import StudyKind
from search.study.context import Recorded

EXECUTORS = ("ray", "inline")


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one run, nothing started yet.

    Attributes:
        name: The stored study name.
        folder: `reports/<name>`.
        fingerprint: What must not change over the study's life.
        clock: Virtual unless measured.
        open_executor: Takes the GPUs (or none), and starts Ray where asked.
        dialect: None for a recording, which launches nothing.
        recorded: How many repeats each recorded launch holds, of a study's own recording.
        remarks: What the installed SGLang says about the plan without refusing it, a line each.
    """

    spec: StudySpec
    kind: StudyKind
    name: str
    space: Space
    fingerprint: Mapping[str, str]
    clock: Clock
    folder: Path
    open_executor: Callable[[], Executor]
    dialect: Dialect | None
    recorded: Recorded | None = None
    remarks: tuple[str, ...] = ()


def assemble(options: RunOptions, *, raw: tuple[str, ...] | None = None) -> Assembly:
    """Read and check everything before the first GPU minute.

    Args:
        options: The command line.
        raw: Words that a real server gets in place of a config's own, exactly.

    Raises:
        UsageError: The command line, study file or recording is wrong.
        HostUnfit: This machine cannot measure the study; the text ends with the `--simulate` command.
    """
    if options.executor is not None and options.executor not in EXECUTORS:
        raise UsageError(
            f"`--executor` is one of {', '.join(EXECUTORS)}, but got {options.executor!r}. Leave it out for the usual one."
        )
    if options.simulate and options.replay:
        raise UsageError("`--simulate` and `--replay` exclude one another. Leave one out.")
    if options.replay:
        return _replayed(options, options.replay)
    if options.study is None:
        known = ", ".join(known_studies((options.here / "spaces", packaged_spaces())))
        raise UsageError(f"`--study` names a study, or `--replay` a recording. Known studies: {known or 'none'}.")
    spec = read_spec(options)
    return _simulated(options, spec) if options.simulate else _measured(options, spec, raw)


def read_spec(options: RunOptions) -> StudySpec:
    """The study file with the command line's models and seed applied.

    Raises:
        UsageError: There is no such study, or its file is wrong.
    """
    spec = load_study(find_study(options.study or "", here=options.here))
    spec = spec.with_models(target=options.model, draft=options.draft)
    return spec if options.seed is None else spec.model_copy(update={"seed": options.seed})


def _simulated(options: RunOptions, spec: StudySpec) -> Assembly:
    from search.engines import SimulatedEngine
    from search.physics.files import load_physics

    physics = load_physics(spec.simulation.physics)
    dialect = for_release(spec.engine.release)
    limits = spec.measure.limits.load_limits
    make = partial(SimulatedEngine, physics, seed=spec.seed, deployment=spec.deployment, limits=limits)
    return _assembly(
        options,
        spec,
        kind="simulated",
        space=spec.space_of(dialect),
        facts=fingerprint(spec, kind="simulated", facts={"seed": str(spec.seed)}),
        open_executor=_virtual_executor(options, make),
        dialect=dialect,
    )


def _replayed(options: RunOptions, folder: Path) -> Assembly:
    from search.app.recordings import STUDY_FILE, recording_facts, spec_of_recording
    from search.engines import ReplayEngine
    from search.engines.recording import read_recording

    if options.study or options.model or options.draft:
        raise UsageError("A recording names its own study and models: leave out `--study`, `--model` and `--draft`.")
    recording = read_recording(folder)
    spec = spec_of_recording(recording)
    if options.seed is not None:
        spec = spec.model_copy(update={"seed": options.seed})
    assembly = _assembly(
        options,
        spec,
        kind="replay",
        space=Space.recorded(recording.space()),
        facts=recording_facts(recording, folder),
        open_executor=_virtual_executor(options, partial(ReplayEngine, recording)),
        dialect=None,
        name=recording.name,
    )
    # A table that no study wrote may hold any number of repeats for a reason of its own.
    own = STUDY_FILE in recording.meta
    return replace(assembly, recorded=recording.repeats_of_launch) if own else assembly


def _measured(options: RunOptions, spec: StudySpec, raw: tuple[str, ...] | None) -> Assembly:
    from search.engines import SglangEngine
    from search.load.prompts import load_prompts

    dialect = for_release(spec.engine.release)
    space = spec.space_of(dialect)
    gpus: tuple[GpuFacts, ...] = ()
    release = None
    remarks: tuple[str, ...] = ()
    if options.ray_address is None:
        reap_orphans()  # what a crash or a power cut left would look like somebody else's memory
        gpus = probe_host().gpus
        release = installed_release(spec.engine.python, env=spec.engine.over(os.environ))
        missing = missing_for(spec, gpus=gpus, installed_release=release, default_python=sys.executable)
        if missing:
            instead = command_line(options, simulate=True)
            raise HostUnfit((*missing, f"Without them, on the calibrated cost model: {instead}"))
        if raw is None:  # raw words are sent on purpose, whatever our dialect thinks of them
            remarks = _held_to_installed(spec, space, dialect, gpus)
    prompts = load_prompts(spec.prompt_file, template=spec.measure.prompts.template)
    # On a cluster the GPUs, the interpreter and the weights are elsewhere, so the nodes are asked.
    facts = (
        measured_facts(spec, prompts_sha256=prompts.sha256, release=release)
        if options.ray_address is None
        else cluster_facts(spec, prompts_sha256=prompts.sha256, address=options.ray_address)
    )
    make = partial(
        SglangEngine,
        spec.deployment,
        dialect,
        prompts=prompts.search,
        held_out=prompts.held_out,
        raw=raw,
        limits=spec.measure.limits.load_limits,
    )

    def open_executor() -> Executor:
        if options.executor == "inline":
            return InlineExecutor(make(), (Slot(0, slot_gpus(spec, gpus)),))
        from search.cluster import RayExecutor

        return RayExecutor(
            make, slots=1 if raw else spec.slots, gpus_per_slot=spec.model.tp, address=options.ray_address
        )

    assembly = _assembly(
        options,
        spec,
        kind="measured",
        space=space,
        facts=fingerprint(spec, kind="measured", facts=facts),
        open_executor=open_executor,
        dialect=dialect,
    )
    return replace(assembly, remarks=remarks)


def _held_to_installed(spec: StudySpec, space: Space, dialect: Dialect, gpus: Sequence[GpuFacts]) -> tuple[str, ...]:
    """Ask the installed SGLang about every config of the plan; what it only remarks on, a line each.

    Raises:
        HostUnfit: It refuses one, or would run it as something else; or it cannot even be imported.
    """
    report = check_arguments(space.configs, spec.deployment, dialect, gpu_uuids=slot_gpus(spec, gpus))
    if report.stops:
        raise HostUnfit((*report.remarks, *report.stops))
    return tuple(report.remarks)


def _assembly(
    options: RunOptions,
    spec: StudySpec,
    *,
    kind: StudyKind,
    space: Space,
    facts: Mapping[str, str],
    open_executor: Callable[[], Executor],
    dialect: Dialect | None,
    name: str | None = None,
) -> Assembly:
    stored = study_name(name or spec.study, kind)
    return Assembly(
        spec=spec,
        kind=kind,
        name=stored,
        space=space,
        fingerprint=facts,
        clock=RealClock() if kind == "measured" else VirtualClock(datetime.now(UTC)),
        folder=options.reports / stored,
        open_executor=open_executor,
        dialect=dialect,
    )


def _virtual_executor(options: RunOptions, make: Callable[[], Engine]) -> Callable[[], Executor]:
    """In this process unless `--executor ray`: a computed launch needs no GPU."""

    def open_executor() -> Executor:
        if options.executor != "ray":
            return InlineExecutor(make())
        from search.cluster import RayExecutor

        return RayExecutor(make, address=options.ray_address)

    return open_executor


def command_line(options: RunOptions, *, simulate: bool | None = None) -> str:
    """The run command that asks for the same again, with `--simulate` forced on where `simulate` is True.

    Limits of the study's life are repeated: without them the study file's would apply.
    """
    words = ["python", "-m", "search.run"]
    for flag, value in (
        ("--study", options.study),
        ("--replay", options.replay),
        ("--storage", options.storage if options.storage != DEFAULT_STORAGE else None),
        ("--reports", options.reports if options.reports != DEFAULT_REPORTS else None),
        ("--launches", options.launches),
        ("--hours", options.hours),
        ("--seed", options.seed),
        ("--sampler", options.sampler),
        ("--executor", options.executor),
        ("--ray-address", options.ray_address),
        ("--model", options.model),
        ("--draft", options.draft),
    ):
        if value is not None:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    if options.simulate if simulate is None else simulate:
        words.append("--simulate")
    return shlex.join(words)
