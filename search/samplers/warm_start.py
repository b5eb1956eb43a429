"""What an earlier study measured, as evidence for this one: another release, another draft, another host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from search.config import SpecConfig
from search.engines.recording import Recording, read_recording, result_of
from search.metrics import Objective
from search.model.feasibility import Start
from search.model.observations import Observation
from search.outcomes import Blame
from search.samplers.evidence import failed_start, observations_of
from search.samplers.matching import EarlierTable
from search.space import Space
from search.spec.study import StudySpec


@dataclass(frozen=True)
class Earlier:
    """Evidence that counts for less than a launch of this study.

    Attributes:
        observations: Numbers, with weights below 1.
        starts: What started and what did not through its own fault, likewise.
        words: For people, one line for each recording.
        tables: The same by recording, as the sampler takes them: each has a scale of its own.
    """

    observations: tuple[Observation, ...] = ()
    starts: tuple[Start, ...] = ()
    words: tuple[str, ...] = ()
    tables: tuple[EarlierTable, ...] = ()


def earlier_evidence(spec: StudySpec, space: Space) -> Earlier:
    """All recordings that the study file names under `earlier`.

    Configs outside of this study's space and loads that it does not measure count for nothing, and are left out.

    Raises:
        UsageError: A recording cannot be read.
    """
    inside = {*space.configs, *(locked.config for locked in space.locked)}
    loads = spec.objective_loads
    observations: list[Observation] = []
    starts: list[Start] = []
    words: list[str] = []
    tables: list[EarlierTable] = []
    for named in spec.earlier:
        recording = read_recording(Path(named.recording))
        seen, started = recorded_evidence(recording, spec.axes)
        kept = [item for item in seen if item.config in inside and item.load in loads]
        weighted = tuple(replace(item, weight=named.weight) for item in kept)
        begun = tuple(replace(start, weight=named.weight) for start in started if start.config in inside)
        observations += weighted
        starts += begun
        tables.append(EarlierTable(recording.name, weighted, begun))
        configs = {item.config for item in kept}
        words.append(
            f"earlier: {len(kept)} numbers of {len(configs)} configs in recording {recording.name}, each worth "
            f"{named.weight:g} of a measurement" + _left_out(recording, configs)
        )
    return Earlier(tuple(observations), tuple(starts), tuple(words), tuple(tables))


def recorded_evidence(
    recording: Recording, objectives: Sequence[Objective] = ()
) -> tuple[tuple[Observation, ...], tuple[Start, ...]]:
    """Numbers and starts of a recording, with full weight; `objectives` as `evidence_of` takes them."""
    observations: list[Observation] = []
    for (config, _), rows in recording.repeats().items():
        phases = [
            result_of(row, repeat=place, requests=0, computed=recording.computed) for place, row in enumerate(rows, 1)
        ]
        observations += observations_of(config, phases, objectives)
    for (config, load), lengths in recording.accept_lengths().items():
        observations.append(Observation(config, load, None, accept_length=fmean(lengths)))
    timed = dict.fromkeys(item.config for item in observations if item.ms_per_token is not None)
    starts = [Start(config, started=True) for config in timed]
    for config, failure in recording.failures().items():
        if failure.reason.blame is Blame.CONFIG:
            starts.append(failed_start(config, failure.reason))
    return tuple(observations), tuple(starts)


def _left_out(recording: Recording, used: set[SpecConfig]) -> str:
    others = len({config for config, _ in recording.repeats()} - used)
    return f"; {others} of its configs are not in this study's space" if others else ""
