"""All checks of a study before its first GPU minute, over facts that somebody else gathered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from search.dialects import Dialect
from search.preflight.checkpoint import Checkpoint
from search.preflight.findings import Finding, Level, error, fine, warning
from search.preflight.installed_report import ArgumentReport
from search.preflight.links import LinkProbe
from search.preflight.machine import MachineFacts, check_machine
from search.preflight.models import check_context, check_draft, check_simulation, check_target, check_weights
from search.preflight.plan import check_flags, check_loads, check_release, check_words
from search.preflight.shapes import PluginWord, check_shared_starts
from search.spec.study import StudySpec

__all__ = ["DoctorFacts", "Finding", "Level", "examine", "worst"]


@dataclass(frozen=True, slots=True)
class DoctorFacts:
    """What was found on this machine.

    Attributes:
        machine: GPUs, disk, ports, clock.
        installed: SGLang's release in the engine's interpreter; None without one.
        default_python: Our own interpreter.
        environment: By the names of `server.environment.FACTS`.
        target: The target's folder; None when it is not there.
        draft: Likewise.
        longest_prompt: Characters of the longest prompt as sent; None when `prompt_fault` says why.
        prompt_fault: Why the prompts cannot be read.
        words: The installed SGLang's word on the plan; None when there is none to ask.
        links: An all-reduce timed between the GPUs of the first slot; None with one GPU a server, or too few here.
        simulating: Variables of its servers' environment under which they invent acceptance.
        plugin: What the plugin for shared starts finds in it; None where it was not asked.
    """

    machine: MachineFacts
    installed: str | None
    default_python: str
    environment: Mapping[str, str] = field(default_factory=dict)
    target: Checkpoint | None = None
    draft: Checkpoint | None = None
    longest_prompt: int | None = None
    prompt_fault: str = ""
    words: ArgumentReport | None = None
    simulating: tuple[str, ...] = ()
    links: LinkProbe | None = None
    plugin: PluginWord | None = None


def examine(spec: StudySpec, dialect: Dialect, facts: DoctorFacts) -> tuple[Finding, ...]:
    """Every check, in the order in which a launch would meet the trouble."""
    found = [*check_machine(spec, facts.machine)]
    if facts.links is not None:
        found.append(check_all_reduce(facts.links, facts.target))
    found += check_release(
        spec,
        dialect,
        installed=facts.installed,
        default_python=facts.default_python,
        environment=facts.environment,
    )
    found.append(check_weights("target", spec.model.target, facts.target))
    if facts.target is not None:
        found += check_target(spec, facts.target, dialect)
    if spec.model.draft:
        found.append(check_weights("draft", spec.model.draft, facts.draft))
    if facts.draft is not None:
        found += check_draft(spec, facts.target, facts.draft)
    if facts.longest_prompt is None:
        found.append(error("prompts", facts.prompt_fault, "correct `measure.prompts`"))
    else:
        found += check_context(spec, facts.target, longest_prompt=facts.longest_prompt, draft=facts.draft)
    found += check_simulation(spec, facts.simulating)
    found += check_flags(spec, dialect, facts.words)
    found += check_words(facts.words)
    found += check_loads(spec, facts.words)
    found += check_shared_starts(spec, facts.plugin)
    return tuple(found)


def check_all_reduce(probe: LinkProbe, target: Checkpoint | None) -> Finding:
    """What an all-reduce costs here, and a pass with all of them."""
    name = "all-reduce"
    fit = probe.fit
    if fit is None:
        way = "a server would meet the same: try `search links`, and look at NCCL's own words with NCCL_DEBUG=INFO"
        return warning(name, f"it could not be timed: {probe.trouble}", way)
    knee = "" if fit.knee is None else f", twice that at {fit.knee:.0f} tokens"
    layers = target.number("num_hidden_layers") if target is not None else None
    whole = probe.pass_ms(1, layers) if layers else None
    share = "" if whole is None else f"; {whole:.1f} ms of every pass of {layers} layers"
    says = f"{fit.latency_us:.0f} us over {probe.ranks} GPUs by NCCL{knee}{share}; `search links` tries the study's settings"
    return fine(name, says)


def worst(findings: tuple[Finding, ...]) -> Level:
    """The gravest level among them."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)
