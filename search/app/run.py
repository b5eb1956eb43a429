"""The main job: runs an assembled study, its report files renewed on the way."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, ParamSpec, Protocol, TypeAlias

from search.analysis.findings import Judgement
from search.app.assemble import assemble
from search.app.assembly import Assembly
from search.app.command_line import command_line
from search.app.escalation import foreseen, second_phase
from search.app.options import RunOptions
from search.app.plan import Estimates, estimates_of
from search.app.report_content import ContentBuilder
from search.app.stored import spec_of
from search.contracts import Clock, RealClock
from search.errors import SearchError
from search.report.content import ReportContent
from search.report.decision import decide
from search.report.files import write_report
from search.report.listener import ReportListener, RunLog
from search.spec.stored import masker_of
from search.storage.optuna_side import optuna_session
from search.storage.patience import Patience
from search.storage.records import LaunchRecord
from search.storage.store import Store
from search.storage.urls import storage_url
from search.study.context import Overrides, StudyContext, Watch
from search.study.events import Ending, Judgements, Launching, Listener, RunStart, Step
from search.study.outputs import prepare
from search.study.resume import accept_changes
from search.study.runner import run_study
from search.study.signals import Interrupts

_P = ParamSpec("_P")
_log = logging.getLogger(__name__)

Shows: TypeAlias = Literal["always", "when cut", "never"]
"""When a phase shows its own end."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """What a run leaves: the report's content, its folder, and why the run ended (None where it broke off)."""

    content: ReportContent
    folder: Path
    ending: Ending | None


class Display(Listener, Protocol):
    """Whoever watches a run: a listener that also gets what is no launch, and the end."""

    def noticed(self, line: str) -> None:
        """Show what is no launch, such as a quarantined slot."""
        ...

    def remarked(self, line: str) -> None:
        """Show what the user should know whatever was asked to be shown; before the first launch."""
        ...

    def finished(self, end: RunEnd) -> None:
        """Show the result; the last call of a run that had one, also when it was cut short."""
        ...

    def expecting(self, estimates: Estimates, folder: Path) -> None:
        """Learn what launches may take and where their logs are, before the first one."""
        ...

    def stepped(self, step: Step) -> None:
        """Show what happens inside a launch; from the launch's own thread."""
        ...

    def close(self) -> None:
        """Give the terminal back, whatever happened. Safe to call twice."""
        ...


def run(options: RunOptions, displays: Callable[[], Display], interrupts: Interrupts) -> None:
    """Run or resume a study, and its second phase where that is due.

    Args:
        options: The command line.
        displays: Makes what watches, once for each phase; the first is shown the end of both, also when it was cut short.
        interrupts: A press ends the run in order.

    Raises:
        SearchError: See `assemble` and `run_study`; of a second phase once the end was shown.
    """
    display = displays()
    parts = assemble(options)
    second = parts.spec.escalation is not None and parts.kind != "replay"
    for line in (*parts.remarks, *foreseen(options, parts)):
        display.remarked(line)
    end = _run(options, parts, display, interrupts, shows="when cut" if second else "always")
    if not second:
        return
    try:
        if end.is_due and end.ending is not None:
            _escalate(second_phase(options), displays(), interrupts)
    finally:
        with Store(options.storage, read_only=True) as store:
            if (judgement := end.judgement) is not None:
                content = end.again(store).content(judgement)
                write_report(parts.folder, content)
                display.finished(RunEnd(content, parts.folder, end.ending))


def _escalate(options: RunOptions, display: Display, interrupts: Interrupts) -> None:
    """Run or resume the second phase."""
    parts = assemble(options)
    display.noticed(f"the escalation begins: {parts.name}, on SGLang {parts.spec.engine.release}")
    for line in parts.remarks:
        display.remarked(line)
    _run(options, parts, display, interrupts, shows="never")


def _run(options: RunOptions, parts: Assembly, display: Display, interrupts: Interrupts, *, shows: Shows) -> _End:
    """One phase; the end is shown here `when cut` where a second phase may follow."""
    storage_url(options.storage)
    prepare(parts.folder)
    # The GPUs first: a cluster without them must not leave a database behind.
    with (
        interrupts.held(),
        parts.open_executor() as executor,
        patient_store(options.storage, interrupts) as store,
        optuna_session(options.storage, patience=Patience(store.url, sleep=interrupts.sleep)) as storage,
    ):
        interrupts.check()  # opening takes seconds on a busy machine, and nothing is running yet
        end = _End(store, parts)
        masker = masker_of(parts.spec.engine, inherited=os.environ)
        log = RunLog(
            parts.folder / "run.log", parts.clock, masker, words=lambda shown: decide(end.content(shown)).lines
        )

        def notice(line: str) -> None:
            line = masker.own_text(line)
            unhurt(display.noticed, line)
            unhurt(log.noticed, line)

        def stepped(step: Step) -> None:
            unhurt(display.stepped, step)

        display.expecting(estimates_of(parts.spec, hours=options.hours), parts.folder)
        page = Paced(ReportListener(parts.folder, end.content, RealClock()), RealClock())
        if options.accept_changes:
            for line in accept_changes(parts.name, parts.fingerprint, store=store, clock=RealClock()):
                display.remarked(f"accepted: {line}")
        went = False
        try:
            run_study(
                study_context(parts, resume_command=command_line(options)),
                executor=executor,
                store=store,
                storage=storage,
                watch=Watch(Fanout(display, log, page, end), notice, stepped),
                overrides=Overrides(
                    launches=options.launches, hours=options.hours, seed=options.seed, sampler=options.sampler
                ),
                interrupts=interrupts,
            )
            went = True
        finally:
            display.close()
            if end.judgement is not None:
                end.is_due = (shown := end.content(end.judgement).escalation) is not None and shown.state != "not due"
                if shows == "always" or (shows == "when cut" and not went):
                    display.finished(RunEnd(end.content(end.judgement), parts.folder, end.ending))
    return end


def study_context(parts: Assembly, *, resume_command: str = "") -> StudyContext:
    """An assembled study as the loop takes it."""
    return StudyContext(
        spec=parts.spec,
        name=parts.name,
        kind=parts.kind,
        space=parts.space,
        fingerprint=parts.fingerprint,
        clock=parts.clock,
        reports=parts.folder,
        resume_command=resume_command,
        recorded=parts.recorded,
        sharing=parts.sharing,
    )


def patient_store(storage: str, interrupts: Interrupts) -> Store:
    """Our tables, whose waits for a locked database end soon after an interrupt."""
    return Store(storage, patience=Patience(storage_url(storage), sleep=interrupts.sleep))


class Paced:
    """Passes the ends of launches on as far as that takes a small share of the time; what begins and ends, always.

    A report is written anew as a whole, so its cost grows with the study, and computed launches come by the dozen
    a second. Between real launches lie minutes: all of them are passed on.

    Args:
        listener: What gets the events, such as a report.
        clock: Real time, also in simulation.
        share: Of the time that may be spent.
    """

    def __init__(self, listener: Listener, clock: Clock, *, share: float = 0.05) -> None:
        self._listener = listener
        self._clock = clock
        self._share = share
        self._next_at = 0.0

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        self._listener.started(start)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._listener.launching(launch)

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        began = self._clock.monotonic()
        if began < self._next_at:
            return
        self._listener.launched(launch, judgements)
        ended = self._clock.monotonic()
        self._next_at = ended + (ended - began) / self._share

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        self._listener.ended(ending, judgement)


class Fanout:
    """Passes events on to several listeners, in order.

    What a listener does wrong is reported with its traceback and goes no further: a study is not ended by what shows it.
    A fault of the database does, and so does Ctrl-C.
    """

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            unhurt(listener.started, start)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            unhurt(listener.launching, launch)

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            unhurt(listener.launched, launch, judgements)

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            unhurt(listener.ended, ending, judgement)


def unhurt(show: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
    """Call what shows something of a study to people, and report what goes wrong in it.

    Raises:
        SearchError: Of the database, or because the user wants an end; these are no fault of showing.
    """
    try:
        show(*args, **kwargs)
    except SearchError:
        raise
    except Exception:  # noqa: BLE001
        _log.exception("something could not be shown; the study goes on, and its measurements are in the database")


class _End:
    """Remembers how the run ended, and builds report contents from what is stored."""

    def __init__(self, store: Store, parts: Assembly) -> None:
        self._store = store
        self._parts = parts
        self._builder: ContentBuilder | None = None
        self.is_due = False
        self.ending: Ending | None = None
        self.judgement: Judgement | None = None

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        self.ending, self.judgement = ending, judgement

    def again(self, store: Store) -> _End:
        """The same end, told from a store that was opened later."""
        return _End(store, self._parts)

    def content(self, judgement: Judgement) -> ReportContent:
        """The report as of now, from the database: what `search report` would rebuild."""
        if self._builder is None:
            study = self._store.study(self._parts.name)
            assert study is not None, "the loop stores the study before its first event"
            # As it is stored: without its secrets.
            self._builder = ContentBuilder(spec_of(study), study, self._store)
        return self._builder.content(self._store.launches(self._parts.name), judgement)
