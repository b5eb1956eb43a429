"""What to launch next: baselines, known configs, proposals of the sampler, and second attempts in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optuna.trial import Trial

from search.config import SpecConfig
from search.outcomes import Blame, Note, Outcome, Reason
from search.samplers import SpaceExhausted
from search.storage import LaunchRecord, Stage
from search.study.budget import is_static_fault
from search.study.trials import Trials

_FIXED_STAGES: Mapping[Stage, str] = {
    "baseline": "what speculation is compared with",
    "known": "named in the study file",
}
"""In order, with why their configs are launched."""


@dataclass(frozen=True, slots=True)
class Job:
    """One launch to make.

    Attributes:
        trial: None for the baseline that a further slot is compared by: its config has a trial already.
        slot: The only slot it makes sense on; None for any.
        again: A second attempt.
        spoiled_by: The slot whose host spoiled the first attempt; another one is preferred.
    """

    config: SpecConfig
    stage: Stage
    why: str
    trial: Trial | None = None
    slot: int | None = None
    notes: tuple[Note, ...] = ()
    again: bool = False
    spoiled_by: int | None = None


@dataclass(slots=True)
class _Later:
    """A job for after the `due`th proposal; in the other stages, for after the stage's list."""

    job: Job
    due: int


@dataclass(slots=True)
class Agenda:
    """Gives each idle slot its next job.

    Flakes are repeated at once. What the host spoiled is repeated later (at the end of a fixed
    stage, after the next proposal of the search), on another slot while there is one. Every
    config has one second attempt at most; `may_retry` bounds them over the study.

    Attributes:
        sampler: Its name, for people.
        check_budget: Called before each job is given out; raises what ends the study.
        check_baseline: Called when the baseline stage is over; raises when nothing was measured.
        may_retry: Whether the study has second attempts left.
        unmeasured_slots: Slots that must measure a baseline of their own first.
    """

    trials: Trials
    baselines: Sequence[SpecConfig]
    known: Sequence[SpecConfig]
    sampler: str
    check_budget: Callable[[], None]
    check_baseline: Callable[[], bool]
    may_retry: Callable[[], bool]
    unmeasured_slots: set[int] = field(default_factory=set)
    _listed: dict[Stage, list[SpecConfig]] = field(init=False)
    _soon: list[Job] = field(default_factory=list)
    _late: list[_Later] = field(default_factory=list)
    _proposed: int = 0

    def __post_init__(self) -> None:
        self._listed = {"baseline": list(self.baselines), "known": list(self.known)}

    def next(self, slot: int, others: Iterable[int] = ()) -> Job | None:
        """The next job for `slot`, its trial opened; None when there is nothing for it now.

        Args:
            slot: An idle one.
            others: The other slots that may be launched on.
        """
        if self._soon:
            self.check_budget()
            return self._soon.pop(0)
        if slot in self.unmeasured_slots:
            self.check_budget()
            self.unmeasured_slots.discard(slot)
            return self.own_baseline(slot)
        for stage, why in _FIXED_STAGES.items():
            if (job := self._from_list(stage, why) or self._from_late(slot, others, stage=stage)) is not None:
                return job
            if stage == "baseline" and not self.check_baseline():
                return None
        return self._from_late(slot, others, due=self._proposed) or self._proposal() or self._from_late(slot, others)

    def own_baseline(self, slot: int) -> Job:
        """The baseline that tells whether a slot is like the others."""
        return Job(self.baselines[0], "baseline", f"what slot {slot} is compared by", slot=slot)

    def again(self, job: Job, record: LaunchRecord) -> bool:
        """Plan a second attempt if the launch deserves one and there is one left; else its end stands."""
        if job.again or is_static_fault(record) or record.outcome is Outcome.INTERRUPTED:
            return False
        flake = record.blame is Blame.FLAKE or record.reason is Reason.UNKNOWN
        if not (flake or record.blame is Blame.HOST) or not self.may_retry():
            return False
        assert record.reason is not None
        second = replace(job, why=f"once more after {record.reason}", again=True)
        if flake:
            self._soon.append(replace(second, notes=(Note.UNSTABLE,)))
        else:
            self._late.append(_Later(replace(second, spoiled_by=record.slot), self._proposed + 1))
        return True

    def forget(self, slot: int) -> None:
        """Drop what only `slot` could do: it may not be used for a while."""
        self._soon = [job for job in self._soon if job.slot != slot]
        self._late = [later for later in self._late if later.job.slot != slot]
        self.unmeasured_slots.discard(slot)

    def _from_list(self, stage: Stage, why: str) -> Job | None:
        while configs := self._listed[stage]:
            if self.trials.is_taken(configs[0]):
                configs.pop(0)
                continue
            self.check_budget()
            config = configs.pop(0)
            if (asked := self.trials.ask(config, stage=stage)) is not None:
                return Job(config, stage, why, asked[0])
        return None

    def _from_late(
        self, slot: int, others: Iterable[int], *, stage: Stage | None = None, due: int | None = None
    ) -> Job | None:
        elsewhere = any(other != slot for other in others)
        for later in self._late:
            job = later.job
            if (stage is not None and job.stage != stage) or (due is not None and later.due > due):
                continue
            if job.slot not in (None, slot) or (job.slot is None and job.spoiled_by == slot and elsewhere):
                continue
            self.check_budget()
            self._late.remove(later)
            return job
        return None

    def _proposal(self) -> Job | None:
        if self.trials.nothing_left():
            return None
        self.check_budget()
        try:
            asked = self.trials.ask(None, stage="search")
        except SpaceExhausted:
            return None  # another driver took the last one meanwhile
        assert asked is not None, "without a config of its own, an ask goes on until it has one"
        self._proposed += 1
        trial, config = asked
        return Job(config, "search", f"proposed by {self.sampler}", trial)
