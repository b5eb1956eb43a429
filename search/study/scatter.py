"""What a study's own starts say of its scatter, and which configs are behind whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from search.contracts import PhaseResult
from search.metrics import Direction, Objective, Objectives
from search.outcomes import Outcome
from search.stats.compare import compare
from search.stats.phase_readings import reading_of
from search.stats.readings import Reading
from search.stats.scatter import Scatter, pooled_scatter
from search.storage.records import LaunchRecord, Stage


def is_held_out(phase: PhaseResult, stage: Stage) -> bool:
    """Whether a phase sent the held-out prompts; in rows that do not say so, confirmations did."""
    return stage == "confirm" if phase.held_out is None else phase.held_out


def searched_phases(launch: LaunchRecord) -> list[PhaseResult]:
    """Phases of a launch that sent the search's prompts; its others compare with nothing that the search measures."""
    return [phase for phase in launch.phases if not is_held_out(phase, launch.stage)]


Kept: TypeAlias = dict[tuple[Objective, int], tuple[Sequence[PhaseResult], list[Reading]]]
"""By objective and number of the launch: its phases, and what was read of them. For who asks after every launch."""


def readings_of(
    axis: Objective, launches: Sequence[LaunchRecord], kept: Kept | None = None
) -> dict[str, list[Reading]]:
    """Readings of one objective, by config id, of every launch that was measured; those tried by hand are left out."""
    groups: dict[str, list[Reading]] = {}
    for launch in launches:
        if launch.outcome in (Outcome.MEASURED, Outcome.GATED) and launch.stage != "try":
            groups.setdefault(launch.config.config_id, []).extend(_kept_readings(axis, launch, kept))
    return groups


def _kept_readings(axis: Objective, launch: LaunchRecord, kept: Kept | None) -> list[Reading]:
    if kept is None:
        return _readings(axis, launch, launch.phases)
    phases, readings = kept.get((axis, launch.number), ((), []))
    if phases is not launch.phases:
        readings = _readings(axis, launch, launch.phases)
        kept[axis, launch.number] = launch.phases, readings
    return readings


def axis_scatter(axis: Objective, launches: Sequence[LaunchRecord]) -> Scatter:
    """Scatter of one objective, pooled over everything that was started or repeated more than once."""
    return pooled_scatter(readings_of(axis, launches))


def pooled_freedom(axes: Objectives, launches: Sequence[LaunchRecord]) -> float:
    """Degrees of freedom that show the scatter between starts, of the objective that has fewer of them."""
    return min(axis_scatter(axis, launches).start_freedom for axis in axes)


def is_behind_everywhere(
    axes: Objectives,
    planned: LaunchRecord,
    phases: Sequence[PhaseResult],
    launches: Sequence[LaunchRecord],
    kept: Kept | None = None,
) -> bool:
    """Whether a start lies behind the best baseline at both objectives, beyond the intervals.

    Args:
        axes: Of the study.
        planned: The start.
        phases: Measured on it so far.
        launches: Those that ended before it.
        kept: What was read of them when this was asked before.
    """
    return all(_is_behind(axis, planned, phases, launches, kept) for axis in axes)


def _is_behind(
    axis: Objective,
    planned: LaunchRecord,
    phases: Sequence[PhaseResult],
    launches: Sequence[LaunchRecord],
    kept: Kept | None,
) -> bool:
    groups = readings_of(axis, launches, kept)
    plain = {launch.config.config_id for launch in launches if not launch.config.speculates}
    mine = [*groups.get(planned.asked.config_id, ()), *_readings(axis, planned, phases)]
    scatter = pooled_scatter({**groups, planned.asked.config_id: mine})
    for name in plain & groups.keys():
        comparison = compare(mine, groups[name], scatter)
        if comparison is not None and (
            comparison.lo > 1 if axis.direction is Direction.MINIMIZE else comparison.hi < 1
        ):
            return True
    return False


def _readings(axis: Objective, launch: LaunchRecord, phases: Sequence[PhaseResult]) -> list[Reading]:
    found = [
        reading_of(
            phase,
            axis.of,
            start=launch.start_number,
            place=launch.place,
            slot=str(launch.slot),
            prompt_set="held-out" if is_held_out(phase, launch.stage) else "search",
            fresh=launch.stage == "confirm",
        )
        for phase in phases
        if phase.repeat > 0
    ]
    return [reading for reading in found if reading is not None]
