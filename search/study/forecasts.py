"""What the sampler expects of launches to come: why one is made, what may be skipped, when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from optuna.study import Study
from optuna.trial import Trial

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.outcomes import Evidence
from search.physics.files import load_physics
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.frontier import WHY, FrontierSampler
from search.samplers.outlook import LaunchCost
from search.spec.study import StudySpec
from search.storage.records import Expected, LaunchRecord


@dataclass(frozen=True, slots=True)
class Settled:
    """The search has nothing left that it could tell from luck.

    Attributes:
        gain: Expected growth of the front by the best next launch, as a share of its hypervolume.
        doubt: The share by which the front would seem to grow if one of its configs were launched
            again, by noise alone.
    """

    gain: float
    doubt: float

    def __str__(self) -> str:
        return (
            f"the search ends by itself: the best next launch is expected to grow the front by {self.gain:.2%}, and "
            f"measuring one of its configs again would seem to grow it by {self.doubt:.2%}, by noise alone"
        )


class Prospects(Protocol):
    """What is expected; a sampler without a belief expects nothing."""

    def learn(self, launches: Sequence[LaunchRecord]) -> None:
        """Take note of what launches have cost so far. Before an ask."""
        ...

    def why(self, trial: Trial) -> str:
        """One line: why the config of a proposed trial was chosen."""
        ...

    def expects(self, trial: Trial, config: SpecConfig) -> Expected | None:
        """What the numbers of a trial that is about to be launched should be; None without a measured front."""
        ...

    def skip(self, trial: int, first: Sequence[PhaseResult]) -> Evidence | None:
        """Why the second objective of a running trial need not be measured; None where it must. For any thread."""
        ...

    def settled(self) -> Settled | None:
        """Whether no launch is expected to grow the front by more than the doubt of measuring."""
        ...


class NoProspects:
    """Of a sampler without a belief."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler

    def learn(self, launches: Sequence[LaunchRecord]) -> None:
        """See `Prospects`."""

    def why(self, trial: Trial) -> str:  # noqa: ARG002
        """See `Prospects`."""
        return f"proposed by {self._sampler}"

    def expects(self, trial: Trial, config: SpecConfig) -> Expected | None:  # noqa: ARG002
        """See `Prospects`."""
        return None

    def skip(self, trial: int, first: Sequence[PhaseResult]) -> Evidence | None:  # noqa: ARG002
        """See `Prospects`."""
        return None

    def settled(self) -> Settled | None:
        """See `Prospects`."""
        return None


class FrontierProspects:
    """Of `FrontierSampler`, whose belief is read from the trials at each call.

    Args:
        sampler: The study's own.
        study: Optuna's.
        spec: For the cost of a launch before one was seen.
        free: Launches cost nothing, as in a replay: there is nothing to save by skipping or stopping.
    """

    def __init__(self, sampler: FrontierSampler, study: Study, spec: StudySpec, *, free: bool = False) -> None:
        self._sampler, self._study, self._spec, self._free = sampler, study, spec, free

    def learn(self, launches: Sequence[LaunchRecord]) -> None:
        """See `Prospects`."""
        self._sampler.expect_cost(launch_cost(self._spec, launches))

    def why(self, trial: Trial) -> str:
        """See `Prospects`."""
        # From the storage: the handle has no attribute that the sampler set while it was made.
        attributes = self._study._storage.get_trial(trial._trial_id).user_attrs
        return str(attributes.get(WHY, "proposed by frontier"))

    def expects(self, trial: Trial, config: SpecConfig) -> Expected | None:
        """See `Prospects`."""
        outlook = self._sampler.outlook(self._study, but=trial.number)
        if not outlook.front or config not in outlook.prior.index:
            return None
        forecast = outlook.forecast(config)
        return Expected(
            first=forecast.bands[0],
            second=forecast.bands[1],
            feasible=forecast.feasible,
            enters_front=forecast.enters_front,
            gain=forecast.gain,
        )

    def skip(self, trial: int, first: Sequence[PhaseResult]) -> Evidence | None:
        """See `Prospects`."""
        if self._free:
            return None
        try:
            frozen = next(one for one in self._study.get_trials(deepcopy=False) if one.number == trial)
            skipped = self._sampler.why_skipped(self._study, frozen, first)
            return Evidence(skipped, phase=f"c={self._spec.axes[1].concurrency}") if skipped else None
        finally:
            # Each thread that asks has a connection of its own, and a launch's thread ends soon.
            self._study._storage.remove_session()

    def settled(self) -> Settled | None:
        """See `Prospects`."""
        if self._free or not self._spec.budget.stop_early:
            return None
        outlook = self._sampler.outlook(self._study)
        if not outlook.front:
            return None
        found = Settled(outlook.expected_gain(self._sampler.remaining(self._study)), outlook.measuring_doubt)
        return found if found.gain < found.doubt else None


def prospects_of(
    name: str, sampler: FiniteSpaceSampler, study: Study, spec: StudySpec, *, free: bool = False
) -> Prospects:
    """What `sampler`, named `name`, expects of a study; `free` as for `FrontierProspects`."""
    if isinstance(sampler, FrontierSampler):
        return FrontierProspects(sampler, study, spec, free=free)
    return NoProspects(name)


def launch_cost(spec: StudySpec, launches: Sequence[LaunchRecord] = ()) -> LaunchCost:
    """Of one launch: boots as seen so far, before the first by the study's cost model; tokens as the study asks.

    Raises:
        UsageError: The study names a cost model that there is not.
    """
    boots = [launch.boot_s for launch in launches if launch.boot_s]
    model = load_physics(spec.simulation.physics).model
    return LaunchCost(
        boot_s=(fmean(boots) if boots else model.boot_s) + model.stop_s,
        tokens=tuple(spec.tokens_at(load) for load in spec.objective_loads),
    )
