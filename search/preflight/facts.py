"""What a measured study's fingerprint takes from the machine, or from every node of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from search.dialects import for_release
from search.errors import HostUnfit
from search.host.environment import UNKNOWN, probe_environment
from search.host.hardware import installed_release, probe_host
from search.host.nvml import GpuFacts
from search.preflight.installed_check import check_arguments
from search.preflight.requirements import missing_on_node
from search.spec.fingerprint import PROBED
from search.spec.study import StudySpec


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What one node says of itself.

    Attributes:
        missing: What the study needs and the node lacks, one line each.
        release: Of SGLang in the engine's interpreter; empty without one.
        environment: By the names of `probe_environment`.
    """

    missing: tuple[str, ...]
    release: str
    environment: Mapping[str, str]


def measured_facts(spec: StudySpec, *, prompts: Mapping[str, str], release: str | None) -> dict[str, str]:
    """Facts of this machine that the study file does not say, by the names they have in the fingerprint.

    Args:
        spec: The study.
        prompts: Hashes of what is sent, by their names in the fingerprint.
        release: Of SGLang in the engine's interpreter.

    Raises:
        HostUnfit: The engine's interpreter gave no answer.
    """
    return _named(prompts, release or "", environment_facts(spec))


def cluster_facts(spec: StudySpec, *, prompts: Mapping[str, str], address: str) -> dict[str, str]:
    """As `measured_facts`, from every node of a Ray cluster that could hold a slot.

    Raises:
        HostUnfit: A node lacks something, such as the weights; or two nodes differ in what a
            measurement depends on.
    """
    from search.cluster import ask_nodes

    nodes = ask_nodes(address, partial(node_facts, spec), gpus_per_slot=spec.model.tp)
    check_nodes(nodes)
    release = next((node.release for node in nodes.values()), "")
    merged = {
        name: next((node.environment[name] for node in nodes.values() if node.environment[name] != UNKNOWN), UNKNOWN)
        for name in next((node.environment for node in nodes.values()), {})
    }
    return _named(prompts, release, merged)


def node_facts(spec: StudySpec) -> NodeFacts:
    """The answer of the machine that this runs on."""
    gpus = probe_host().gpus
    release = installed_release(spec.engine.python, env=spec.engine.over(os.environ))
    missing = missing_on_node(spec, gpus=gpus, installed_release=release, default_python=sys.executable)
    if not missing:
        missing = _installed_word(spec, gpus)
    return NodeFacts(missing, release or "", {} if missing else environment_facts(spec))


def _installed_word(spec: StudySpec, gpus: Sequence[GpuFacts]) -> tuple[str, ...]:
    """What the node's own SGLang has against the plan; a check that could not be made holds nothing up."""
    dialect = for_release(spec.engine.release)
    configs = spec.space_of(dialect).configs
    visible = slot_gpus(spec, gpus)
    # All nodes have to answer within `ask_nodes`' time.
    return check_arguments(configs, spec.deployment, dialect, gpu_uuids=visible, timeout_s=120.0).stops


def slot_gpus(spec: StudySpec, gpus: Sequence[GpuFacts]) -> tuple[str, ...]:
    """UUIDs of the GPUs that the first server of a host would see."""
    return tuple(gpu.uuid for gpu in gpus if gpu.sm == spec.hardware.sm)[: spec.model.tp]


def check_nodes(nodes: Mapping[str, NodeFacts]) -> None:
    """Refuse a cluster whose nodes lack something or are not alike.

    Raises:
        HostUnfit: One line for each thing missing, or for each fact that differs.
    """
    if missing := [f"Node {name}: {line}" for name, node in nodes.items() for line in node.missing]:
        raise HostUnfit(tuple(missing))
    unlike = []
    for fact in next((node.environment for node in nodes.values()), {}):
        answers = {name: node.environment[fact] for name, node in nodes.items() if node.environment[fact] != UNKNOWN}
        if len(set(answers.values())) > 1:
            listed = ", ".join(f"{value} on {name}" for name, value in answers.items())
            unlike.append(
                f"Nodes must be alike, since their measurements are compared, but {fact} is {listed}. "
                "Make them equal, or leave a node out of the cluster."
            )
    if unlike:
        raise HostUnfit(tuple(unlike))


def environment_facts(spec: StudySpec) -> dict[str, str]:
    """What this machine, the engine's interpreter and the models are, see `probe_environment`.

    Raises:
        HostUnfit: The engine's interpreter gave no answer.
    """
    return probe_environment(spec.engine.python, spec.engine.over(os.environ), spec.model.target, spec.model.draft)


def _named(prompts: Mapping[str, str], release: str, environment: Mapping[str, str]) -> dict[str, str]:
    return {
        **prompts,
        "engine.installed": release,
        **{f"{PROBED}{name}": value for name, value in environment.items()},
    }
