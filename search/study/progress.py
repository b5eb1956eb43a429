"""What a run knows of its study: launches that ended or are under way, and what they leave of the budget."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from search.analysis.analyse import judge
from search.analysis.findings import Judgement
from search.analysis.memo import Memo
from search.config import SpecConfig
from search.errors import BreakerOpen
from search.outcomes import Outcome
from search.storage.owner import this_process
from search.storage.records import LaunchRecord, Stage
from search.storage.store import Store
from search.study.blame import alike, started
from search.study.budget import Budget, BudgetSpent
from search.study.context import StudyContext
from search.study.events import Judgements
from search.study.resume import settle
from search.study.scatter import is_behind_everywhere, pooled_freedom
from search.study.trials import Trials


class Progress:
    """The launches of one study, other drivers' included.

    Args:
        context: The study.
        store: Read again where other drivers may have launched something.
        budget: Of the study's whole life.
        launches: Known at the start.

    Attributes:
        launches: Those that ended, in the order of their numbers.
        under_way: Of this run, by slot.
    """

    def __init__(
        self, context: StudyContext, *, store: Store, budget: Budget, launches: Sequence[LaunchRecord]
    ) -> None:
        self._context = context
        self._store = store
        self.budget = budget
        self.launches = list(launches)
        self.under_way: dict[int, LaunchRecord] = {}
        self._memo = Memo()

    def all(self) -> list[LaunchRecord]:
        """Those that ended and those under way: both cost a start."""
        return [*self.launches, *self.under_way.values()]

    def stages_under_way(self) -> set[Stage]:
        """Of the launches that run now."""
        return {launch.stage for launch in self.under_way.values()}

    def began(self, record: LaunchRecord) -> None:
        """Take note of a launch that starts."""
        self.under_way[record.slot] = record

    def ended(self, record: LaunchRecord) -> None:
        """Take note of a launch that ended. They stay in the order of their numbers, as a rebuilt report has them."""
        insort(self.launches, record, key=lambda launch: launch.number)

    def amended(self, record: LaunchRecord) -> None:
        """Take note of what a launch that ended came to since."""
        self.launches = [record if one.number == record.number else one for one in self.launches]

    def reread(self) -> None:
        """Take note of what other drivers have launched."""
        here = {record.number for record in self.under_way.values()}
        self.launches = [launch for launch in self._store.launches(self._context.name) if launch.number not in here]

    def catch_up(self) -> None:
        """While no baseline of this run is measured, one that another driver has measured counts."""
        if not any(launch.outcome is Outcome.MEASURED and not launch.config.speculates for launch in self.launches):
            self.reread()

    def check_budget(self, keep: int = 0) -> None:
        """Go on only while a launch may start.

        Args:
            keep: Launches to leave to later stages.

        Raises:
            BudgetSpent: None may.
        """
        if ending := self.budget.ending(self.all(), keep=keep):
            raise BudgetSpent(ending)

    def may_retry(self) -> bool:
        """Whether the study has second attempts left."""
        return self.budget.may_retry(self.all())

    def baseline_is_measured(self) -> bool:
        """Whether the search may go on to speculating configs; not while the first baselines are under way.

        Raises:
            BreakerOpen: All have failed.
        """
        self.catch_up()
        baselines = [launch for launch in self.launches if launch.outcome and not launch.config.speculates]
        if any(launch.outcome is Outcome.MEASURED for launch in baselines):
            return True
        if "baseline" in self.stages_under_way():
            return False
        if baselines:
            shared = (
                "It died alike before, and nothing has started: what all launches share is to blame (the model, the release, "
                "static flags or the host). "
                if alike(baselines[-1], self.launches) and not any(map(started, self.launches))
                else ""
            )
            raise BreakerOpen(
                f"No baseline could be measured, so nothing can be compared; the last: {cause_of(baselines[-1])}. {shared}"
                "Make `off` start on this host first (`python -m search try` launches it alone), then run the same "
                "command again."
            )
        return True

    @property
    def loads(self) -> tuple[int, ...]:
        """Of the study."""
        return self._context.spec.loads

    @property
    def objective_loads(self) -> tuple[int, ...]:
        """Those of the objectives."""
        return self._context.spec.objective_loads

    @property
    def worth(self) -> float:
        """Smallest gain that matters to the study."""
        return self._context.spec.worth

    def freedom(self) -> float:
        """Pooled degrees of freedom that show the scatter between starts, of the objective that has fewer."""
        return pooled_freedom(self._context.spec.axes, self.launches)

    def is_behind(self, config: SpecConfig) -> bool:
        """Whether what was measured of a config lies behind the best baseline at both objectives, beyond the intervals."""
        mine = [launch for launch in self.launches if launch.config == config and launch.phases]
        others = [launch for launch in self.launches if launch not in mine[-1:]]
        return bool(mine) and is_behind_everywhere(self._context.spec.axes, mine[-1], mine[-1].phases, others)

    def may_start_again(self, config: SpecConfig) -> bool:
        """Whether a fresh start of a config is to be had: always, but for a recording that holds no further one."""
        recorded = self._context.recorded
        if self._context.kind != "replay":
            return True
        return recorded is not None and sum(launch.asked == config for launch in self.all()) < recorded.starts(config)

    def slots_with_baseline(self) -> set[int]:
        """Those on which a baseline has been measured."""
        return {
            launch.slot
            for launch in self.launches
            if not launch.config.speculates and launch.outcome is Outcome.MEASURED
        }

    def settle(self, trials: Trials) -> None:
        """Close what this run still holds open, and what dead drivers have left."""
        me = this_process()
        self.launches = list(
            settle(trials, name=self._context.name, store=self._store, is_live=lambda owner: owner != me)
        )

    def judgement(self) -> Judgement:
        """Of the launches known here."""
        return judge(self._context.spec, self.launches, self._memo)

    def judgements(self, record: LaunchRecord) -> Judgements:
        """After the end of `record`; none is worked out before somebody asks."""
        return Judgements(lambda: self._brief(record), self.judgement)

    def _brief(self, record: LaunchRecord) -> Judgement:
        few = [launch for launch in self.launches if launch is record or not launch.config.speculates]
        return judge(self._context.spec, few, self._memo)

    def judgement_of_all(self) -> Judgement:
        """Of all launches, those of other drivers included."""
        self.reread()
        return self.judgement()


def cause_of(record: LaunchRecord) -> str:
    """Why a launch gave no measurement, for people."""
    reason = record.reason.value if record.reason else str(record.outcome)
    return f"{reason}: {record.evidence.root_line}" if record.evidence else reason
