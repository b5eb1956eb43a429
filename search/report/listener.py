"""Keeps a report's files fresh while a study runs."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from search.analysis.findings import Judgement
from search.contracts import Clock
from search.errors import StorageFault
from search.masking import Masker
from search.report.content import ReportContent
from search.report.files import FILE_MODE, write_page, write_tables
from search.report.lines import launched_line, launching_line, start_lines
from search.report.text import one_line
from search.storage.records import LaunchRecord
from search.study.events import Ending, Judgements, Launching, RunStart

PAGE_EVERY_S = 30.0
_log = logging.getLogger(__name__)


class ReportListener:
    """Renews tables after every launch, the page at most twice a minute, and both at the end.

    Args:
        folder: `reports/<study>`.
        content: Builds the content for a judgement, from what is stored by then.
        clock: Real time, also in simulation: the page's price is paid in real seconds.
    """

    def __init__(self, folder: Path, content: Callable[[Judgement], ReportContent], clock: Clock) -> None:
        self._folder = folder
        self._content = content
        self._clock = clock
        self._page_at: float | None = None

    def started(self, start: RunStart) -> None:
        """See `Listener`."""

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:  # noqa: ARG002
        """See `Listener`."""
        due = self._page_at is None or self._clock.monotonic() - self._page_at >= PAGE_EVERY_S
        self._write(judgements.whole, page=due)
        if due:
            self._page_at = self._clock.monotonic()

    def ended(self, ending: Ending, judgement: Judgement) -> None:  # noqa: ARG002
        """See `Listener`."""
        self._write(judgement, page=True)

    def _write(self, judgement: Judgement, *, page: bool) -> None:
        """Write what is due; no fault of a report may end a study whose measurements are in the database."""
        try:
            content = self._content(judgement)
            write_tables(self._folder, content)
            if page:
                write_page(self._folder, content)
        except OSError as error:
            _log.warning("the report could not be written, and `search report` will rebuild it: %s", error)
        except StorageFault:
            raise
        except Exception:  # noqa: BLE001
            _log.exception("the report could not be made; the study goes on, and its measurements are in the database")


class RunLog:
    """Appends every line of a run to `run.log`, with the time of the study's own clock.

    Args:
        path: Of the log.
        clock: The study's.
        masker: Knows the study's secrets; without it they are known by their look alone.
        words: The lines that the log ends with; the headlines without it.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        masker: Masker | None = None,
        words: Callable[[Judgement], Iterable[str]] = lambda judgement: judgement.headlines,
    ) -> None:
        self._path = path
        self._clock = clock
        self._masker = masker or Masker()
        self._words = words
        self._of: int | None = None

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        for line in start_lines(start):
            self._write(line)

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        self._of = launch.of
        self._write(launching_line(launch))

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        self._write(launched_line(launch, judgements.brief, of=self._of))

    def ended(self, ending: Ending, judgement: Judgement) -> None:
        """See `Listener`."""
        for line in (f"ended: {ending.value}", *self._words(judgement)):
            self._write(line)

    def noticed(self, line: str) -> None:
        """Something that is no launch, such as a slot that rests."""
        self._write(line)

    def _write(self, line: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a", encoding="utf-8", errors="backslashreplace", opener=_plain_file) as stream:
                stream.write(f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ} {self._masker.own_text(one_line(line))}\n")
        except OSError as error:
            _log.warning("%s could not be written: %s", self._path, error)


def _plain_file(path: str, flags: int) -> int:
    """Open a file of ours, never a pipe, which may wait for ever, nor what a link leads to."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is no plain file")
    return handle
