"""What one study said, held against what is true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.coverage.whole.worlds import AT, BETTER, World
from search.analysis.findings import Judgement
from search.outcomes import Outcome
from search.spec.study import StudySpec
from search.storage.records import LaunchRecord
from search.study.scatter import pooled_freedom


@dataclass(frozen=True, slots=True)
class Claims:
    """What one study said.

    Attributes:
        false_gains: Concurrencies at which a gain was claimed of a config that has none.
        found: `BETTER` was claimed at C=100.
        error: Of its claimed gain, relative; None where it was not claimed.
        drift: The host was said to have drifted.
        verdict: A question was answered by `supported` or `refuted`, of equal configs.
        measured_questions: Questions that got any verdict but `not measured` and `assumed scatter`.
        launches: Server starts.
        hours: Of the host.
        freedom: Pooled degrees of freedom between starts, at the objective that has fewer.
        baseline_starts: Measured starts of the baseline that was started most.
        picks: Configs with two starts or more of their own after the choice.
    """

    false_gains: tuple[int, ...]
    found: bool
    error: float | None
    drift: bool
    verdict: bool
    measured_questions: int
    launches: int
    hours: float
    freedom: float
    baseline_starts: int
    picks: int

    @property
    def any_gain(self) -> bool:
        """Whether any gain was claimed that is none."""
        return bool(self.false_gains)


def claims_of(judgement: Judgement, launches: Sequence[LaunchRecord], *, world: World, spec: StudySpec) -> Claims:
    """Read the verdicts as a person would.

    Args:
        judgement: The last one.
        launches: Of the study.
        world: The truth.
        spec: The study.
    """
    claims = [winner for winner in judgement.winners if winner.claimed and winner.config.speculates]
    right = [w for w in claims if world.gain and w.concurrency == AT and w.config == BETTER]
    measured = [launch for launch in launches if launch.outcome is Outcome.MEASURED]
    fresh = [launch.config for launch in measured if launch.stage == "confirm" and launch.config.speculates]
    plain = [launch.config for launch in measured if not launch.config.speculates]
    return Claims(
        false_gains=tuple(winner.concurrency for winner in claims if winner not in right),
        found=bool(right),
        error=right[0].gain.value / (1 + world.gain) - 1 if right else None,
        drift=any("drifted" in line or "is not like slot" in line for line in judgement.headlines),
        verdict=any(verdict in ("supported", "refuted") for verdict in _of_equals(judgement, world)),
        measured_questions=sum(one.verdict not in ("not measured", "assumed scatter") for one in judgement.verdicts),
        launches=len(launches),
        hours=sum(launch.duration_s or 0.0 for launch in launches) / 3600,
        freedom=pooled_freedom(spec.axes, launches),
        baseline_starts=max((plain.count(config) for config in set(plain)), default=0),
        picks=sum(fresh.count(config) >= 2 for config in set(fresh)),
    )


def _of_equals(judgement: Judgement, world: World) -> Iterator[str]:
    """Verdicts on questions of which nothing is true: `BETTER` runs on v1, so where it is better a refusal of v2 is right."""
    for answer in judgement.verdicts:
        if not world.gain or (answer.name, answer.verdict) != ("width-or-overlap", "refuted"):
            yield answer.verdict
