"""Sessions for measurements: a fresh start, or a switch of the server that a slot has running."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from search.cluster import Executor
from search.config import SpecConfig
from search.contracts import Clock, LaunchPaths, Session, Slot
from search.errors import LaunchFailed
from search.outcomes import Evidence, Reason
from search.shape import SwitchFailed, SwitchRefused
from search.storage.records import LaunchRecord
from search.study.course import Course
from search.study.starts import OpenStart, Starts

_log = logging.getLogger(__name__)


class Sessions:
    """Gives each measurement a session that runs its config, and proves the end of every server.

    Args:
        executor: Gives the engines.
        starts: Servers between two measurements.
    """

    def __init__(self, executor: Executor, starts: Starts) -> None:
        self._executor, self._starts = executor, starts
        self._to_hold: dict[int, tuple[SpecConfig, ...]] = {}

    def placed(self, record: LaunchRecord, holds: tuple[SpecConfig, ...]) -> LaunchRecord:
        """The record with its place: in the open start of its slot, first in a start for several, or in one of its own.

        Args:
            record: About to be launched.
            holds: What else a fresh start for it is to hold; empty for a start of its own, whatever is open.
        """
        if not holds:
            return record
        found = self._starts.serving(record.slot, record.asked, record.stage)
        if found is not None:
            return replace(record, start=found.number, place=found.places)
        self._to_hold[record.number] = holds
        return replace(record, start=record.number)

    @contextmanager
    def of(self, record: LaunchRecord, slot: Slot, paths: LaunchPaths, course: Course) -> Iterator[Session]:
        """A session that runs the config; its end is proven whatever happens, or it is kept for the next config.

        Args:
            record: From `placed`.
            slot: Where.
            paths: Of its files.
            course: Filled in.
        """
        start = self._switched(record, slot, paths, course) or self._launched(record, slot, paths, course)
        kept = False
        try:
            yield start.session
            kept = bool(start.session.holds) and self._starts.shares
        finally:
            if kept:
                self._starts.keep(slot.index, replace(start, places=start.places + 1))
            else:
                self._close(start.session, course)

    def _launched(self, record: LaunchRecord, slot: Slot, paths: LaunchPaths, course: Course) -> OpenStart:
        """A fresh start, after the open one of the slot is gone."""
        self._close_open(slot.index, course)
        if course.leftovers:
            line = f"the server before it left something behind: {'; '.join(course.leftovers)}"
            raise LaunchFailed(Reason.HOST_BUSY, Evidence(line))
        holds = (
            self._starts.beside(record.asked, record.stage) if record.start is not None and not course.refused else ()
        )
        session = self._executor.engine(slot).launch(record.asked, slot=slot, paths=paths, holds=holds)
        course.boot_s, course.effective = session.boot_s, session.effective
        course.clock.spend(session.boot_s)
        return OpenStart(session, record.number, 0, record.asked)

    def _switched(self, record: LaunchRecord, slot: Slot, paths: LaunchPaths, course: Course) -> OpenStart | None:
        """The open start of the slot, switched to the config; None where it needs a start of its own.

        Raises:
            LaunchFailed: The switch failed. Where the start is as good as before, it is kept.
        """
        if not record.place or (found := self._starts.take(slot.index)) is None:
            return None
        if found.number != record.start:  # it was closed and another one begun since the record was planned
            self._starts.keep(slot.index, found)
            course.refused = True
            return None
        try:
            switched = found.session.switch(record.asked, paths=paths)
        except SwitchRefused as refused:
            _log.info("launch %d has a start of its own: %s", record.number, refused.reason)
            self._starts.keep(slot.index, found)
            course.refused = True
            return None
        except SwitchFailed as failed:
            if failed.usable:
                self._starts.keep(slot.index, replace(found, places=found.places + 1))
            else:
                self._close(found.session, course)
            evidence = failed.evidence or Evidence(failed.reason)
            raise LaunchFailed(failed.cause or Reason.TOOL_ERROR, evidence) from failed
        except BaseException:
            self._close(found.session, course)
            raise
        course.switch_s, course.effective = switched.seconds, found.session.effective
        course.clock.spend(switched.seconds)
        return found

    def close_all(self, clock: Clock) -> tuple[str, ...]:
        """Stop the servers that are kept running; what they left behind, one line each.

        Args:
            clock: Told what the stops of played servers would have taken.
        """
        leftovers: list[str] = []
        for slot in self._starts.slots():
            course = Course(clock)
            try:
                self._close_open(slot, course)
            except Exception as error:  # noqa: BLE001 - the other servers are to be stopped all the same
                _log.warning("the server on slot %d could not be stopped", slot, exc_info=True)
                course.leftovers = course.leftovers or (f"{type(error).__name__}: {error}",)
            leftovers += [f"slot {slot}: {line}" for line in course.leftovers]
        return tuple(leftovers)

    def _close_open(self, slot: int, course: Course) -> None:
        if (found := self._starts.take(slot)) is not None:
            self._close(found.session, course)

    def _close(self, session: Session, course: Course) -> None:
        """Stop a server and prove it."""
        try:
            report = session.close()
        except LaunchFailed:
            # The worker is gone, and whoever lends its GPUs next waits for its server to be gone too.
            raise
        except Exception as error:
            course.leftovers = (f"the stop could not be proven: {type(error).__name__}: {error}",)
            raise
        course.clock.spend(report.duration_s)
        if not report.clean:
            course.leftovers = report.leftovers or ("the stop was not clean, and nothing says why",)
