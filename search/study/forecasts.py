"""What the sampler expects of launches to come: why one is made, what may be skipped, when to stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Final, Protocol

from optuna.study import Study
from optuna.trial import Trial

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.metrics import Objectives
from search.outcomes import Evidence
from search.physics.files import load_physics
from search.samplers.finite import FiniteSpaceSampler
from search.samplers.frontier import WHY, FrontierSampler
from search.samplers.outlook import LaunchCost
from search.spec.study import StudySpec
from search.stats.scatter import ASSUMED
from search.storage.records import Expected, LaunchRecord
from search.study.scatter import axis_scatter

_LEAST_NOISE: Final = 1e-3
"""Equal digits are not certainty."""
_TYPICAL_REPEATS: Final = 2
"""Of an objective in a start."""
MOST_HELD: Final = 16
"""Further configs that a start is made for. Searches end after some 20 launches (median of the race), the first of them
the study file's own."""
_FEWEST_MEASURED: Final = 3
"""Configs of its own that a search measures before it ends by itself, whatever earlier studies say."""
MOST_LEFT: Final = 0.002
"""A search ends by itself once the best next launch is expected to grow the front by less than this share.

Far below the 2% that would still be worth a launch, because one launch's expected growth is not what is left: there
are others behind it, and the belief is too sure of itself. Raced (`benchmarks.race.stopping`, 12 tables): ending at 2%
leaves 11% of the front unfound in one race of ten, at 0.2% 3%.
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """What the search still expects, against what it could distinguish from luck.

    Attributes:
        gain: Expected growth of the front by the best next launch, as a share of its hypervolume.
        noise_gain: The share by which the front would seem to grow if one of its configs were launched
            again, by the study's own scatter alone.
        goal: What a launch is to do, where it is not a front that is searched for.
    """

    gain: float
    noise_gain: float
    goal: str = "grow the front"

    @property
    def is_reached(self) -> bool:
        """Whether the search ends by itself. How noisy the study is does not matter: what noise hides is found by
        starting the contenders again, not by ending early.
        """
        return self.gain < MOST_LEFT

    @property
    def words(self) -> str:
        """For people: both numbers."""
        return (
            f"the best next launch is expected to {self.goal} by {self.gain:.2%} (by scatter alone, another start of the same "
            f"would show {self.noise_gain:.2%})"
        )

    def __str__(self) -> str:
        return f"the search ends by itself: {self.words}"


def settled_by(
    sampler: FrontierSampler, study: Study, axes: Objectives, launches: Sequence[LaunchRecord]
) -> Settled | None:
    """What the sampler still expects of the configs that were not launched; None without a front.

    Args:
        sampler: Of the study.
        study: Optuna's.
        axes: Of the study.
        launches: Of the study, whose scatter it is.
    """
    outlook = sampler.outlook(study)
    if not outlook.front or outlook.measured_count < _FEWEST_MEASURED:
        return None
    expected = outlook.expected_gain(sampler.remaining(study))
    return Settled(expected, outlook.noise_gain_of(_own_noise(axes, launches)), sampler.goal)


def _own_noise(axes: Objectives, launches: Sequence[LaunchRecord]) -> tuple[float, ...]:
    """How far a start's value lies from the truth, relative, by objective: of starts where enough show it, else of repeats.

    Before starts were repeated, what repeats show is a floor: the search then goes on for longer, not for less long.
    """
    found = []
    for axis in axes:
        scatter = axis_scatter(axis, launches)
        if not scatter.assumed:
            found.append(sqrt(scatter.start))
        elif scatter.repeat_freedom:
            found.append(sqrt(scatter.repeat / _TYPICAL_REPEATS))
        else:
            found.append(ASSUMED.within)
    return tuple(max(noise, _LEAST_NOISE) for noise in found)


class Prospects(Protocol):
    """What is expected; a sampler without a belief expects nothing."""

    def learn(self, launches: Sequence[LaunchRecord], *, held: Collection[SpecConfig] = ()) -> None:
        """Take note of what launches have cost so far, and which configs need no start. Before an ask.

        Args:
            launches: Of the study.
            held: Configs that a server which runs now can be switched to.
        """
        ...

    def to_hold(self, config: SpecConfig, group: Sequence[SpecConfig]) -> tuple[SpecConfig, ...]:
        """Which others of a group a start for a config should be able to hold: those likeliest to be wanted next.

        A start is made as large as what it is to hold, so more than will be measured in it is waste.

        Args:
            config: What it is launched for.
            group: The others that one start could hold.
        """
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
        """Whether no launch is expected to grow the front by much."""
        ...

    def left(self) -> Settled | None:
        """What is still expected, for a search that a budget ends; None without a front or a belief."""
        ...


class NoProspects:
    """Of a sampler without a belief."""

    def __init__(self, sampler: str) -> None:
        self._sampler = sampler

    def learn(self, launches: Sequence[LaunchRecord], *, held: Collection[SpecConfig] = ()) -> None:
        """See `Prospects`."""

    def to_hold(self, config: SpecConfig, group: Sequence[SpecConfig]) -> tuple[SpecConfig, ...]:  # noqa: ARG002
        """See `Prospects`: any of them."""
        return tuple(group)

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

    def left(self) -> Settled | None:
        """See `Prospects`."""
        return None


class FrontierProspects:
    """Of `FrontierSampler`, whose belief is read from the trials at each call.

    Args:
        sampler: The study's own.
        study: Optuna's.
        spec: For the cost of a launch before one was seen.
        free: Launches cost nothing, as in a replay: there is nothing to save by skipping or stopping.
        notice: Gets a line when an earlier recording is dropped.
    """

    def __init__(
        self,
        sampler: FrontierSampler,
        study: Study,
        spec: StudySpec,
        *,
        free: bool = False,
        notice: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._notice = notice
        self._said: set[str] = set()
        self._sampler, self._study, self._spec, self._free = sampler, study, spec, free
        self._launches: tuple[LaunchRecord, ...] = ()

    def learn(self, launches: Sequence[LaunchRecord], *, held: Collection[SpecConfig] = ()) -> None:
        """See `Prospects`."""
        self._launches = tuple(launches)
        self._sampler.expect_cost(launch_cost(self._spec, launches, held=held))
        for line in self._sampler.dropped(self._study):
            name = line.partition(" is dropped")[0]
            if name not in self._said:
                self._notice(line)
            self._said.add(name)

    def to_hold(self, config: SpecConfig, group: Sequence[SpecConfig]) -> tuple[SpecConfig, ...]:  # noqa: ARG002
        """See `Prospects`: by worth a second, what the study file names first."""
        outlook = self._sampler.outlook(self._study)
        free = set(self._sampler.remaining(self._study))
        named = set(self._spec.known_configs)
        wanted = [other for other in group if other in free and other in outlook.prior.index]
        wanted.sort(key=lambda other: (other not in named, -outlook.worth(other)))
        return tuple(wanted[:MOST_HELD])

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
        found = self.left()
        return found if found is not None and found.is_reached else None

    def left(self) -> Settled | None:
        """See `Prospects`."""
        return settled_by(self._sampler, self._study, self._spec.axes, self._launches)


def prospects_of(
    name: str,
    sampler: FiniteSpaceSampler,
    study: Study,
    spec: StudySpec,
    *,
    free: bool = False,
    notice: Callable[[str], None] = lambda _: None,
) -> Prospects:
    """What `sampler`, named `name`, expects of a study; `free` and `notice` as for `FrontierProspects`.

    Args:
        name: Of the sampler.
        sampler: Of the study.
        study: Optuna's.
        spec: The study file.
        free: Whether launches cost no GPU time.
        notice: Gets one line for people.
    """
    if isinstance(sampler, FrontierSampler):
        return FrontierProspects(sampler, study, spec, free=free, notice=notice)
    return NoProspects(name)


def launch_cost(
    spec: StudySpec, launches: Sequence[LaunchRecord] = (), *, held: Collection[SpecConfig] = ()
) -> LaunchCost:
    """Of one launch: boots as seen so far, before the first by the study's cost model; tokens as the study asks.

    Args:
        spec: The study.
        launches: Of it, so far.
        held: Configs that a server which runs now can be switched to.

    Raises:
        UsageError: The study names a cost model that there is not.
    """
    boots = [launch.boot_s for launch in launches if launch.boot_s]
    switches = [launch.switch_s for launch in launches if launch.switch_s]
    model = load_physics(spec.simulation.physics).model
    return LaunchCost(
        boot_s=(fmean(boots) if boots else model.boot_s) + model.stop_s,
        tokens=tuple(spec.tokens_at(load) for load in spec.objective_loads),
        held=frozenset(held),
        switch_s=fmean(switches) if switches else model.switch_s,
    )
