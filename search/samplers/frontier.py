"""FrontierSampler: enumerate, predict, choose the launch that should grow the front most."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from search.config import SpecConfig, simplicity
from search.contracts import PhaseResult
from search.metrics import DEFAULTS, Objective, Objectives, loads_of
from search.model.belief import Prior
from search.model.feasibility import Feasibility, Start
from search.model.observations import Observation
from search.samplers.evidence import TrialEvidence, config_of, observations_of, read_trials
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.matching import EarlierTable, matched
from search.samplers.outlook import LaunchCost, Outlook
from search.samplers.thinning import kept_configs

WHY = "why"
"""User attribute of a trial: one line that says why its config was chosen."""

_FRONT_STANDS = 2
"""Measured front points from which on a launch may be cut short."""
_WORTH_SKIPPING = 0.1
"""Least share of a launch's time in its high phase; below, the number is worth more than the time."""
_HOPE = 0.001
"""Chance of an end better than the bound that a gate takes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the sampler is made of. Each part is turned off by the ablation of the race, to show what it pays.

    Attributes:
        physics: Mechanisms behind the belief; without, planes over the raw knobs.
        histograms: What a deep chain says of the shorter ones.
        split: Accept length and cycle time apart; without, time per token alone (and no histograms).
        feasibility: Learns from failures; without, everything is as likely to start.
        gating: Launches without hope skip the high concurrency.
        cost: Gain per GPU second; without, gain.
    """

    physics: bool = True
    histograms: bool = True
    split: bool = True
    feasibility: bool = True
    gating: bool = True
    cost: bool = True

    def reduced(self, observation: Observation) -> Observation:
        """What the belief is given of an observation."""
        if not self.split:
            return replace(observation, accept_length=None, histogram=())
        return observation if self.histograms else replace(observation, histogram=())


@dataclass(frozen=True, slots=True)
class _Seen:
    """All that an outlook goes by. Whether to stop and what to ask next are decided on the same."""

    observations: tuple[Observation, ...]
    starts: tuple[Start, ...]
    measured: tuple[SpecConfig, ...]
    pending: tuple[SpecConfig, ...]
    cost: LaunchCost | None


class FrontierSampler(FiniteSpaceSampler):
    """Chooses by expected hypervolume improvement per GPU second over a belief about the whole space.

    A plain Optuna sampler: everything it knows it reads from the trials of the study, so it works
    with any storage, after a resume and beside other workers. Running trials count as if they end
    as expected. The draws of its prior derive from the seed; given the same trials it asks the same config, and
    equals are decided for the simpler config. In a study whose directions are not those of its
    objectives it has no front to grow and asks at random, by seed and trial number.

    Args:
        configs: All valid configs, canonical. Locked ones do not belong here: they are never asked.
        seed: Of the study.
        objectives: The axes of the front.
        cost: Of a launch; a middling deployment's without it.
        earlier: Numbers of an earlier study, with `weight` below 1.
        earlier_starts: What started there and what did not, likewise.
        tables: Of earlier studies, each on its own scale: matched with this study's numbers, and dropped where it
            does not hold.
        parts: All of them, but for ablations.
    """

    def __init__(
        self,
        *,
        configs: Sequence[SpecConfig],
        seed: int,
        objectives: Objectives = DEFAULTS,
        cost: LaunchCost | None = None,
        earlier: Sequence[Observation] = (),
        earlier_starts: Sequence[Start] = (),
        tables: Sequence[EarlierTable] = (),
        parts: Parts = Parts(),
    ) -> None:
        super().__init__(None, configs=configs, seed=seed)
        self._objectives, self._cost, self._parts = objectives, cost, parts
        self._loads = loads_of(objectives)
        self._outlook_of: Callable[..., Outlook] = Outlook
        self._earlier, self._earlier_starts = tuple(earlier), tuple(earlier_starts)
        self._tables = tuple(tables)
        self._beliefs: tuple[Prior, Feasibility] | None = None
        self._last: tuple[_Seen, Outlook] | None = None
        self._read: tuple[list[FrozenTrial], TrialEvidence] = ([], TrialEvidence())
        self._lock = threading.Lock()

    goal = "grow the front"
    """What a launch is to do, for people."""

    def __getstate__(self) -> dict[str, object]:
        """Without the lock, so that a study with this sampler can be pickled; the last outlook is worked out again."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {
            "_last": None,
            "_read": ([], TrialEvidence()),
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        """With a lock of its own."""
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def outlook(self, study: Study, *, but: int | None = None, also: Sequence[Observation] = ()) -> Outlook:
        """What is expected of every config now; `but` is the number of the asking trial itself, `also` is seen besides.

        For an ask, for stopping (`expected_gain` against `noise_gain`), and for people.
        """
        trials = [trial for trial in study.get_trials(deepcopy=False) if trial.number != but]
        evidence = self._evidence(trials)
        own = (*evidence.observations, *also)
        tables = [matched(table, own) for table in self._tables]
        earlier = (*self._earlier, *(item for table in tables for item in table.observations))
        starts = (*self._earlier_starts, *(start for table in tables for start in table.starts))
        seen = _Seen(
            observations=(*earlier, *own),
            starts=(*starts, *evidence.starts) if self._parts.feasibility else (),
            measured=tuple(evidence.measured),
            pending=tuple(evidence.pending),
            cost=self._cost,
        )
        last = self._last
        if last is not None and last[0] == seen:
            return last[1]
        prior, feasibility = self._made()
        kept = kept_configs(prior, own, self._objectives) | {item.config for item in also}
        outlook = self._outlook_of(
            prior,
            feasibility,
            observations=[
                self._parts.reduced(item) for item in seen.observations if item.weight < 1.0 or item.config in kept
            ],
            starts=seen.starts,
            measured=[config for config in seen.measured if config in kept],
            pending=seen.pending,
            objectives=self._objectives,
            cost=seen.cost,
        )
        self._last = seen, outlook
        return outlook

    def _evidence(self, trials: Sequence[FrozenTrial]) -> TrialEvidence:
        """What trials show. Those before the first that has not ended are read once: storages give out the same objects."""
        with self._lock:
            known, measured = self._read
            # Compares objects, not what is in them, while they are the same: fast however many there are.
            if trials[: len(known)] != known:
                known, measured = [], TrialEvidence()
            count = len(known)
            while count < len(trials) and trials[count].state.is_finished():
                measured.extend(self._evidence_of(trials[count]))
                known.append(trials[count])
                count += 1
            self._read = known, measured
            found = measured.copy()
            for trial in trials[count:]:
                found.extend(self._evidence_of(trial))
            return found

    def _evidence_of(self, trial: FrozenTrial) -> TrialEvidence:
        config = config_of(trial)
        return read_trials([trial], {} if config is None else {trial.number: config}, objectives=self._objectives)

    def dropped(self, study: Study) -> tuple[str, ...]:
        """One line for each earlier table that this study's numbers contradict."""
        own = self._evidence(study.get_trials(deepcopy=False) if self._tables else []).observations
        return tuple(found for table in self._tables if (found := matched(table, own).refused))

    def expect_cost(self, cost: LaunchCost) -> None:
        """From now on a launch is expected to cost so much."""
        self._cost = cost

    def skips_second(self, study: Study, trial: FrozenTrial, first: Sequence[PhaseResult]) -> bool:
        """Whether the second objective of a running trial need not be measured, see `why_skipped`."""
        return self.why_skipped(study, trial, first) is not None

    def why_skipped(self, study: Study, trial: FrozenTrial, first: Sequence[PhaseResult]) -> str | None:
        """Why the second objective of a running trial need not be measured: no hope, and time to be saved.

        Asked between the phases of a launch, when the first objective is measured. Hope is the optimistic
        end of the band of the second, given the measured first. Baselines are always measured
        in full, and so is everything before a front stands.

        Args:
            study: Of the trial.
            trial: Running; its config is in its parameters.
            first: The measured repeats at the first objective's concurrency.

        Returns:
            One line for people; None where it must be measured.
        """
        config = config_of(trial)
        if not self._parts.gating or not self._is_ours(study):
            return None
        if config is None or not config.speculates:
            return None
        outlook = self.outlook(study, but=trial.number, also=observations_of(config, first, self._objectives))
        if len(outlook.front) < _FRONT_STANDS or config not in outlook.prior.index:
            return None
        share = outlook.share_of_second_phase(config)
        if share < _WORTH_SKIPPING or outlook.may_enter(config, _HOPE):
            return None
        one, other = self._objectives
        expected, best = outlook.forecast(config).bands[0][1], outlook.optimistic(config, _HOPE)
        return (
            f"C={other.concurrency} skipped, {share:.0%} of the launch's time: with {_words(one, expected)} at "
            f"C={one.concurrency} and at the very best {_words(other, best)} it cannot enter the front"
        )

    def _is_ours(self, study: Study) -> bool:
        """Whether the study's values are those of the objectives, as far as directions show."""
        wanted = [StudyDirection[objective.direction.name] for objective in self._objectives]
        return list(study.directions) == wanted

    def _choose(self, study: Study, trial: FrozenTrial, remaining: list[SpecConfig]) -> SpecConfig:
        if not self._is_ours(study):
            rng = np.random.default_rng((self._seed, trial.number))
            return remaining[int(rng.integers(len(remaining)))]
        outlook = self.outlook(study, but=trial.number)
        if not outlook.front and (plain := [config for config in remaining if not config.speculates]):
            return min(plain, key=simplicity)  # nothing can be compared before a baseline is measured
        chosen = outlook.best(remaining, per_second=self._parts.cost)
        study._storage.set_trial_user_attr(trial._trial_id, WHY, outlook.forecast(chosen).why)
        return chosen

    def _made(self) -> tuple[Prior, Feasibility]:
        with self._lock:
            if self._beliefs is None:
                self._beliefs = (
                    Prior.of(self._configs, self._loads, seed=self._seed, physics=self._parts.physics),
                    Feasibility(self._configs, seed=self._seed),
                )
            return self._beliefs


def _words(objective: Objective, value: float) -> str:
    """A forecast in a sentence: `10.8 ms per token`, `775 tok/s`."""
    metric = objective.metric
    if metric.name == "tpot_ms":
        return f"{value:.3g} ms per token"
    if metric.name == "output_tps":
        return f"{value:.0f} tok/s"
    return f"{metric.words(value)} ({metric.title})"
