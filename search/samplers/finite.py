"""Stock Optuna samplers over a finite list of valid configs, never asking one of them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from search.config import KnobValue, SpecConfig
from search.errors import SearchError
from search.samplers.knobs import Params, distributions_of, key_of, nearest, view_distributions_of
from search.storage.optuna_side import quiet_optuna

DRAWS = 8
"""Proposals of the stock sampler looked at before the nearest valid config is taken."""

MAY_ASK_AGAIN = "may_ask_again"
"""User attribute of a FAIL trial whose config is free again: interrupted, or lost to the host."""


class SpaceExhausted(SearchError):
    """Every valid config has been asked."""


_Key = tuple[tuple[str, KnobValue], ...]


class _ViewTrial(FrozenTrial):
    """A finished trial that many views share: Optuna deep-copies what it is given, though nothing changes it."""

    def __deepcopy__(self, memo: object) -> _ViewTrial:
        return copy(self)


@dataclass(frozen=True, slots=True)
class _Finished:
    """What asks want to know of a finished trial, worked out once.

    Attributes:
        key: What it asked for.
        free: Its config may be asked again.
        view: As the stock sampler sees it; None outside its space or where it teaches nothing.
    """

    trial: FrozenTrial
    key: _Key
    free: bool
    view: _ViewTrial | None


class FiniteSpaceSampler(BaseSampler):
    """Asks a stock sampler until it proposes a valid config nobody has asked, else takes the nearest.

    Stock samplers cannot model `off`, which lacks the tree parameters, so they see an in-memory
    copy of the study without it, made anew for each ask. Trials that run meanwhile are in it with
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
        self._distributions = distributions_of(self._configs)
        self._view_space = view_distributions_of(config for config in self._configs if config.speculates)
        self._given_up: set[_Key] = set()
        self._finished: dict[int, _Finished] = {}
        self._fallback = RandomSampler(seed=seed)

    @property
    def distributions(self) -> dict[str, optuna.distributions.CategoricalDistribution]:
        """Of every knob, `off` included."""
        return dict(self._distributions)

    def give_up(self, config: SpecConfig) -> None:
        """Do not propose `config` again from this sampler, whatever its trials say."""
        self._given_up.add(key_of(config.params))

    def remaining(self, study: Study, *, but: FrozenTrial | None = None) -> list[SpecConfig]:
        """Configs nobody has asked, in order; `but` is the asking trial itself.

        Running and waiting trials count as asked, whoever runs them.
        """
        taken = {
            self._key(trial)
            for trial in study.get_trials(deepcopy=False)
            if (but is None or trial.number != but.number) and not self._is_free_again(trial)
        } | self._given_up
        return [config for key, config in self._by_key.items() if key not in taken]

    def is_free(self, study: Study, number: int) -> bool:
        """Whether trial `number` holds no config any more; one that does not exist holds none."""
        found = next((trial for trial in study.get_trials(deepcopy=False) if trial.number == number), None)
        return found is None or self._is_free_again(found)

    def is_taken_before(self, study: Study, number: int, config: SpecConfig) -> bool:
        """Whether a trial with a lower number than `number` has `config`."""
        key = key_of(config.params)
        return any(
            trial.number < number and self._key(trial) == key and not self._is_free_again(trial)
            for trial in study.get_trials(deepcopy=False)
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
        remaining = self.remaining(study, but=trial)
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
            return self._first_free(view, study, trial, remaining)

    def _first_free(self, view: Study, study: Study, trial: FrozenTrial, remaining: list[SpecConfig]) -> SpecConfig:
        free = {key_of(config.params) for config in remaining}
        first: Params | None = None
        for draw in range(DRAWS):
            asked = view.ask(dict(self._view_space))
            if not draw:
                self._keep_generation(view, asked, study, trial)
            view.tell(asked, state=TrialState.FAIL)
            proposal = {name: value for name, value in asked.params.items() if value is not None}
            if (key := key_of(proposal)) in free:
                return self._by_key[key]
            first = first or proposal
        assert first is not None
        return nearest(first, remaining)

    def _keep_generation(self, view: Study, asked: Trial, study: Study, trial: FrozenTrial) -> None:
        """What a genetic sampler files a trial under, which the next view must know; alike for all draws of an ask."""
        for name, value in view._storage.get_trial_system_attrs(asked._trial_id).items():
            study._storage.set_trial_system_attr(trial._trial_id, name, value)

    def _view(self, study: Study, asking: FrozenTrial, stock: BaseSampler) -> Study:
        view = optuna.create_study(directions=study.directions, sampler=stock)
        trials = study.get_trials(deepcopy=False)
        known = [seen for trial in trials if trial.state.is_finished() and (seen := self._facts(trial).view)]
        others = [trial for trial in trials if trial.state is TrialState.RUNNING and trial.number != asking.number]
        for shown in (*known, *self._lies(view, others, known)):
            # Not through `add_trial`, which would check once more what `create_trial` has checked.
            view._storage.create_new_trial(view._study_id, template_trial=shown)
        return view

    def _lies(self, view: Study, running: Sequence[FrozenTrial], known: Sequence[FrozenTrial]) -> Iterator[FrozenTrial]:
        """Running trials as if they had ended with the worst values seen; none before any are seen."""
        complete = [trial for trial in known if trial.state is TrialState.COMPLETE]
        if not complete:
            return
        worst = [
            (max if direction is StudyDirection.MINIMIZE else min)(trial.values[place] for trial in complete)
            for place, direction in enumerate(view.directions)
        ]
        for trial in running:
            if (params := self._view_params(trial)) is not None:
                yield create_trial(
                    values=worst,
                    params=params,
                    distributions=dict(self._view_space),
                    constraints=dict.fromkeys(complete[0].constraints, 0.0) or None,
                )

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
            known = _Finished(trial, _key_of_trial(trial), free, self._shown(trial))
            self._finished[trial._trial_id] = known
        return known

    def _key(self, trial: FrozenTrial) -> _Key:
        return self._facts(trial).key if trial.state.is_finished() else _key_of_trial(trial)

    def _is_free_again(self, trial: FrozenTrial) -> bool:
        return trial.state.is_finished() and self._facts(trial).free

    def _shown(self, trial: FrozenTrial) -> _ViewTrial | None:
        if trial.state is TrialState.FAIL or (params := self._view_params(trial)) is None:
            return None
        made = create_trial(
            state=trial.state,
            values=trial.values,
            params=params,
            distributions=dict(self._view_space),
            # Constraints and the generation a genetic sampler filed the trial under.
            system_attrs={name: value for name, value in trial.system_attrs.items() if name != "fixed_params"},
        )
        shown = _ViewTrial.__new__(_ViewTrial)
        shown.__dict__.update(made.__dict__)
        return shown


def _key_of_trial(trial: FrozenTrial) -> _Key:
    """What a trial asks for; a waiting or just opened one has it in its fixed parameters."""
    return key_of(trial.params or trial.system_attrs.get("fixed_params", {}))
