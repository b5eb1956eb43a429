"""Gathers what the doctor looks at: one pass over the machine, the models and the installed SGLang."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from search.dialects import Dialect, simulating
from search.errors import HostUnfit, UsageError
from search.host.environment import model_folder
from search.host.hardware import HostHardware, clock_kept, ephemeral_from, installed_release, probe_hardware
from search.host.nvml import gpu_users
from search.load.prompts import load_prompts
from search.preflight.checkpoint import Checkpoint, read_checkpoint
from search.preflight.examine import DoctorFacts
from search.preflight.facts import environment_facts, slot_gpus
from search.preflight.findings import Finding, Level
from search.preflight.installed_check import check_arguments
from search.preflight.installed_report import ArgumentReport
from search.preflight.links import LinkProbe, probe_links
from search.preflight.machine import MachineFacts
from search.preflight.models import check_draft, check_loading, check_simulation
from search.preflight.shapes import PluginWord, ask_plugin, support_of
from search.server.ports import fresh_ports
from search.spec.study import StudySpec


def gather(spec: StudySpec, dialect: Dialect, *, reports: Path) -> DoctorFacts:
    """Everything at once; takes about ten seconds where SGLang is installed."""
    env = spec.engine.over(os.environ)
    hardware = probe_hardware()
    installed = installed_release(spec.engine.python, env=env)
    longest, fault = _longest_prompt(spec)
    return DoctorFacts(
        machine=_machine(hardware, reports),
        installed=installed,
        default_python=sys.executable,
        environment=_environment(spec) if installed else {},
        target=_checkpoint(spec.model.target, env),
        draft=_checkpoint(spec.model.draft, env) if spec.model.draft else None,
        longest_prompt=longest,
        prompt_fault=fault,
        words=_words(spec, dialect, hardware) if installed else None,
        simulating=simulating(env),
        plugin=_plugin(spec, env) if installed else None,
        links=_all_reduce(spec, hardware, env) if installed else None,
    )


def _all_reduce(spec: StudySpec, hardware: HostHardware, env: Mapping[str, str]) -> LinkProbe | None:
    gpus = slot_gpus(spec, hardware.gpus)
    target = _checkpoint(spec.model.target, env)
    hidden = target.number("hidden_size") if target is not None else None
    if spec.model.tp < 2 or len(gpus) < spec.model.tp or not hidden:
        return None
    return probe_links(
        ranks=spec.model.tp,
        hidden=hidden,
        python=spec.engine.python,
        env={**env, "CUDA_VISIBLE_DEVICES": ",".join(gpus)},
        port=fresh_ports().http,
    )


def _machine(hardware: HostHardware, reports: Path) -> MachineFacts:
    users = gpu_users()
    place = next(path for path in (reports.absolute(), *reports.absolute().parents) if path.is_dir())
    try:
        fresh_ports()
        ports = ""
    except HostUnfit as error:
        ports = str(error)
    return MachineFacts(
        hardware=hardware,
        users=users,
        names=dict(_process_names({user.pid for user in users or ()})),
        reports=str(reports),
        disk_free=_disk_free(place),
        reports_writable=os.access(place, os.W_OK),
        ports=ports,
        ephemeral_from=ephemeral_from(),
        now=datetime.now(UTC),
        clock_kept=clock_kept(),
    )


def _process_names(pids: set[int]) -> Iterator[tuple[int, str]]:
    import psutil

    for pid in pids:
        try:
            yield pid, psutil.Process(pid).name()
        except psutil.Error:  # gone, or of a host that this container does not see
            continue


def _disk_free(place: Path) -> int | None:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return None


def _environment(spec: StudySpec) -> dict[str, str]:
    try:
        return environment_facts(spec)
    except HostUnfit:  # what is installed answers for itself in the checks that follow
        return {}


def draft_findings(spec: StudySpec) -> tuple[Finding, ...]:
    """What is doubtful or wrong about the models, where their files are on this disk; for `plan`.

    A draft of another algorithm starts and runs, with an accept length of 1.00 (sglang#21272).
    """
    env = spec.engine.over(os.environ)
    draft = _checkpoint(spec.model.draft, env) if spec.model.draft else None
    target = _checkpoint(spec.model.target, env)
    found = [*check_simulation(spec, simulating(env))]
    if target is not None and target.config:
        found += check_loading(spec, target)
    if draft is not None and draft.config:
        found += check_draft(spec, target, draft)
    return tuple(finding for finding in found if finding.level is not Level.OK)


def _checkpoint(model: str, env: Mapping[str, str]) -> Checkpoint | None:
    folder = model_folder(model, env)
    return read_checkpoint(folder) if folder is not None else None


def _longest_prompt(spec: StudySpec) -> tuple[int | None, str]:
    try:
        prompts = load_prompts(spec.prompt_file, template=spec.measure.prompts.template)
    except UsageError as error:
        return None, str(error).rstrip(".")
    return max(len(prompt.text) for prompt in (*prompts.search, *prompts.held_out)), ""


def _plugin(spec: StudySpec, env: Mapping[str, str]) -> PluginWord | None:
    support, wish = support_of(spec), spec.engine.shared_starts
    wanted = support.ok and (wish == "on" or (wish == "auto" and support.proven))
    return ask_plugin(spec.engine.python, env) if wanted else None


def _words(spec: StudySpec, dialect: Dialect, hardware: HostHardware) -> ArgumentReport:
    configs = spec.space_of(dialect).configs
    return check_arguments(configs, spec.deployment, dialect, gpu_uuids=slot_gpus(spec, hardware.gpus))
