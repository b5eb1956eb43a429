"""What a run shows while it runs: lines, lines above a live board, or events for machines; its end is the same in all."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from search.analysis.findings import Judgement
from search.app.plan import Estimates
from search.app.run import Display, RunEnd
from search.cli.board import Board
from search.cli.console import columns_of, console_for
from search.cli.ending import end_of, result_json
from search.cli.guard import printable, say
from search.report.lines import brief_line, launching_line, start_lines
from search.storage.records import LaunchRecord
from search.study.events import Ending, Judgements, Launching, RunStart, Step

if TYPE_CHECKING:
    from rich.live import Live

_HANGING = 8
"""Columns by which the further lines of one that is wrapped stand in."""


def display_for(
    stream: TextIO, *, quiet: bool, as_json: bool = False, environ: Mapping[str, str] = os.environ
) -> Display:
    """The display that fits: only the end when quiet, events for `--json`, live on a capable terminal, lines elsewhere.

    Args:
        stream: For what happens while the study runs; its end goes to standard output.
        quiet: Only the end.
        as_json: Events as JSON, one a line, and the end as JSON.
        environ: Says what the terminal can do; `NO_COLOR` takes colours alone.
    """
    if quiet:
        return QuietDisplay(as_json=as_json)
    if as_json:
        return EventDisplay(stream)
    plain = environ.get("TERM") == "dumb" or not stream.isatty()
    return (PlainDisplay if plain else LiveDisplay)(stream)


class QuietDisplay:
    """Shows the end alone."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json

    def expecting(self, estimates: Estimates, folder: Path) -> None:
        """See `Display`."""

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""

    def stepped(self, step: Step) -> None:
        """See `Display`."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""

    def noticed(self, line: str) -> None:
        """See `Display`."""

    def remarked(self, line: str) -> None:
        """See `Display`; on standard error, which holds no result."""
        say(printable(line), err=True)

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


class EventDisplay(QuietDisplay):
    """One JSON object a line for each event, on the stream; the result as JSON at the end."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(as_json=True)
        self._stream = stream

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        self._tell(
            "started", study=start.study, kind=start.kind, configs=start.valid, launches=start.budget_launches,
            already=start.already,
        )  # fmt: skip

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._tell(
            "launching", launch=launch.number, of=launch.of, stage=launch.stage, config_id=launch.config.config_id,
            why=launch.why, slot=launch.slot,
        )  # fmt: skip

    def stepped(self, step: Step) -> None:
        """See `Display`."""
        phase = {} if step.what == "ready" else {"concurrency": step.concurrency, "repeat": step.repeat}
        rate = {} if step.rate is None else {"output_tps": round(step.rate, 3)}
        name = "ready" if step.what == "ready" else f"phase {step.what}"
        self._tell(name, launch=step.launch, **phase, **rate)

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        self._tell(
            "launched", launch=launch.number, config_id=launch.config.config_id,
            outcome=launch.outcome.value if launch.outcome else None,
            reason=launch.reason.value if launch.reason else None,
            duration_s=None if launch.duration_s is None else round(launch.duration_s, 1),
            line=brief_line(launch, judgements.brief),
        )  # fmt: skip

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """See `Listener`."""
        self._tell("ended", ending=ending.value)

    def noticed(self, line: str) -> None:
        """See `Display`."""
        self._tell("notice", line=line)

    def remarked(self, line: str) -> None:
        """See `Display`."""
        self._tell("remark", line=line)

    def _tell(self, event: str, **values: object) -> None:
        try:
            self._stream.write(printable(json.dumps({"event": event} | values)) + "\n")
            self._stream.flush()
        except BrokenPipeError:
            pass  # nobody reads any more; the study goes on


class PlainDisplay(QuietDisplay):
    """One line an event, flushed and wrapped at words: for logs and pipes."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        super().__init__()
        self._stream = stream
        self._of: int | None = None
        self._waits = True
        self._gone = False

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        # A launch that takes minutes is announced; a computed one is over before it is read.
        self._waits = start.kind == "measured"
        for line in start_lines(start):
            self._say(line)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._of = launch.of
        if self._waits:
            self._say(_launching_line(launch))

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        self._say(brief_line(launch, judgements.brief, of=self._of))

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """See `Listener`."""
        self._say(f"ended: {ending.value}")

    def noticed(self, line: str) -> None:
        """See `Display`."""
        self._say(line)

    def _say(self, line: str) -> None:
        if self._gone:
            return
        try:
            for part in wrapped(printable(line), columns_of(self._stream)):
                self._stream.write(part + "\n")
            self._stream.flush()
        except BrokenPipeError:
            # Nobody reads any more, but the study is worth finishing: its results are in files.
            self._gone = True


class LiveDisplay(PlainDisplay):
    """The same lines, and below them a board of what runs now."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        super().__init__(stream)
        self._board = Board(time.monotonic)
        self._live: Live | None = None

    def expecting(self, estimates: Estimates, folder: Path) -> None:
        """See `Display`."""
        self._board.expecting(estimates, folder)

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        super().started(start)
        self._board.started(start)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._of = launch.of
        self._board.launching(launch)
        if self._live is None:
            from rich.live import Live

            console = console_for(self._stream)
            self._live = Live(
                get_renderable=lambda: self._board.draw(console.width),
                console=console,
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()

    def stepped(self, step: Step) -> None:
        """See `Display`."""
        self._board.stepped(step)

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        self._board.launched(launch, judgements)
        super().launched(launch, judgements)

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        self.close()
        super().ended(ending, judgement)

    def close(self) -> None:
        """See `Display`."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, line: str) -> None:
        if self._live is None:
            super()._say(line)
        else:
            for part in wrapped(printable(line), columns_of(self._stream)):
                self._live.console.print(part, soft_wrap=True)


def wrapped(line: str, width: int) -> list[str]:
    """A line in parts of at most `width` columns, broken at words; further parts stand in."""
    if len(line) <= width:
        return [line]
    return textwrap.wrap(
        line, width, subsequent_indent=" " * _HANGING, break_long_words=False, break_on_hyphens=False,
        drop_whitespace=True,
    )  # fmt: skip


def _launching_line(launch: Launching) -> str:
    """As `launching_line`, with the slot where there are several."""
    return launching_line(launch) + ("" if launch.slot is None else f" on slot {launch.slot}")
