"""What must be equal for two measurements to be compared, and how a difference is described."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePath

from search.host.environment import UNKNOWN
from search.masking import Masker, is_harmless, is_secret_name, mask_text, mask_words
from search.metrics import DEFAULTS
from search.spec.measured import MeasureSpec
from search.spec.study import StudySpec
from search.storage.records import StudyKind

PROBED = "environment."
"""Prefix of facts that were asked of the machine, where an answer may be missing."""
_HIDDEN = re.compile(r"\bsecret [0-9a-f]{8}\)?$")
WORKLOADS = "workloads."
"""Prefix of what further workloads are: a new one may come to a study, since nothing was measured with it before."""


def study_name(name: str, kind: StudyKind) -> str:
    """The stored name: kinds never share a study.

    Args:
        name: Of the study; of the recording for a replay.
        kind: How its numbers come about.
    """
    suffix = {"measured": "", "simulated": ".simulated", "replay": ".replay"}[kind]
    return f"{PurePath(name).name}{suffix}"


def fingerprint(spec: StudySpec, *, kind: StudyKind, facts: Mapping[str, str] | None = None) -> dict[str, str]:
    """Everything that changes a measurement, flat, by the names that the study file has for it.

    Budget, watch loads, known configs, questions, sampler and seed are not in it: they may change. Nor are the
    wanted uncertainty and goodput's limits, unless goodput is an objective.

    Args:
        spec: The study.
        kind: Of the study; only a simulated one depends on the cost model.
        facts: What the study file cannot know: the prompts' hash, the installed release, GPU kinds.
    """
    model, engine, measure = spec.model, spec.engine, spec.measure
    parts: dict[str, object] = {
        "model.target": model.target,
        "model.draft": model.draft,
        "model.algorithm": model.algorithm,
        "model.tp": model.tp,
        "model.trust_remote_code": model.trust_remote_code,
        "hardware.kind": spec.hardware.kind,
        "hardware.links": spec.hardware.links,
        "engine.release": engine.release,
        "engine.max_running_requests": engine.max_running_requests,
        "engine.prefix": _hidden_words(engine.prefix),
        "engine.patches": ", ".join(
            f"{patch.name} ({' '.join(sorted(patch.lifts))})" for patch in sorted(engine.patches, key=lambda p: p.name)
        ),
        **{f"engine.env.{name}": _hidden_variable(name, value) for name, value in engine.env.items()},
        **{f"engine.server_args.{name}": _hidden(name, value) for name, value in engine.server_args.items()},
        # Where a config says nothing of such a variable it is unset, not inherited.
        **({"space.env": ", ".join(sorted(spec.space.env))} if spec.space.env else {}),
        **_objectives(spec),
        "measure.output_tokens": measure.output_tokens,
        "measure.output_spread": measure.output_spread,
        "measure.requests_at_latency": measure.requests_at_latency,
        "measure.requests_per_worker": measure.requests_per_worker,
        "measure.repeats": measure.repeats,
        "measure.watch_repeats": measure.watch_repeats,
        "measure.parallel_loads": measure.parallel_loads,
        **_sent("measure.prompts", "measure.sampling", measure),
        **{name: value for workload in spec.workloads for name, value in _of_workload(spec, workload).items()},
        **(_simulated(spec) if kind == "simulated" else {}),
        **(facts or {}),
    }
    return {name: str(value) for name, value in sorted(parts.items())}


def _sent(prompts: str, sampling: str, measure: MeasureSpec) -> dict[str, object]:
    """What is sent and how it is sampled; what is left at its default has no line, as in studies from before."""
    return {
        **{f"{prompts}.{name}": value for name, value in measure.prompts.said.items()},
        **{f"{sampling}.{name}": value for name, value in measure.sampling.said.items()},
    }


def _of_workload(spec: StudySpec, name: str) -> dict[str, object]:
    measure, place = spec.measure_of(name), f"{WORKLOADS}{name}"
    return {
        **_sent(f"{place}.prompts", f"{place}.sampling", measure),
        f"{place}.output_tokens": measure.output_tokens,
    }


def _simulated(spec: StudySpec) -> dict[str, object]:
    return {
        "simulation.physics": spec.simulation.physics,
        **{f"{WORKLOADS}{name}.acceptance": factor for name, factor in spec.simulation.acceptance.items()},
    }


def _objectives(spec: StudySpec) -> dict[str, object]:
    """The usual metrics by their concurrencies, as studies of before have them; others by name, with goodput's limits."""
    if (spec.axes[0].metric, spec.axes[1].metric) == (DEFAULTS[0].metric, DEFAULTS[1].metric):
        first, second = spec.axes
        return {"objectives.latency": first.concurrency, "objectives.throughput": second.concurrency}
    parts: dict[str, object] = {"objectives": ", ".join(spec.objective_names)}
    if any(axis.metric.needs_limits for axis in spec.axes):
        limits = spec.measure.limits
        parts |= {"measure.limits.ttft_ms": limits.ttft_ms, "measure.limits.tpot_ms": limits.tpot_ms}
    return parts


def differences(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One `name: stored -> now` for each difference, by name.

    A fact of the machine that had no answer, then or now, differs from nothing, and so does a workload that is new.
    """
    known = {"", *map(_workload, stored)}
    names = sorted(name for name in stored.keys() | now.keys() if _workload(name) in known)
    return [
        f"{name}: {stored.get(name, 'not set')} -> {now.get(name, 'not set')}"
        for name in names
        if stored.get(name) != now.get(name) and _is_known(name, stored) and _is_known(name, now)
    ]


def renewed(stored: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """`now`, with the stored answer where the machine gives none this time."""
    kept = {name: value for name, value in stored.items() if name.startswith(PROBED) and not _is_known(name, now)}
    return dict(sorted({**now, **kept}.items()))


def without_secrets(stored: Mapping[str, str], masker: Masker) -> dict[str, str]:
    """A stored fingerprint, one of an earlier version too, with what today's holds in the place of secrets.

    Args:
        stored: As a database or a recording holds it.
        masker: Knows the secrets of its study.
    """
    return {name: _without_secret(name, str(value), masker) for name, value in stored.items()}


def _without_secret(name: str, value: str, masker: Masker) -> str:
    variable, flag = name.removeprefix("engine.env."), name.removeprefix("engine.server_args.")
    if _HIDDEN.search(value):
        return value
    if variable != name:
        return _hidden_variable(variable, value)
    if flag != name:
        return str(_hidden(flag, value))
    return _hidden_words(tuple(value.split(" "))) if name == "engine.prefix" else masker.text(value)


def _workload(name: str) -> str:
    """Of a fact: `workloads.code`; empty for what is of no further workload."""
    return ".".join(name.split(".")[:2]) if name.startswith(WORKLOADS) else ""


def _is_known(name: str, facts: Mapping[str, str]) -> bool:
    return not name.startswith(PROBED) or facts.get(name, UNKNOWN) != UNKNOWN


def _hidden(name: str, value: object) -> object:
    """A secret's hash in its place: a changed one is still seen."""
    return _hash(str(value)) if is_secret_name(name) or mask_text(str(value)) != str(value) else value


def _hidden_variable(name: str, value: str) -> str:
    return value if is_harmless(name, value) else _hash(value)


def _hidden_words(words: tuple[str, ...]) -> str:
    shown = " ".join(mask_words(words))
    return shown if shown == " ".join(words) else f"{shown} ({_hash(' '.join(words))})"


def _hash(text: str) -> str:
    return f"secret {hashlib.sha256(text.encode()).hexdigest()[:8]}"
