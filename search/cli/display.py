"""What a run shows while it runs: plain lines, or the same lines above a live one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from search.analysis.findings import Judgement
from search.app.run import Display, RunEnd
from search.cli.console import console_for
from search.cli.ending import end_of, result_json
from search.cli.guard import say, told
from search.report.lines import launched_line, launching_line, start_lines
from search.storage.records import LaunchRecord
from search.study.events import Ending, Judgements, Launching, RunStart

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def display_for(
    stream: TextIO, *, quiet: bool, as_json: bool = False, environ: Mapping[str, str] = os.environ
) -> Display:
    """The display that fits: only the end when quiet, live on a capable terminal, plain elsewhere.

    Args:
        stream: For what happens while the study runs; its end goes to standard output.
        quiet: Only the end.
        as_json: The end as JSON.
        environ: Says what the terminal can do.
    """
    if quiet:
        return QuietDisplay(as_json=as_json)
    plain = "NO_COLOR" in environ or environ.get("TERM") == "dumb" or not stream.isatty()
    return (PlainDisplay if plain else LiveDisplay)(stream, as_json=as_json)


class QuietDisplay:
    """Shows the end alone."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""

    def noticed(self, line: str) -> None:
        """See `Display`."""

    def remarked(self, line: str) -> None:
        """See `Display`; on standard error, which holds no result."""
        say(told(line), err=True)

    def finished(self, end: RunEnd) -> None:
        """See `Display`."""
        if self._as_json:
            say(result_json(end.content, end.folder, end.ending))
            return
        console = console_for(sys.stdout)
        for part in end_of(end.content, end.folder):
            console.print(part)

    def close(self) -> None:
        """See `Display`."""


class PlainDisplay(QuietDisplay):
    """One line an event, flushed: for logs, pipes and `NO_COLOR`."""

    def __init__(self, stream: TextIO = sys.stdout, *, as_json: bool = False) -> None:
        super().__init__(as_json=as_json)
        self._stream = stream
        self._of: int | None = None
        self._waits = True
        self._gone = False

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        # A launch that takes minutes is announced; a computed one is over before it is read, so only
        # why it was chosen is worth a line.
        self._waits = start.kind == "measured"
        for line in start_lines(start):
            self._say(line)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._of = launch.of
        if self._waits or launch.stage not in ("baseline", "known"):
            self._say(_launching_line(launch))

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        self._say(launched_line(launch, judgements.brief, of=self._of))

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """See `Listener`."""
        self._say(f"ended: {ending.value}")

    def noticed(self, line: str) -> None:
        """See `Display`."""
        self._say(line)

    def _say(self, line: str) -> None:
        if self._gone:
            return
        line = told(line)
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            # Nobody reads any more, but the study is worth finishing: its results are in files.
            self._gone = True


class LiveDisplay(PlainDisplay):
    """The plain lines, and below them what runs now on each slot, and for how long."""

    def __init__(self, stream: TextIO = sys.stdout, *, as_json: bool = False) -> None:
        super().__init__(stream, as_json=as_json)
        self._progress: Progress | None = None
        self._tasks: dict[int, TaskID] = {}

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._of = launch.of
        self._tasks[launch.number] = self._live().add_task(_launching_line(launch), total=None)

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        task = self._tasks.pop(launch.number, None)
        if self._progress and task is not None:
            self._progress.remove_task(task)
        super().launched(launch, judgements)

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        self.close()
        super().ended(ending, judgement)

    def close(self) -> None:
        """See `Display`."""
        if self._progress:
            self._progress.stop()
            self._progress = None
            self._tasks.clear()

    def _live(self) -> Progress:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            self._progress = Progress(*columns, console=Console(file=self._stream), transient=True)
            self._progress.start()
        return self._progress

    def _say(self, line: str) -> None:
        if self._progress is None:
            super()._say(line)
        else:
            self._progress.console.print(told(line), markup=False, highlight=False, soft_wrap=True)


def _launching_line(launch: Launching) -> str:
    """As `launching_line`, with the slot where there are several."""
    return launching_line(launch) + ("" if launch.slot is None else f" on slot {launch.slot}")
