"""Stock Optuna samplers over a finite list of valid configs, never asking one of them twice."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import InMemoryStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from search.config import KnobValue, SpecConfig
from search.errors import SearchError
from search.samplers.knobs import Params, distributions_of, key_of, nearest, view_distributions_of
from search.storage.optuna_side import quiet_optuna

DRAWS = 8
"""Proposals of a sampler that learns nothing looked at before the nearest valid config is taken.

One that learns is asked once: every further proposal fits its model anew, and late in a study nearly all of them have
been asked before.
"""

MAY_ASK_AGAIN = "may_ask_again"
"""User attribute of a FAIL trial whose config is free again: interrupted, or lost to the host."""


class SpaceExhausted(SearchError):
    """Every valid config has been asked."""


_Key = tuple[tuple[str, KnobValue], ...]


class _ViewStorage(InMemoryStorage):
    """Trials that are shown as they are, shared by all views, and then what the stock sampler asks.

    Args:
        shown: With numbers of their own.
    """

    def __init__(self, shown: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._shown = shown

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """See `BaseStorage`; what is shown is never copied, for nothing changes it."""
        shown = [trial for trial in self._shown if states is None or trial.state in states]
        return shown + super().get_all_trials(study_id, deepcopy, states)


@dataclass(frozen=True, slots=True)
class _Finished:
    """What asks want to know of a finished trial, worked out once.

    Attributes:
        place: Of its config in the list; None for another one.
        free: Its config may be asked again.
        view: As the stock sampler sees it; None outside its space or where it teaches nothing.
    """

    trial: FrozenTrial
    place: int | None
    free: bool
    view: FrozenTrial | None


class _Settled:
    """The trials at the front of a study's list that have all ended: what asks want to know of them, added up.

    Attributes:
        trials: In their order; none of them changes any more.
        first: The number of the first trial of each place that is taken.
        views: Those that the stock sampler sees.
    """

    def __init__(self) -> None:
        self.trials: list[FrozenTrial] = []
        self.first: dict[int | None, int] = {}
        self.views: list[FrozenTrial] = []

    def add(self, found: _Finished) -> None:
        """The next one."""
        self.trials.append(found.trial)
        if not found.free:
            self.first.setdefault(found.place, found.trial.number)
        if found.view is not None:
            self.views.append(found.view)


class FiniteSpaceSampler(BaseSampler):
    """Asks a stock sampler until it proposes a valid config nobody has asked, else takes the nearest.

    Stock samplers cannot model `off`, which lacks the tree parameters, so they see an in-memory
    view of the study without it, laid out anew for each ask. Trials that run meanwhile are in it with
    the worst values seen (a constant liar), so that several asks at once spread. Random state derives from the seed and
    the trial number: a resumed study does not repeat its first draws. Proposals that are invalid
    or were asked before never become trials.

    Args:
        stock: Makes the stock sampler from a seed; None goes through `configs` in order.
        configs: All valid configs, canonical.
        seed: Of the study.
    """

    def __init__(self, stock: Callable[[int], BaseSampler] | None, *, configs: Sequence[SpecConfig], seed: int) -> None:
        self._stock = stock
        self._configs = tuple(configs)
        self._seed = seed
        self._by_key = {key_of(config.params): config for config in self._configs}
        self._places = {key: place for place, key in enumerate(self._by_key)}
        self._distributions = distributions_of(self._configs)
        self._view_space = view_distributions_of(config for config in self._configs if config.speculates)
        self._given_up: set[int | None] = set()
        self._spared: set[int | None] = set()
        self._finished: dict[int, _Finished] = {}
        self._settled = _Settled()
        self._fallback = RandomSampler(seed=seed)

    @property
    def distributions(self) -> dict[str, optuna.distributions.CategoricalDistribution]:
        """Of every knob, `off` included."""
        return dict(self._distributions)

    def give_up(self, config: SpecConfig) -> None:
        """Do not propose `config` again from this sampler, whatever its trials say."""
        self._given_up.add(self._places.get(key_of(config.params)))

    def spare(self, configs: Iterable[SpecConfig]) -> None:
        """Do not propose `configs` while this holds; the next call replaces it."""
        self._spared = {self._places.get(key_of(config.params)) for config in configs}

    def remaining(self, study: Study, *, but: FrozenTrial | None = None) -> list[SpecConfig]:
        """Configs nobody has asked, in order; `but` is the asking trial itself.

        Running and waiting trials count as asked, whoever runs them.
        """
        return self._free(study.get_trials(deepcopy=False), but=but)

    def is_free(self, study: Study, number: int) -> bool:
        """Whether trial `number` holds no config any more; one that does not exist holds none."""
        found = next((trial for trial in study.get_trials(deepcopy=False) if trial.number == number), None)
        return found is None or self._is_free_again(found)

    def is_taken_before(self, study: Study, number: int, config: SpecConfig) -> bool:
        """Whether a trial with a lower number than `number` has `config`."""
        place = self._places.get(key_of(config.params))
        settled, later = self._split(study.get_trials(deepcopy=False))
        if place is None or settled.first.get(place, number) < number:
            return place is not None
        return any(
            trial.number < number and self._place(trial) == place and not self._is_free_again(trial) for trial in later
        )

    def reseed_rng(self) -> None:
        """Nothing to do for proposals: each trial has a random state of its own."""
        self._fallback.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """All knobs of the space; for an enqueued trial none, because its values are fixed."""
        return {} if "fixed_params" in trial.system_attrs else dict(self._distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """All parameters of one config that nobody has asked; `off` has no tree parameters.

        Raises:
            SpaceExhausted: There is none left.
        """
        if not search_space:
            return {}
        # Read once for an ask: the stock sampler's view is of the same moment.
        remaining = self._free(study._get_trials(deepcopy=False, use_cache=True), but=trial)
        if not remaining:
            raise SpaceExhausted(
                f"All {len(self._configs)} valid configs have been asked. Open more values under `space` for a longer search."
            )
        return self._choose(study, trial, remaining).params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value for a parameter that is no knob of the space.

        Args:
            study: Of Optuna.
            trial: That asks.
            param_name: Of the parameter.
            param_distribution: Of its values.
        """
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)

    def _choose(self, study: Study, trial: FrozenTrial, remaining: list[SpecConfig]) -> SpecConfig:
        if self._stock is None or not self._view_space:
            return remaining[0]
        entropy = np.random.SeedSequence((self._seed, trial.number))
        with quiet_optuna():
            view = self._view(study, trial, self._stock(int(entropy.generate_state(1)[0])))
            return self._proposed(view, study, trial, remaining)

    def _proposed(self, view: Study, study: Study, trial: FrozenTrial, remaining: list[SpecConfig]) -> SpecConfig:
        """The first valid proposal that is free, else what is nearest to the first."""
        free: set[int] = set()
        first: Params | None = None
        for draw in range(DRAWS if isinstance(view.sampler, RandomSampler) else 1):
            asked = view.ask(dict(self._view_space))
            if not draw:
                self._keep_generation(view, asked, study, trial)
            view.tell(asked, state=TrialState.FAIL)
            proposal = {name: value for name, value in asked.params.items() if value is not None}
            if (config := self._by_key.get(key_of(proposal))) is not None:
                free = free or {id(one) for one in remaining}
                if id(config) in free:
                    return config
            first = first or proposal
        assert first is not None
        return nearest(first, remaining)

    def _keep_generation(self, view: Study, asked: Trial, study: Study, trial: FrozenTrial) -> None:
        """What a genetic sampler files a trial under, which the next view must know; alike for all draws of an ask."""
        for name, value in view._storage.get_trial_system_attrs(asked._trial_id).items():
            study._storage.set_trial_system_attr(trial._trial_id, name, value)

    def _view(self, study: Study, asking: FrozenTrial, stock: BaseSampler) -> Study:
        settled, later = self._split(study._get_trials(deepcopy=False, use_cache=True))
        known: list[FrozenTrial] = []
        if not isinstance(stock, RandomSampler):
            ended = [seen for trial in later if trial.state.is_finished() and (seen := self._facts(trial).view)]
            known = [*settled.views, *ended]
        others = [trial for trial in later if trial.state is TrialState.RUNNING and trial.number != asking.number]
        shown = [*known, *self._lies(study, others, known)]
        return optuna.create_study(storage=_ViewStorage(shown), directions=study.directions, sampler=stock)

    def _lies(
        self, study: Study, running: Sequence[FrozenTrial], known: Sequence[FrozenTrial]
    ) -> Iterator[FrozenTrial]:
        """Running trials as if they had ended with the worst values seen; none before any are seen."""
        complete = [trial for trial in known if trial.state is TrialState.COMPLETE]
        if not complete or not running:
            return
        worst = [
            (max if direction is StudyDirection.MINIMIZE else min)(trial.values[place] for trial in complete)
            for place, direction in enumerate(study.directions)
        ]
        for trial in running:
            if (params := self._view_params(trial)) is not None:
                lie = create_trial(
                    values=worst,
                    params=params,
                    distributions=dict(self._view_space),
                    constraints=dict.fromkeys(complete[0].constraints, 0.0) or None,
                )
                lie.number, lie._trial_id = trial.number, trial._trial_id
                yield lie

    def _view_params(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The parameters as the stock sampler sees them; None for a trial outside its space, such as `off`."""
        params = {name: trial.params.get(name) for name in self._view_space}
        inside = all(value in self._view_space[name].choices for name, value in params.items())
        return params if inside else None

    def _facts(self, trial: FrozenTrial) -> _Finished:
        """Of a finished trial. Storages give out the same object for it each time; another one is read anew."""
        known = self._finished.get(trial._trial_id)
        if known is None or known.trial is not trial:
            free = trial.state is TrialState.FAIL and bool(trial.user_attrs.get(MAY_ASK_AGAIN))
            known = _Finished(trial, self._places.get(_key_of_trial(trial)), free, self._shown(trial))
            self._finished[trial._trial_id] = known
        return known

    def _split(self, trials: list[FrozenTrial]) -> tuple[_Settled, list[FrozenTrial]]:
        """The trials before the first that has not ended, added up since the last call, and those from it on."""
        settled = self._settled
        # Compares objects, not what is in them, while they are the same: fast however many there are.
        if trials[: len(settled.trials)] != settled.trials:
            settled = self._settled = _Settled()
        for place in range(len(settled.trials), len(trials)):
            if not trials[place].state.is_finished():
                break
            settled.add(self._facts(trials[place]))
        return settled, trials[len(settled.trials) :]

    def _place(self, trial: FrozenTrial) -> int | None:
        return self._facts(trial).place if trial.state.is_finished() else self._places.get(_key_of_trial(trial))

    def _free(self, trials: list[FrozenTrial], *, but: FrozenTrial | None) -> list[SpecConfig]:
        """See `remaining`."""
        settled, later = self._split(trials)
        taken = self._given_up | self._spared | settled.first.keys()
        taken |= {
            self._place(trial)
            for trial in later
            if (but is None or trial.number != but.number) and not self._is_free_again(trial)
        }
        return [config for place, config in enumerate(self._by_key.values()) if place not in taken]

    def _is_free_again(self, trial: FrozenTrial) -> bool:
        return trial.state.is_finished() and self._facts(trial).free

    def _shown(self, trial: FrozenTrial) -> FrozenTrial | None:
        if trial.state is TrialState.FAIL or (params := self._view_params(trial)) is None:
            return None
        shown = create_trial(
            state=trial.state,
            values=trial.values,
            params=params,
            distributions=dict(self._view_space),
            # Constraints and the generation a genetic sampler filed the trial under.
            system_attrs={name: value for name, value in trial.system_attrs.items() if name != "fixed_params"},
        )
        shown.number, shown._trial_id = trial.number, trial._trial_id
        return shown


def _key_of_trial(trial: FrozenTrial) -> _Key:
    """What a trial asks for; a waiting or just opened one has it in its fixed parameters."""
    return key_of(trial.params or trial.system_attrs.get("fixed_params", {}))
