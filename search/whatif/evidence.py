"""What a prediction rests on: a study's own launches, else the numbers its cost model was fitted to, else priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from search.config import SpecConfig
from search.engines.recording import Recording
from search.model.feasibility import Start
from search.model.observations import Observation
from search.outcomes import Outcome
from search.physics.cost import predict
from search.physics.model import Physics
from search.physics.provenance import summary
from search.samplers.evidence import failed_start, has_both, observations_of
from search.samplers.warm_start import Earlier, recorded_evidence
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord
from search.whatif.answer import BasisKind

_MODELLED_DOUBT = 0.1
"""Standard deviation of a baseline that nobody measured, where ratios to it are all that is predicted."""
_CHANGED_WEIGHT = 0.5
"""Of numbers that were measured under another study file."""


@dataclass(frozen=True)
class Basis:
    """Evidence for a belief.

    Attributes:
        observations: Numbers, one per launch and load.
        starts: What started and what did not through its own fault.
        measured: Configs with numbers at both objectives, in order.
        boot_s: Median time to start of its launches; None where unknown.
        words: For people, one sentence each.
        earlier: What the study file names under `earlier`: it is believed as a search believes it, and nothing
            is compared with it.
    """

    kind: BasisKind
    observations: tuple[Observation, ...]
    starts: tuple[Start, ...]
    measured: tuple[SpecConfig, ...]
    boot_s: float | None
    words: tuple[str, ...]
    earlier: Earlier = field(default_factory=Earlier)

    @property
    def believed(self) -> tuple[Observation, ...]:
        """All numbers that a belief is given."""
        return (*self.earlier.observations, *self.observations)

    def best_at(self, load: int) -> Observation | None:
        """The fastest number at a load."""
        seen = [item for item in self.observations if item.load == load and item.ms_per_token is not None]
        return min(seen, key=lambda item: item.pace_ms, default=None)


def basis_of_launches(
    spec: StudySpec, launches: Sequence[LaunchRecord], *, name: str, changed: Sequence[str] = ()
) -> Basis | None:
    """The study's own launches; None where none of them gave both objectives.

    Args:
        spec: The study file as it is now.
        launches: As stored, under the config that ran.
        name: Of the stored study.
        changed: Parts of the study file that have changed since; with any, the numbers count half.
    """
    weight = _CHANGED_WEIGHT if changed else 1.0
    observations: list[Observation] = []
    starts: list[Start] = []
    boots = []
    for launch in launches:
        if launch.outcome in (Outcome.MEASURED, Outcome.GATED):
            observations += [
                replace(item, weight=weight) for item in observations_of(launch.config, launch.phases, spec.axes)
            ]
            starts.append(Start(launch.config, started=True, weight=weight))
            if launch.boot_s is not None:
                boots.append(launch.boot_s)
        elif launch.outcome is not None and launch.outcome.blames_config:
            starts.append(failed_start(launch.asked, launch.reason or "", weight=weight))
    measured = _measured(observations, spec)
    if not measured:
        return None
    words = [f"{len(launches)} launches of study {name}, with {len(measured)} configs measured at both objectives."]
    if changed:
        words.append(
            f"The study file has changed since they were measured ({', '.join(changed)}), so they count for half and "
            "may be off as a whole."
        )
    return Basis(
        "launches", tuple(observations), tuple(starts), measured, median(boots) if boots else None, tuple(words)
    )


def basis_of_recording(spec: StudySpec, recording: Recording) -> Basis | None:
    """A recorded table; None where no config of it has both objectives."""
    observations, starts = recorded_evidence(recording, spec.axes)
    measured = _measured(observations, spec)
    if not measured:
        return None
    started = dict.fromkeys(item.config for item in observations)
    boots = [row.boot_s for row in recording.rows if row.measured and row.boot_s]
    source = (
        "typed in by hand or computed, not measured by this tool" if recording.computed else "measured by this tool"
    )
    words = (f"Recording {recording.name}: {len(observations)} numbers of {len(started)} configs, {source}.",)
    return Basis("recording", observations, starts, measured, median(boots) if boots else None, words)


def basis_of_physics(spec: StudySpec, physics: Physics, baselines: Sequence[SpecConfig]) -> Basis:
    """The numbers that the study's cost model was fitted to; without any, its idea of the baseline alone."""
    points = tuple(
        Observation(point.config, point.concurrency, 1000.0 * point.concurrency / point.output_tps)
        for point in physics.points
    )
    measured = _measured(points, spec)
    if measured:
        configs = tuple(dict.fromkeys(item.config for item in points))
        words = (
            f"No launch of this study is stored, so on the {len(points)} numbers of {len(configs)} configs that the "
            f"cost model {physics.name} was fitted to: {physics.about}.",
            *physics.caveats,
        )
        starts = tuple(Start(config, started=True) for config in configs)
        return Basis("recording", points, starts, measured, None, words)
    plain = baselines[:1]
    modelled = tuple(
        Observation(
            config,
            load,
            1000.0
            * load
            / predict(physics.model, config, load, running_limit=spec.engine.max_running_requests).output_tps,
            relative_sd=_MODELLED_DOUBT,
        )
        for config in plain
        for load in spec.loads
    )
    words = (
        f"Nothing is measured: no launch of this study is stored, and the cost model {physics.name} is fitted to no number. "
        "The baseline is that model's, so only ratios to it mean anything; their bands are priors.",
        *summary(physics)[1:],
    )
    return Basis("prior", modelled, (), tuple(plain), None, words)


def _measured(observations: Sequence[Observation], spec: StudySpec) -> tuple[SpecConfig, ...]:
    by_config: dict[SpecConfig, list[Observation]] = {}
    for item in observations:
        by_config.setdefault(item.config, []).append(item)
    return tuple(config for config, seen in by_config.items() if has_both(spec.axes, seen))
