"""One launch from its row to the proof of its stop; phases are stored as they come."""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import dataclass, replace

from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import Clock, LaunchPaths, Slot
from search.errors import BreakerOpen, Interrupted, LaunchFailed, NotRecorded, SearchError
from search.outcomes import Evidence, Note, Reason
from search.spec.stored import masker_of
from search.storage.records import Expected, LaunchRecord, Stage
from search.storage.store import Store
from search.study.context import StudyContext
from search.study.course import Course
from search.study.events import Step, Steps, unheard
from search.study.measure import Measurer, Measuring
from search.study.outputs import check_room, is_full
from search.study.sessions import Sessions
from search.study.signals import Interrupts
from search.study.starts import Starts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launched:
    """A finished launch.

    Attributes:
        record: As stored.
        leftovers: What the stop left behind, one line each; its GPUs must not be used again.
        interrupted: Ctrl-C was pressed; the record may be a measurement all the same.
    """

    record: LaunchRecord
    leftovers: tuple[str, ...] = ()
    interrupted: bool = False


class Launcher:
    """Launches configs of one study on the slots of an executor.

    Several slots may launch at the same time, each in a thread of its own. Rows of ours are
    written under one lock: SQLite has a single writer anyway, and waiting here is fair, while
    waiting there is a race against its time-out. Optuna's rows are none of this class's business.

    Args:
        context: The study.
        executor: Gives the engine.
        store: Where rows go.
        measuring: Beyond the study file's plan, and short of it.
        interrupts: Looked at before each phase: after a press none is begun.
        step: Told of what happens inside launches.
        starts: Servers that are kept running for the next config; by default each has a start of its own.
    """

    def __init__(
        self,
        context: StudyContext,
        *,
        executor: Executor,
        store: Store,
        measuring: Measuring | None = None,
        interrupts: Interrupts | None = None,
        step: Steps = unheard,
        starts: Starts | None = None,
    ) -> None:
        self._step = step
        self._context = context
        self.starts = starts or Starts(context.sharing)
        self._sessions = Sessions(executor, self.starts)
        self._executor = executor
        self._store = store
        self._interrupts = interrupts or Interrupts()
        self._writes = threading.Lock()
        self._loads: dict[str, threading.Lock] = {}
        self._masker = masker_of(context.spec.engine, inherited=os.environ)
        self._stopped = threading.Event()
        self._measurer = Measurer(
            context,
            store=store,
            measuring=measuring or Measuring(),
            writes=self._writes,
            stopped=lambda: self._stopped.is_set() or self._interrupts.pressed,
            step=step,
        )

    def stop(self) -> None:
        """Make launches that run in other threads begin no further phase."""
        self._stopped.set()

    def run(
        self, config: SpecConfig, *, stage: Stage, why: str, trial: int | None = None, notes: tuple[Note, ...] = ()
    ) -> Launched:
        """Launch, measure, stop, store. Failures and Ctrl-C become the record's outcome, not exceptions.

        Args:
            config: What to launch.
            stage: Of the study.
            why: One line for people.
            trial: Number of the Optuna trial it belongs to.
            notes: What is known before, such as UNSTABLE on a retry.

        Raises:
            SearchError: Storage cannot be written, or another fault that is no outcome of a launch.
        """
        slot = self._executor.slots[0]
        return self.carry_out(self.plan(config, slot, stage=stage, why=why, trial=trial), slot, notes=notes)

    def plan(
        self,
        config: SpecConfig,
        slot: Slot,
        *,
        stage: Stage,
        why: str,
        trial: int | None = None,
        expected: Expected | None = None,
        at_most: int | None = None,
        holds: tuple[SpecConfig, ...] = (),
    ) -> LaunchRecord:
        """The row of a launch that is about to start on `slot`; `carry_out` completes it. See `run`.

        Where the slot has an open start that can be switched to the config, the measurement takes the next place in it.

        Args:
            config: What is launched.
            slot: Where.
            stage: Of the study that asks for it.
            why: The reason it was chosen, one phrase.
            trial: Optuna's number; None for a launch that is no trial.
            expected: What the belief expects of it; None without one.
            at_most: Launches of the whole study; None without a limit.
            holds: Further configs that a fresh start for it is to be able to switch to; empty for a start of its own.

        Raises:
            LaunchesSpent: The study has `at_most` launches, those of other drivers included.
            BreakerOpen: The disk has no room for its files.
        """
        if self._context.kind == "measured":
            check_room(self._context.reports)
        with self._writes:
            return self._store.begin_launch(
                self._context.name,
                lambda number: self._sessions.placed(
                    self._planned(number, config, stage, why, trial, slot, expected), holds
                ),
                at_most=at_most,
            )

    def carry_out(
        self, record: LaunchRecord, slot: Slot, *, notes: tuple[Note, ...] = (), clock: Clock | None = None
    ) -> Launched:
        """What `run` does after its row is written. For any thread.

        Args:
            record: From `plan`.
            slot: The one it was planned for.
            notes: See `run`.
            clock: Of the slot; the study's own without it.

        Raises:
            BreakerOpen: Its files could not be written, and no other launch's could; its row is closed.
            SearchError: See `run`.
        """
        clock = clock or self._context.clock
        paths = LaunchPaths(self._context.reports / record.folder)
        started = clock.monotonic()
        course = Course(clock)
        failure: LaunchFailed | None = None
        full = False
        try:
            paths.root.mkdir(parents=True, exist_ok=True)
            with self._sessions.of(record, slot, paths, course) as session:
                self._step(Step(record.number, "ready"))
                self._measurer.measure(session, record, course, self._turn_of(slot))
        except LaunchFailed as error:
            failure = error
            course.leftovers = course.leftovers or tuple(getattr(error, "leftovers", ()))
            # A played launch shows what its failing would have taken; a real clock has moved by itself.
            clock.spend(error.spent_s)
        except (KeyboardInterrupt, Interrupted):
            course.interrupted = True
            failure = LaunchFailed(Reason.STOPPED, Evidence("interrupted by the user"))
        except NotRecorded as error:
            failure = LaunchFailed(Reason.TOOL_ERROR, Evidence(str(error)))
        except SearchError:
            raise
        except OSError as error:
            _log.exception("launch %d of %s could not be carried out", record.number, self._context.name)
            failure = LaunchFailed(Reason.TOOL_ERROR, Evidence(f"{type(error).__name__}: {error}"))
            full = is_full(error)
        except Exception as error:  # noqa: BLE001
            # Ours to fix, yet no reason to lose the night: this launch is lost, loudly.
            _log.exception("launch %d of %s broke in our own code", record.number, self._context.name)
            failure = LaunchFailed(Reason.TOOL_ERROR, Evidence(f"{type(error).__name__}: {error}"))
        record = course.closed(
            record,
            failure,
            notes=notes,
            duration_s=clock.monotonic() - started,
            first=self._context.spec.axes[0].concurrency,
        )
        if course.refused:
            record = replace(record, start=None, place=0)
        self.starts.saw(record)
        if record.evidence is not None:
            line = self._masker.text(record.evidence.root_line)
            record = replace(record, evidence=replace(record.evidence, root_line=line))
        with self._writes:
            self._store.finish_launch(self._context.name, record)
        if full:
            raise BreakerOpen(
                f"Launch {record.number} could not write its files ({record.evidence and record.evidence.root_line}), and no "
                "other launch could. Make room and make the report folder writable, then run the same command again; what "
                "was measured is kept."
            )
        return Launched(record, course.leftovers, course.interrupted or self._interrupts.pressed)

    def close_starts(self) -> tuple[str, ...]:
        """Stop the servers that are kept running; what they left behind, one line each. Call it when no launch runs."""
        return self._sessions.close_all(self._context.clock)

    def amend(self, record: LaunchRecord) -> None:
        """Store anew what a finished launch came to, now that others have shown more of it."""
        with self._writes:
            self._store.finish_launch(self._context.name, record)

    def _turn_of(self, slot: Slot) -> threading.Lock:
        """The lock of the host that a slot is on now: a lost slot may come back elsewhere."""
        hosts = {held.index: held.host for held in self._executor.slots}
        with self._writes:
            return self._loads.setdefault(hosts.get(slot.index, slot.host), threading.Lock())

    def _planned(
        self,
        number: int,
        config: SpecConfig,
        stage: Stage,
        why: str,
        trial: int | None,
        slot: Slot,
        expected: Expected | None,
    ) -> LaunchRecord:
        name = re.sub(r"[^A-Za-z0-9._+=-]", "_", config.config_id)
        return LaunchRecord(
            number=number,
            stage=stage,
            asked=config,
            config=config,
            started_at=self._context.clock.now(),
            trial=trial,
            why=why,
            folder=f"launches/{number:04d}-{name}",
            slot=slot.index,
            expected=expected,
        )
