"""Runs an assembled study and prints its end; everything heavy is imported by now."""

from __future__ import annotations

from contextlib import closing
from typing import TextIO

from search.cli.assemble import Assembly, assemble, command_line
from search.cli.contents import ContentBuilder
from search.cli.display import display_for
from search.cli.ending import end_lines, result_json
from search.cli.guard import say
from search.cli.options import RunOptions
from search.contracts import RealClock
from search.report import ReportContent, ReportListener, RunLog
from search.storage import LaunchRecord, Store, optuna_storage, storage_url
from search.study.events import Ending, Launching, Listener, RunStart
from search.study.judgement import Judgement
from search.study.loop import run_study
from search.study.resume import accept_changes


def run_assembled(options: RunOptions, *, out: TextIO, as_json: bool, quiet: bool) -> None:
    """Run or resume a study; its end is printed also when it was cut short.

    Raises:
        SearchError: See `assemble` and `run_study`.
    """
    parts = assemble(options)
    storage_url(options.storage)
    # The GPUs first: a cluster without them must not leave a database behind.
    with (
        parts.open_executor() as executor,
        Store(options.storage) as store,
        closing(display_for(out, quiet=quiet)) as display,
    ):
        end = _End(store, parts)
        log = RunLog(parts.folder / "run.log", parts.clock)

        def notice(line: str) -> None:
            display.noticed(line)
            log.noticed(line)

        page = ReportListener(parts.folder, end.content, RealClock())
        if options.accept_changes:
            for line in accept_changes(parts.name, parts.fingerprint, store=store, clock=RealClock()):
                say(f"accepted: {line}", err=as_json)
        try:
            run_study(
                parts.spec,
                name=parts.name,
                kind=parts.kind,
                space=parts.space,
                fingerprint=parts.fingerprint,
                executor=executor,
                store=store,
                storage=optuna_storage(options.storage),
                listener=Fanout(display, log, page, end),
                clock=parts.clock,
                reports=parts.folder,
                resume_command=command_line(options),
                launches=options.launches,
                hours=options.hours,
                seed=options.seed,
                sampler=options.sampler,
                notice=notice,
                recorded=parts.recorded,
            )
        finally:
            display.close()
            if end.judgement is not None:
                _print_end(end.content(end.judgement), parts, end.ending, as_json=as_json)


def _print_end(content: ReportContent, parts: Assembly, ending: Ending | None, *, as_json: bool) -> None:
    if as_json:
        say(result_json(content, parts.folder, ending))
        return
    for line in end_lines(content, parts.folder):
        say(line)


class Fanout:
    """Tells several listeners, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            listener.started(start)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            listener.launching(launch)

    def launched(self, launch: LaunchRecord, judgement: Judgement) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            listener.launched(launch, judgement)

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        for listener in self._listeners:
            listener.ended(ending, judgement)


class _End:
    """Remembers how the run ended, and builds report contents from what is stored."""

    def __init__(self, store: Store, parts: Assembly) -> None:
        self._store = store
        self._parts = parts
        self._builder: ContentBuilder | None = None
        self.ending: Ending | None = None
        self.judgement: Judgement | None = None

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""

    def launched(self, launch: LaunchRecord, judgement: Judgement) -> None:
        """See `Listener`."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        self.ending, self.judgement = ending, judgement

    def content(self, judgement: Judgement) -> ReportContent:
        """The report as of now, from the database: what `search report` would rebuild."""
        if self._builder is None:
            study = self._store.study(self._parts.name)
            assert study is not None, "the loop stores the study before its first event"
            self._builder = ContentBuilder(self._parts.spec, study)
        return self._builder.content(self._store.launches(self._parts.name), judgement)
