"""A real study: SGLang on the GPUs of this host, or of a Ray cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from search.app.assembly import Assembly, RawWords, assembly_of, read_spec
from search.app.command_line import command_line
from search.app.options import RunOptions
from search.app.sharing import start_plan
from search.cluster import Executor, InlineExecutor
from search.contracts import Slot
from search.dialects import Dialect, for_release
from search.errors import HostUnfit
from search.host.hardware import installed_release, probe_host
from search.host.nvml import GpuFacts
from search.preflight.facts import cluster_facts, measured_facts, slot_gpus
from search.preflight.installed_check import check_arguments
from search.preflight.requirements import missing_for
from search.server.reaper import reap_orphans
from search.space import Space
from search.spec.calibrated import is_calibrated
from search.spec.fingerprint import fingerprint
from search.spec.stored import masker_of
from search.spec.study import StudySpec
from search.study.sharing import NO_SHARING


def assemble_measured(options: RunOptions, raw: RawWords) -> Assembly:
    """The parts of a study on real servers, the host and the installed SGLang checked.

    Raises:
        HostUnfit: This machine cannot measure the study; the text ends with the `--simulate` command.
    """
    from search.engines import SglangEngine
    from search.preflight.prompts import study_prompts

    spec = read_spec(options)
    dialect = for_release(spec.engine.release)
    space = spec.space_of(dialect)
    gpus: tuple[GpuFacts, ...] = ()
    release = None
    remarks: tuple[str, ...] = ()
    plan = start_plan(spec, space, dialect)
    if options.ray_address is None:
        reap_orphans()  # what a crash or a power cut left would look like somebody else's memory
        gpus = probe_host().gpus
        release = installed_release(spec.engine.python, env=spec.engine.over(os.environ))
        missing = missing_for(spec, gpus=gpus, installed_release=release, default_python=sys.executable)
        if missing:
            instead = command_line(options, simulate=True)
            how = "on the calibrated cost model" if is_calibrated(spec) else "as a rehearsal with invented numbers"
            raise HostUnfit((*missing, f"Without them, {how}: {instead}"))
        if raw is None:  # raw words are sent on purpose, whatever our dialect thinks of them
            remarks, resolved = _held_to_installed(spec, space, dialect, gpus)
            plan = start_plan(spec, space, dialect, installed=resolved)
    prompts = study_prompts(spec, spec.engine.over(os.environ))
    # On a cluster the GPUs, the interpreter and the weights are elsewhere, so the nodes are asked.
    facts = (
        measured_facts(spec, prompts=prompts.facts, release=release)
        if options.ray_address is None
        else cluster_facts(spec, prompts=prompts.facts, address=options.ray_address)
    )
    make = partial(
        SglangEngine,
        spec.deployment,
        dialect,
        prompts=prompts.own.search,
        held_out=prompts.own.held_out,
        sampling=spec.measure.sampling.load_sampling,
        workloads=prompts.workloads,
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

    assembly = assembly_of(
        options,
        spec,
        kind="measured",
        space=space,
        facts=fingerprint(spec, kind="measured", facts=facts),
        open_executor=open_executor,
        dialect=dialect,
    )
    if plan.sharing.groups:
        remarks = (*remarks, plan.line)
    return replace(assembly, remarks=remarks, sharing=plan.sharing if raw is None else NO_SHARING)


def _held_to_installed(
    spec: StudySpec, space: Space, dialect: Dialect, gpus: Sequence[GpuFacts]
) -> tuple[tuple[str, ...], Mapping[str, Mapping[str, Any]]]:
    """Ask the installed SGLang about every config of the plan.

    Returns:
        What it only remarks on, a line each; and by config id what it resolved.

    Raises:
        HostUnfit: It refuses one, or would run it as something else; or it cannot even be imported.
    """
    report = check_arguments(space.configs, spec.deployment, dialect, gpu_uuids=slot_gpus(spec, gpus))
    masker = masker_of(spec.engine, inherited=os.environ)
    remarks, stops = (tuple(map(masker.text, lines)) for lines in (report.remarks, report.stops))
    if stops:
        raise HostUnfit((*remarks, *stops))
    return remarks, report.resolved
