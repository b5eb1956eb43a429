"""Optuna's side of a study: asks trials, ends them, files what silently ran otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from types import MappingProxyType
from typing import Any, TypeAlias

from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from search.config import SpecConfig
from search.metrics import mean_rate, values_of
from search.outcomes import Note, Outcome, Reason
from search.samplers.evidence import EVIDENCE, LOSSY, evidence_of
from search.samplers.finite import MAY_ASK_AGAIN, FiniteSpaceSampler
from search.server.alike import same_cause
from search.spec.study import StudySpec
from search.stats.losslessness import is_lossy
from search.storage.optuna_side import write_trial
from search.storage.owner import OWNER, this_process
from search.storage.records import LaunchRecord, StudyKind
from search.study.blame import UNSETTLED
from search.study.budget import is_static_fault
from search.study.scatter import searched_phases

Claim: TypeAlias = Callable[[str, int, Callable[[int], bool]], bool]
"""Of a config id, for a trial's number; the last says whether a trial that holds it holds it no more."""

CONSTRAINT = "launch"
WORSE = 0.10
"""A failed config is reported as no better than the baseline worsened by this share."""


def objective_values(launch: LaunchRecord, spec: StudySpec) -> tuple[float, float] | None:
    """Both objectives of a measured launch on the search's prompts, means over its repeats, in the study's order.

    None where one is unknown.
    """
    return values_of(spec.axes, searched_phases(launch))


def failed_values(launches: Sequence[LaunchRecord], spec: StudySpec) -> tuple[float, float] | None:
    """Finite values for a failed config: no better than the worst seen and the worsened baseline.

    None while no baseline is measured: there is nothing to be worse than.
    """
    seen = [
        (launch.config.speculates, values)
        for launch in launches
        if launch.outcome is Outcome.MEASURED and (values := objective_values(launch, spec)) is not None
    ]
    baselines = [values for speculates, values in seen if not speculates]
    if not baselines:
        return None
    first, second = (
        axis.worst([values[place] for _, values in seen] + [axis.worsened(one[place], WORSE) for one in baselines])
        for place, axis in enumerate(spec.axes)
    )
    return first, second


def _constraints(launch: LaunchRecord) -> dict[str, float]:
    """Met by what was measured and answers as the baseline does."""
    return {CONSTRAINT: 0.0 if launch.outcome is Outcome.MEASURED and not is_lossy(launch.lossless) else 1.0}


def _fails_alike(trial: int, launches: Sequence[LaunchRecord]) -> bool:
    """Whether the last two launches of a trial ended in the same way, nobody known to blame: a third would too.

    A host can be mended between two runs, so its faults do not count.
    """
    lost = [launch for launch in launches if launch.trial == trial and launch.reason in UNSETTLED]
    seen = [launch.evidence for launch in lost[-2:] if launch.evidence]
    return len(seen) == 2 and same_cause(*seen)


class Trials:
    """Asks and ends trials of one study.

    Args:
        study: Optuna's, with `sampler` as its sampler.
        sampler: Over the valid configs.
        spec: Names the objectives.
        kind: For people, as a user attribute.
        claim: Takes a config for a trial, or says that another holds it: `Store.claim` of the study. Without it, no
            other driver may share the study.
    """

    def __init__(
        self, study: Study, sampler: FiniteSpaceSampler, spec: StudySpec, kind: StudyKind, *, claim: Claim | None = None
    ) -> None:
        self._study = study
        self._sampler = sampler
        self._spec = spec
        self._kind = kind
        self._claim = claim

    def ask(self, config: SpecConfig | None, *, stage: str) -> tuple[Trial, SpecConfig] | None:
        """Open a trial: for `config`, or for what the sampler proposes without one.

        Two drivers of one study may choose the same config in the same moment: one trial gets it,
        see `Store.claim`.

        Returns:
            The trial and its config; None when another driver was faster with `config`.

        Raises:
            SpaceExhausted: The sampler has nothing left to propose.
        """
        while True:
            trial = self._open(config, stage)
            try:
                chosen = config or SpecConfig.from_params(trial.relative_params)
            except BaseException:
                # The sampler had nothing to propose: no trial may stay behind as running.
                self._fail(trial, again=True)
                raise
            if config is None:
                trial = self._filled(trial, chosen)
            if self._keeps(trial, chosen):
                return trial, chosen
            self.abandon(trial, reason=Reason.STOPPED.value)
            if config is not None:
                return None

    def _open(self, config: SpecConfig | None, stage: str) -> Trial:
        """A running trial of ours. Not through `Study.ask`, which takes what another driver has queued.

        What is known goes into its first transaction: one commit instead of one for each word.
        """
        attributes = {OWNER: this_process(), "stage": stage, "kind": self._kind}
        params = config.params if config else {}
        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(params),
            distributions={name: self._sampler.distributions[name] for name in params},
            user_attrs=attributes | ({"config_id": config.config_id} if config else {}),
        )
        self._study._thread_local.cached_all_trials = None  # as `Study.ask` does: look at the storage again
        trial_id = self._study._storage.create_new_trial(self._study._study_id, template_trial=template)
        return Trial(self._study, trial_id)

    def _filled(self, trial: Trial, config: SpecConfig) -> Trial:
        """A handle on a running trial that has got `config`."""
        space = self._sampler.distributions
        params = {name: (value, space[name]) for name, value in config.params.items()}
        write_trial(self._study._storage, trial._trial_id, params=params, user_attrs={"config_id": config.config_id})
        return Trial(self._study, trial._trial_id)

    def _keeps(self, trial: Trial, config: SpecConfig) -> bool:
        """Whether `trial` may have `config`, whatever other drivers choose in the same moment."""
        if self._sampler.is_taken_before(self._study, trial.number, config):
            return False
        if self._claim is None:
            return True
        return self._claim(config.config_id, trial.number, lambda number: self._sampler.is_free(self._study, number))

    def is_taken(self, config: SpecConfig) -> bool:
        """Whether a trial of `config` has ended for good, runs, or waits."""
        return config not in self._sampler.remaining(self._study)

    def left(self) -> int:
        """How many valid configs nobody has asked."""
        return len(self._sampler.remaining(self._study))

    def nothing_left(self) -> bool:
        """Whether every valid config is taken."""
        return not self._sampler.remaining(self._study)

    def end(self, trial: Trial, launch: LaunchRecord, launches: Sequence[LaunchRecord]) -> bool:
        """End a trial as its last launch ended.

        Args:
            trial: A running trial.
            launch: Its last launch.
            launches: All launches of the study, for the values of a failure.

        Returns:
            Whether it was still open. Another driver that took this one for dead has closed it otherwise; what was
            measured is then reported as a trial of its own.
        """
        try:
            self._end(trial, launch, launches)
        except UpdateFinishedTrialError:
            if launch.outcome is Outcome.MEASURED:
                self._file_under_what_ran(launch)
            return False
        return True

    def _end(self, trial: Trial, launch: LaunchRecord, launches: Sequence[LaunchRecord]) -> None:
        attributes = self._attributes(launch)
        values: tuple[float, float] | None = None
        if Note.EFFECTIVE_DIFFERS in launch.notes and launch.outcome is Outcome.MEASURED:
            self._fail(trial, attributes, again=False)
            self._file_under_what_ran(launch)
            return
        if launch.outcome is Outcome.MEASURED:
            values = objective_values(launch, self._spec)
            if values is None:
                # Measured, but not what this study compares: no second launch would show it either.
                self._fail(trial, attributes, again=False)
                return
        elif launch.outcome is not None and launch.outcome.blames_config and not is_static_fault(launch):
            values = failed_values(launches, self._spec)
            if values is None:
                # Without any baseline there is no study, so a later run has to try it again.
                self._fail(trial, attributes, again=not launch.asked.speculates)
                return
        if values is not None:
            # Before tell: afterwards a constraint cannot be set.
            met = create_trial(state=TrialState.RUNNING, constraints=_constraints(launch))
            write_trial(self._study._storage, trial._trial_id, user_attrs=attributes, system_attrs=met.system_attrs)
            self._study.tell(trial, list(values))
        elif launch.outcome is Outcome.GATED:
            write_trial(self._study._storage, trial._trial_id, user_attrs=attributes)
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._fail(trial, attributes, again=not _fails_alike(trial.number, launches))

    def abandon(self, trial: Trial, *, reason: str) -> None:
        """End a trial without a verdict; its config may be asked again."""
        # Whoever else closed it meanwhile has done the same.
        with suppress(UpdateFinishedTrialError):
            self._fail(trial, {"outcome": Outcome.INTERRUPTED.value, "reason": reason}, again=True)

    def running(self, *, owner: str | None = None) -> list[FrozenTrial]:
        """Running and waiting trials, of one owner or of all."""
        trials = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.WAITING))
        return [trial for trial in trials if owner is None or trial.user_attrs.get(OWNER) == owner]

    def reopen(self, trial: FrozenTrial) -> Trial:
        """A handle on a trial that some process left running, or waiting to run."""
        if trial.state is TrialState.WAITING:
            self._study._storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING)
        return Trial(self._study, trial._trial_id)

    def _fail(self, trial: Trial, attributes: Mapping[str, Any] = MappingProxyType({}), *, again: bool) -> None:
        attributes = {**attributes, MAY_ASK_AGAIN: again}
        write_trial(self._study._storage, trial._trial_id, user_attrs=attributes)
        self._study.tell(trial, state=TrialState.FAIL)

    def _file_under_what_ran(self, launch: LaunchRecord) -> None:
        """Add the measurement as a trial of the config that ran, unless that has one or is outside the space."""
        space = self._sampler.distributions
        params = launch.config.params
        measured = {
            trial.user_attrs.get("config_id")
            for trial in self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if trial.user_attrs.get("outcome") == Outcome.MEASURED.value
        }
        inside = all(name in space and value in space[name].choices for name, value in params.items())
        values = objective_values(launch, self._spec)
        if launch.config.config_id in measured or not inside or values is None:
            return
        self._study.add_trial(
            create_trial(
                state=TrialState.COMPLETE,
                values=list(values),
                params=params,
                distributions={name: space[name] for name in params},
                user_attrs={
                    **self._attributes(launch),
                    "config_id": launch.config.config_id,
                    "stage": launch.stage,
                    "kind": self._kind,
                    "feasible": not is_lossy(launch.lossless),
                },
                constraints=_constraints(launch),
            )
        )

    def _attributes(self, launch: LaunchRecord) -> Mapping[str, Any]:
        """What people read in Optuna's own dashboard."""
        values: dict[str, Any] = {
            "launch": launch.number,
            "outcome": launch.outcome.value if launch.outcome else None,
            "reason": launch.reason.value if launch.reason else None,
            "feasible": launch.outcome is Outcome.MEASURED
            and Note.EFFECTIVE_DIFFERS not in launch.notes
            and not is_lossy(launch.lossless),
            "notes": [note.value for note in launch.notes],
        }
        if is_lossy(launch.lossless):
            values[LOSSY] = True
        if launch.outcome in (Outcome.MEASURED, Outcome.GATED):
            # Not of a failure: what was fast only because its answers were garbage teaches nothing.
            values[EVIDENCE] = evidence_of(searched_phases(launch), self._spec.axes).dumped()
        for axis in self._spec.axes:
            if axis.metric.beside and (repeats := launch.repeats(axis.concurrency)):
                values[f"c{axis.concurrency}_output_tps"] = mean_rate(repeats)
            elif launch.outcome is Outcome.GATED and (value := axis.mean(searched_phases(launch))) is not None:
                values[axis.name] = value
        for load in self._spec.objective_loads:
            accepts = [r.accept_length for r in launch.repeats(load) if r.accept_length is not None]
            if accepts:
                values[f"accept_c{load}"] = fmean(accepts)
        return values
