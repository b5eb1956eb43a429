"""Optuna trials as evidence for the belief: measured, gated, failed, or still running."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.errors import InvalidConfig
from search.model.feasibility import Start
from search.model.observations import Observation

EVIDENCE: Final = "evidence"
"""User attribute with `evidence_of` a launch: repeats and histograms, which the two values lack."""


@dataclass(frozen=True)
class Evidence:
    """What the trials of a study tell.

    Attributes:
        observations: Numbers of measured and gated trials.
        starts: Which configs started, and which did not through their own fault.
        measured: Configs with both objectives.
        pending: Configs of running and waiting trials.
    """

    observations: list[Observation] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    measured: list[SpecConfig] = field(default_factory=list)
    pending: list[SpecConfig] = field(default_factory=list)


def evidence_of(phases: Iterable[PhaseResult]) -> dict[str, Any]:
    """All repeats of a launch, as a JSON-able user attribute.

    Returns:
        By concurrency: `ms` of each repeat, `accept` (mean, or None), `histogram` (summed).
    """
    by_load: dict[int, list[PhaseResult]] = {}
    for phase in phases:
        by_load.setdefault(phase.concurrency, []).append(phase)
    result: dict[str, Any] = {}
    for load, repeats in sorted(by_load.items()):
        accepts = [repeat.accept_length for repeat in repeats if repeat.accept_length is not None]
        histograms = [repeat.accept_histogram for repeat in repeats if repeat.accept_histogram]
        width = max(map(len, histograms), default=0)
        result[str(load)] = {
            "ms": [_ms(load, repeat.tpot_ms, repeat.output_tps) for repeat in repeats],
            "accept": sum(accepts) / len(accepts) if accepts else None,
            "histogram": [sum(counts[place] for counts in histograms if place < len(counts)) for place in range(width)],
        }
    return result


def observations_of(config: SpecConfig, phases: Iterable[PhaseResult]) -> list[Observation]:
    """Phases of one launch as the belief takes them, one observation per concurrency."""
    told = evidence_of(phases)
    seen = (_observation(config, int(load), part, None) for load, part in told.items())
    return [item for item in seen if item is not None]


def failed_start(config: SpecConfig, reason: str, *, weight: float = 1.0) -> Start:
    """A config that did not start through its own fault; `reason` is one of the closed list, empty where not told."""
    return Start(config, started=False, of_memory=reason.startswith("OOM") if reason else None, weight=weight)


def read_trials(
    trials: Sequence[FrozenTrial], configs: Mapping[int, SpecConfig], *, loads: tuple[int, int]
) -> Evidence:
    """Sort trials by what they tell; FAIL tells nothing, and neither do values that are no numbers.

    Args:
        trials: Of one study, minimising milliseconds per token and maximising tokens per second.
        configs: By trial number; trials of other spaces are left out.
        loads: The two objective concurrencies.
    """
    evidence = Evidence()
    for trial in trials:
        config = configs.get(trial.number)
        if config is None:
            continue
        if trial.state in (TrialState.RUNNING, TrialState.WAITING):
            evidence.pending.append(config)
        elif trial.state is TrialState.COMPLETE and any(value > 0.0 for value in trial.constraints.values()):
            reason = str(trial.user_attrs.get("reason") or "")
            evidence.starts.append(failed_start(config, reason))
        elif trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            seen = _observations(trial, config, loads)
            evidence.observations.extend(seen)
            if seen:
                evidence.starts.append(Start(config, started=True))
            if {item.load for item in seen} >= set(loads):
                evidence.measured.append(config)
    return evidence


def config_of(trial: FrozenTrial) -> SpecConfig | None:
    """What a trial asks for; None for one that is no config."""
    params = trial.params or trial.system_attrs.get("fixed_params", {})
    try:
        return SpecConfig.from_params(params)
    except InvalidConfig:
        return None


def _observations(trial: FrozenTrial, config: SpecConfig, loads: tuple[int, int]) -> list[Observation]:
    told: Mapping[str, Any] = trial.user_attrs.get(EVIDENCE) or {}
    result = []
    for load in dict.fromkeys([*loads, *(int(key) for key in told)]):
        part = dict(told.get(str(load), {}))
        part["accept"] = part.get("accept") or trial.user_attrs.get(f"accept_c{load}")
        result.append(_observation(config, load, part, _value(trial, loads, load)))
    return [item for item in result if item is not None]


def _observation(config: SpecConfig, load: int, part: Mapping[str, Any], ms: float | None) -> Observation | None:
    """From the repeats where they are told, else from `ms`; None where there is neither."""
    repeats = [float(value) for value in part.get("ms", ()) if value is not None and _is_positive(value)]
    if repeats:
        ms = float(np.exp(np.mean(np.log(repeats))))
    if ms is None:
        return None
    accept = part.get("accept")
    return Observation(
        config,
        load,
        ms,
        relative_sd=_spread(repeats),
        accept_length=float(accept) if accept is not None and accept >= 1.0 else None,
        histogram=tuple(part.get("histogram", ())),
    )


def _value(trial: FrozenTrial, loads: tuple[int, int], load: int) -> float | None:
    """Milliseconds per token from the values, or from the attribute a gated trial has; None where not measured."""
    if trial.state is TrialState.COMPLETE and load in loads and trial.values is not None and len(trial.values) == 2:
        value = trial.values[loads.index(load)]
        if not _is_positive(value):
            return None
        return float(value if load == loads[0] else 1000.0 * load / value)
    output_tps = trial.user_attrs.get(f"c{load}_output_tps")
    return 1000.0 * load / float(output_tps) if output_tps is not None and _is_positive(output_tps) else None


def _ms(load: int, tpot_ms: float | None, output_tps: float) -> float | None:
    if load == 1 and tpot_ms is not None:
        return tpot_ms
    return 1000.0 * load / output_tps if output_tps > 0.0 else None


def _spread(repeats: Sequence[float]) -> float | None:
    """Standard error of the mean of the logarithms; None for a single repeat."""
    if len(repeats) < 2:
        return None
    return float(np.std(np.log(repeats), ddof=1) / math.sqrt(len(repeats)))


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0.0
