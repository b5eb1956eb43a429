"""What to launch next: the stages of a study in their order, and second attempts in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from optuna.trial import Trial

from search.analysis.drift import slots_to_measure_again
from search.config import SpecConfig
from search.outcomes import Blame, Note, Outcome, Reason
from search.samplers.finite import SpaceExhausted
from search.storage.records import Expected, LaunchRecord, Stage
from search.study.blame import alike, failed_beside
from search.study.budget import BudgetSpent, is_static_fault
from search.study.choices import Choice, Room, to_confirm, to_ladder
from search.study.events import Ending
from search.study.forecasts import Prospects, Settled
from search.study.neighbours import Neighbours
from search.study.progress import Progress
from search.study.stages import StageBudgets
from search.study.trials import Trials

_FIXED_STAGES: Mapping[Stage, str] = {
    "baseline": "what speculation is compared with",
    "known": "named in the study file",
}
"""In order, with why their configs are launched."""

_CHOSEN_STAGES: tuple[Stage, ...] = ("confirm", "ladder")
"""The stages after the search that go by what was found, in order."""


@dataclass(frozen=True, slots=True)
class Job:
    """One launch to make.

    Attributes:
        trial: None for launches outside the search: the baseline that a further slot is compared by,
            confirmation, ladder and closing baselines. Their configs have a trial already.
        slot: The only slot it makes sense on; None for any.
        again: A second attempt.
        spoiled_by: The slot whose host spoiled the first attempt; another one is preferred.
        expected: Of its numbers.
        alone: It has a start of its own, whoever could share one.
    """

    config: SpecConfig
    stage: Stage
    why: str
    trial: Trial | None = None
    slot: int | None = None
    notes: tuple[Note, ...] = ()
    again: bool = False
    spoiled_by: int | None = None
    expected: Expected | None = None
    alone: bool = False


@dataclass(slots=True)
class _Later:
    """A job for after the `due`th proposal; in the other stages, for after the stage's list."""

    job: Job
    due: int


class Agenda:
    """Gives each idle slot its next job.

    Flakes are repeated at once; what failed in a start for several configs, alone once that start is over. What the host spoiled is repeated later (at the end of a fixed
    stage, after the next proposal of the search), on another slot while there is one. Every
    config has one second attempt at most; the budget bounds them over the study.

    The search leaves the launches alone that later stages are to have. Those begin when it is
    over and nothing of it is under way: confirmation and ladder on one slot, so that picks
    compare, and then the baseline again on each slot that has launched anything since its last.
    Nothing in them is tried twice.

    Args:
        trials: Optuna's side.
        progress: Launches so far, and what they leave of the budget.
        prospects: What the sampler expects.
        stages: How many launches each stage may use.
        baselines: Configs of the first stage.
        known: Of the second.
        give_up: Makes the sampler propose a config no more.
        neighbours: Told what failed starts teach; None where nothing is to be left out.
        unmeasured_slots: Slots that must measure a baseline of their own first.
        held: Of a slot: configs that its open start can be switched to.
        anchor: Of a slot: what its open start is due to be measured with again; no trial of its own.

    Attributes:
        spent: The budget that ended the search.
        settled: Why the search ended by itself.
        unfound: What was still expected when a budget ended the search.
        left_out: Of later stages, what the budget left no launch for.
    """

    def __init__(
        self,
        trials: Trials,
        progress: Progress,
        prospects: Prospects,
        *,
        stages: StageBudgets,
        baselines: Sequence[SpecConfig],
        known: Sequence[SpecConfig],
        give_up: Callable[[SpecConfig], None],
        neighbours: Neighbours | None = None,
        unmeasured_slots: Collection[int] = (),
        held: Callable[[int], Collection[SpecConfig]] = lambda _: (),
        anchor: Callable[[int], SpecConfig | None] = lambda _: None,
    ) -> None:
        self._held, self._anchor = held, anchor
        self._trials = trials
        self._progress = progress
        self._prospects = prospects
        self.stages = stages
        self.give_up = give_up
        self._neighbours = neighbours
        self.spent: Ending | None = None
        self.settled: Settled | None = None
        self.unfound: Settled | None = None
        self.left_out: dict[Stage, SpecConfig] = {}
        self._baselines = baselines
        self._unmeasured_slots = set(unmeasured_slots)
        self._listed: dict[Stage, list[SpecConfig]] = {"baseline": list(baselines), "known": list(known)}
        self._soon: list[Job] = []
        self._late: list[_Later] = []
        self._alone: list[Job] = []
        self._proposed = 0
        self._closed: set[int] = set()
        self._final = False

    @property
    def search_is_over(self) -> bool:
        """Whether later stages have begun, and only they are left."""
        return self._final

    def next(self, slot: int, others: Iterable[int] = ()) -> Job | None:
        """The next job for `slot`, its trial opened; None when there is nothing for it now.

        Args:
            slot: An idle one.
            others: The slots that may be launched on.

        Raises:
            BudgetSpent: Not even a later stage may launch any more.
        """
        self._prospects.learn(self._progress.launches, held=self._held(slot))
        if self._neighbours is not None:
            self._neighbours.learn(self._progress.launches)
        others = list(others)
        if not self._final:
            try:
                if self.spent is None and (job := self._of_the_search(slot, others)) is not None:
                    return job
            except BudgetSpent as spent:
                self.spent, self.unfound = spent.ending, self._prospects.left()
            if {"baseline", "known", "search"} & self._progress.stages_under_way():
                return None  # its end may start the search again
            if self.spent is None and (self._soon or self._late or self._alone):
                return None  # for another slot
            self._final = True
        return self._of_the_finale(slot, others)

    def to_hold(self, config: SpecConfig, group: Sequence[SpecConfig]) -> tuple[SpecConfig, ...]:
        """Which others of a group a start for a config should be able to hold, what the study file still wants first."""
        wanted = [other for other in self._listed["known"] if other in group]
        return tuple(dict.fromkeys([*wanted, *self._prospects.to_hold(config, group)]))

    def own_baseline(self, slot: int) -> Job:
        """The baseline that shows whether a slot is like the others."""
        return Job(self._baselines[0], "baseline", f"what slot {slot} is compared by", slot=slot)

    def again(self, job: Job, record: LaunchRecord) -> bool:
        """Plan a second attempt if the launch deserves one and there is one left; else its end stands."""
        if job.again or is_static_fault(record) or record.outcome is Outcome.INTERRUPTED:
            return False
        if job.stage in ("confirm", "ladder", "closing") or (job.stage == "search" and job.trial is None):
            return False
        if failed_beside(record):
            # Another start's memory, graphs and plugin were around it: alone it shows whether the config is to blame.
            why = f"once more in a start of its own, after {record.reason} in one for several configs"
            self._alone.append(replace(job, why=why, again=True, alone=True))
            return True
        flake = record.blame is Blame.FLAKE or record.reason is Reason.UNKNOWN
        if not (flake or record.blame is Blame.HOST) or not self._progress.may_retry():
            return False
        if any(other.asked != record.asked for other in alike(record, self._progress.launches)):
            return False  # another config died alike, so this is the second time already
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
        self._alone = [job for job in self._alone if job.slot != slot]
        self._unmeasured_slots.discard(slot)

    def _of_the_search(self, slot: int, others: Sequence[int]) -> Job | None:
        """Baselines, known configs and proposals, within what later stages leave."""
        if self._soon:
            self._check(slot, self._soon[0].stage)
            return self._soon.pop(0)
        if slot in self._unmeasured_slots:
            self._check(slot, "baseline")
            self._unmeasured_slots.discard(slot)
            return self.own_baseline(slot)
        # A start that goes on is not closed for it: a quarter of an hour to open again.
        if not self._held(slot) and (alone := self._once_more_alone(slot)) is not None:
            return alone
        if (anchor := self._anchor(slot)) is not None:
            self._check(slot, "search")
            return Job(anchor, "search", "the first of its start again: does its place matter?", slot=slot)
        for stage, why in _FIXED_STAGES.items():
            if (job := self._from_list(slot, stage, why) or self._from_late(slot, others, stage=stage)) is not None:
                return job
            if stage == "baseline" and not self._progress.baseline_is_measured():
                return None
        return (
            self._from_late(slot, others, due=self._proposed)
            or self._proposal(slot)
            or self._from_late(slot, others)
            or self._once_more_alone(slot)
        )

    def _once_more_alone(self, slot: int) -> Job | None:
        """What failed in a start for several, for a start of its own."""
        if not self._alone:
            return None
        self._check(slot, self._alone[0].stage)
        return self._alone.pop(0)

    def _of_the_finale(self, slot: int, others: Sequence[int]) -> Job | None:
        """Confirmation and ladder on the first slot that may be used, then what is owed to each."""
        for stage in _CHOSEN_STAGES:
            if slot != min(others, default=slot) or not self._left(stage) or slot in self._closed:
                continue  # nothing comes after the closing baseline
            found = self._chosen(stage, slot)
            if found is None:
                continue
            config, why = found
            try:
                self._progress.check_budget(sum(map(self._left, _later_than(stage))) + self._owed(slot))
            except BudgetSpent as spent:
                self.spent = self.spent or spent.ending
                self.left_out[stage] = config
                continue
            return Job(config, stage, why)
        owed = slots_to_measure_again(self._progress.all())
        if not self.stages.closing or slot not in owed or slot in self._closed:
            return None
        self._progress.check_budget(0)
        self._closed.add(slot)
        return Job(owed[slot], "closing", f"the baseline of slot {slot} again: has the host drifted?", slot=slot)

    def _chosen(self, stage: Stage, slot: int) -> Choice | None:
        """What a stage that goes by what was found launches next."""
        judgement = self._progress.judgement_of_all()  # first: it looks for what other drivers have launched
        launches = self._progress.all()
        if stage == "ladder":
            return to_ladder(launches, judgement, loads=self._progress.loads, is_behind=self._progress.is_behind)
        # Once it is confirmed, the best baseline is the one that is measured again at the end.
        to_come = bool(self.stages.closing) and bool(judgement.baselines) and slot not in self._closed
        return to_confirm(
            launches,
            judgement,
            Room(
                left=self._left("confirm"),
                freedom=self._progress.freedom(),
                closing=int(to_come),
                objectives=self._progress.objective_loads,
                worth=self._progress.worth,
                may_start=self._progress.may_start_again,
            ),
        )

    def _check(self, slot: int, stage: Stage) -> None:
        """Whether one more launch of the search may start on `slot`.

        A baseline may use up what others wait for; what the study file names may use up what confirmations wait for,
        where hours are short: a question that is not measured has no answer, however sure the others are.
        """
        if stage == "baseline":
            self._progress.check_budget(0)
        elif stage == "known":
            self._progress.check_budget(self._owed(slot))
        else:
            self._progress.check_budget(self._left("confirm") + self._left("ladder") + self._owed(slot))

    def _left(self, stage: Stage) -> int:
        """Launches that a later stage has not used."""
        planned = {"confirm": self.stages.confirm, "ladder": self.stages.ladder}[stage]
        return max(0, planned - sum(launch.stage == stage for launch in self._progress.all()))

    def _owed(self, slot: int) -> int:
        """Closing baselines that are due once `slot` has launched one more."""
        return len(({slot, *slots_to_measure_again(self._progress.all())}) - self._closed) if self.stages.closing else 0

    def _from_list(self, slot: int, stage: Stage, why: str) -> Job | None:
        while configs := self._listed[stage]:
            spared = self._neighbours is not None and self._neighbours.spares(configs[0])
            if spared or self._trials.is_taken(configs[0]):
                configs.pop(0)
                continue
            self._check(slot, stage)
            config = configs.pop(0)
            if (asked := self._trials.ask(config, stage=stage)) is not None:
                trial = asked[0]
                expected = self._prospects.expects(trial, config) if stage == "known" else None
                return Job(config, stage, why, trial, expected=expected)
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
            self._check(slot, job.stage)
            self._late.remove(later)
            return job
        return None

    def _proposal(self, slot: int) -> Job | None:
        if self._trials.nothing_left():
            return None
        self._check(slot, "search")
        self.settled = self._prospects.settled()
        if self.settled is not None:
            return None
        try:
            asked = self._trials.ask(None, stage="search")
        except SpaceExhausted:
            return None  # another driver took the last one meanwhile
        assert asked is not None, "without a config of its own, an ask goes on until it has one"
        self._proposed += 1
        trial, config = asked
        return Job(config, "search", self._prospects.why(trial), trial, expected=self._prospects.expects(trial, config))


def _later_than(stage: Stage) -> tuple[Stage, ...]:
    return ("ladder",) if stage == "confirm" else ()
