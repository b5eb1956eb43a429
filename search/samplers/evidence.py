"""Optuna trials as evidence for the belief: measured, gated, failed, or still running."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from optuna.trial import FrozenTrial, TrialState
from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.errors import InvalidConfig
from search.metrics import DEFAULTS, Objective, Objectives, loads_of, pace_ms, pace_of
from search.model.feasibility import Start
from search.model.observations import MetricValue, Observation

LOSSY: Final = "lossy"
"""User attribute of a trial whose config was measured and gives worse answers than the baseline: it has no place on the
front, though its numbers teach what a pass costs."""
EVIDENCE: Final = "evidence"
"""User attribute with the `StoredEvidence` of a launch: repeats and histograms, which the two values lack."""


class LoadEvidence(BaseModel):
    """What a launch measured at one concurrency, as it stands in Optuna's database.

    Attributes:
        ms: Pace of each repeat, milliseconds per token of one request; None for a repeat that gave none.
        accept: Output tokens per verify pass, mean over repeats.
        histogram: Verify passes that accepted 0, 1, 2, … drafts, summed over repeats.
        values: By metric, its value in each repeat that has it; of objectives that are not the pace.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=True)

    ms: tuple[float | None, ...] = ()
    accept: float | None = None
    histogram: tuple[float, ...] = ()
    values: dict[str, tuple[float, ...]] = {}

    def observation(self, config: SpecConfig, load: int, *, ms: float | None = None) -> Observation | None:
        """As the belief takes it: from the repeats where they are known, else from `ms`; None where there is neither."""
        repeats = [value for value in self.ms if value is not None and _is_positive(value)]
        if repeats:
            ms = float(np.exp(np.mean(np.log(repeats))))
        if ms is None:
            return None
        return Observation(
            config,
            load,
            ms,
            relative_sd=_spread(repeats),
            accept_length=self.accept if self.accept is not None and self.accept >= 1.0 else None,
            histogram=self.histogram,
            values=tuple(_metric_value(name, values) for name, values in self.values.items() if values),
        )


class StoredEvidence(RootModel[dict[int, LoadEvidence]]):
    """What a launch measured, by concurrency: the user attribute `EVIDENCE` of its trial."""

    def dumped(self) -> dict[str, Any]:
        """As JSON-able data for Optuna; parts that a study does not have are left out."""
        data: dict[str, Any] = self.model_dump(mode="json")
        return {
            str(load): {name: value for name, value in part.items() if name != "values" or value}
            for load, part in data.items()
        }


@dataclass(frozen=True)
class TrialEvidence:
    """What is learned from the trials of a study.

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

    def copy(self) -> TrialEvidence:
        """One that may be added to."""
        return TrialEvidence(list(self.observations), list(self.starts), list(self.measured), list(self.pending))

    def extend(self, other: TrialEvidence) -> None:
        """Add what further trials show."""
        self.observations.extend(other.observations)
        self.starts.extend(other.starts)
        self.measured.extend(other.measured)
        self.pending.extend(other.pending)


def evidence_of(phases: Iterable[PhaseResult], objectives: Sequence[Objective] = ()) -> StoredEvidence:
    """All repeats of a launch.

    Args:
        phases: Of one launch, in any order.
        objectives: Of the study; of those that are not the pace, the values are kept too.
    """
    by_load: dict[int, list[PhaseResult]] = {}
    for phase in phases:
        by_load.setdefault(phase.concurrency, []).append(phase)
    result: dict[int, LoadEvidence] = {}
    for load, repeats in sorted(by_load.items()):
        accepts = [repeat.accept_length for repeat in repeats if repeat.accept_length is not None]
        histograms = [repeat.accept_histogram for repeat in repeats if repeat.accept_histogram]
        width = max(map(len, histograms), default=0)
        result[load] = LoadEvidence(
            ms=tuple(pace_ms(repeat) for repeat in repeats),
            accept=sum(accepts) / len(accepts) if accepts else None,
            histogram=tuple(
                sum(counts[place] for counts in histograms if place < len(counts)) for place in range(width)
            ),
            values={
                objective.metric.name: tuple(
                    max(value, objective.metric.floor)
                    for repeat in repeats
                    if (value := objective.of(repeat)) is not None
                )
                for objective in objectives
                if objective.link is None and objective.concurrency == load
            },
        )
    return StoredEvidence(result)


def observations_of(
    config: SpecConfig, phases: Iterable[PhaseResult], objectives: Sequence[Objective] = ()
) -> list[Observation]:
    """Phases of one launch as the belief takes them, one observation per concurrency; `objectives` as `evidence_of`."""
    parts = evidence_of(phases, objectives).root
    seen = (part.observation(config, load) for load, part in parts.items())
    return [item for item in seen if item is not None]


def failed_start(config: SpecConfig, reason: str, *, weight: float = 1.0) -> Start:
    """A config that did not start through its own fault; `reason` is one of the closed list, empty where unknown."""
    return Start(config, started=False, of_memory=reason.startswith("OOM") if reason else None, weight=weight)


def has_both(objectives: Objectives, seen: Sequence[Observation]) -> bool:
    """Whether observations of one config hold both objectives."""
    return all(
        any(
            item.load == objective.concurrency
            and item.ms_per_token is not None
            and (objective.link is not None or item.value_of(objective.metric.name) is not None)
            for item in seen
        )
        for objective in objectives
    )


def read_trials(
    trials: Sequence[FrozenTrial], configs: Mapping[int, SpecConfig], *, objectives: Objectives = DEFAULTS
) -> TrialEvidence:
    """Sort trials by what they teach; FAIL teaches nothing, and neither do values that are no numbers.

    A trial without `EVIDENCE`, which somebody else's program made, is read by its values where these are the pace
    in other units; values of other metrics alone say nothing of what a pass costs, and such a trial is left out.

    Args:
        trials: Of one study, whose values are those of the objectives.
        configs: By trial number; trials of other spaces are left out.
        objectives: Of the study.
    """
    evidence = TrialEvidence()
    for trial in trials:
        config = configs.get(trial.number)
        if config is None:
            continue
        if trial.state in (TrialState.RUNNING, TrialState.WAITING):
            evidence.pending.append(config)
        elif trial.state is TrialState.COMPLETE and trial.user_attrs.get(LOSSY):
            evidence.observations.extend(_observations(trial, config, objectives))
            evidence.starts.append(Start(config, started=True))
        elif trial.state is TrialState.COMPLETE and any(value > 0.0 for value in trial.constraints.values()):
            reason = str(trial.user_attrs.get("reason") or "")
            evidence.starts.append(failed_start(config, reason))
        elif trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
            seen = _observations(trial, config, objectives)
            evidence.observations.extend(seen)
            if seen:
                evidence.starts.append(Start(config, started=True))
            if has_both(objectives, seen):
                evidence.measured.append(config)
    return evidence


def config_of(trial: FrozenTrial) -> SpecConfig | None:
    """What a trial asks for; None for one that is no config."""
    params = trial.params or trial.system_attrs.get("fixed_params", {})
    try:
        return SpecConfig.from_params(params)
    except InvalidConfig:
        return None


def _observations(trial: FrozenTrial, config: SpecConfig, objectives: Objectives) -> list[Observation]:
    try:
        parts = StoredEvidence.model_validate(trial.user_attrs.get(EVIDENCE) or {}).root
    except ValidationError:  # of another program; its values may still say something
        parts = {}
    result = []
    for load in dict.fromkeys([*loads_of(objectives), *parts]):
        part = parts.get(load, LoadEvidence())
        if not part.accept and (accept := trial.user_attrs.get(f"accept_c{load}")):
            part = part.model_copy(update={"accept": float(accept)})
        result.append(part.observation(config, load, ms=_pace(trial, objectives, load)))
    return [item for item in result if item is not None]


def _pace(trial: FrozenTrial, objectives: Objectives, load: int) -> float | None:
    """Milliseconds per token from the values, or from the attribute a gated trial has; None where not measured."""
    if trial.state is TrialState.COMPLETE and trial.values is not None and len(trial.values) == 2:
        for objective, value in zip(objectives, trial.values, strict=True):
            if objective.concurrency == load and objective.link is not None:
                scale, power = objective.link
                return float(value / scale if power > 0 else scale / value) if _is_positive(value) else None
    output_tps = trial.user_attrs.get(f"c{load}_output_tps")
    return pace_of(float(output_tps), load) if output_tps is not None and _is_positive(output_tps) else None


def _metric_value(name: str, repeats: Sequence[float]) -> MetricValue:
    """The geometric mean, as the belief thinks in logarithms."""
    return MetricValue(name, float(np.exp(np.mean(np.log(repeats)))), _spread(repeats))


def _spread(repeats: Sequence[float]) -> float | None:
    """Standard error of the mean of the logarithms; None for a single repeat."""
    if len(repeats) < 2:
        return None
    return float(np.std(np.log(repeats), ddof=1) / math.sqrt(len(repeats)))


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0.0
