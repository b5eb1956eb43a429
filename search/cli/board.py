"""What runs now, as a few lines at the foot of a terminal: study, launches, phases, rates, time left, front so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from search.app.glance import rate_now
from search.app.plan import Estimates
from search.config import SpecConfig
from search.metrics import number
from search.report.text import KIND_LABELS, duration
from search.storage.records import LaunchRecord
from search.study.events import Judgements, Launching, RunStart, Step

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_FRONT_SHOWN = 4
_FRONT_EVERY_S = 5.0
"""Judging everything grows with the study: the front is worked out no more often than so."""
_GLANCE_EVERY_S = 1.0
_BAR = 18
_BARS_FROM = 90
"""Columns below which words need the room of the bars."""
_SAID = 39
"""Columns of the longest usual words behind a name: `10/40  15m26s left  11m43s of 12.5h spent`."""


@dataclass(slots=True)
class _Running:
    """A launch under way."""

    launch: Launching
    began: float
    expected_s: float | None
    ready: bool = False
    phase: Step | None = None
    phase_began: float = 0.0
    phase_s: float | None = None
    rate: float | None = None
    glanced: float = 0.0


class Board:
    """Keeps what is reported of a run and draws it. Called from several threads, drawn from another.

    Args:
        now: Seconds, monotonic.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._start: RunStart | None = None
        self._running: dict[int, _Running] = {}
        self._done: list[LaunchRecord] = []
        self._rates: dict[int, float] = {}
        self._front = ""
        self._front_at: float | None = None
        self._estimates: Estimates | None = None
        self._folder = Path()
        self._of = 0
        self._miss = 1.0
        """How much longer launches took than was expected."""

    def expecting(self, estimates: Estimates, folder: Path) -> None:
        """See `Display`."""
        self._estimates, self._folder = estimates, folder

    def started(self, start: RunStart) -> None:
        """See `Listener`."""
        self._start, self._of = start, start.budget_launches

    def launching(self, launch: Launching) -> None:
        """See `Listener`."""
        with self._lock:
            self._of = launch.of
            self._running[launch.number] = _Running(launch, self._now(), self._launch_s(launch.config))

    def stepped(self, step: Step) -> None:
        """See `Display`."""
        with self._lock:
            running = self._running.get(step.launch)
            if running is None:
                return
            if step.what == "ready":
                running.ready = True
            elif step.what == "begins":
                running.phase, running.phase_began, running.rate = step, self._now(), None
                rate = self._rates.get(step.concurrency) or self._rate(running.launch.config, step.concurrency)
                running.phase_s = step.tokens / rate if rate else None
            elif step.rate is not None:
                running.rate = self._rates[step.concurrency] = step.rate

    def launched(self, launch: LaunchRecord, judgements: Judgements) -> None:
        """See `Listener`."""
        with self._lock:
            ended = self._running.pop(launch.number, None)
            self._done.append(launch)
            if ended is not None and ended.expected_s and launch.duration_s and launch.reason is None:
                self._miss = launch.duration_s / (ended.expected_s / self._miss)
        if self._front_at is None or self._now() - self._front_at >= _FRONT_EVERY_S:
            self._front = _front(judgements)
            self._front_at = self._now()

    def draw(self, width: int = 100) -> RenderableType:
        """The lines, as of now; without bars where the terminal has fewer than `_BARS_FROM` columns."""
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            rows = _Rows(width)
            self._study(rows)
            for running in self._running.values():
                self._launch(rows, running)
        parts: list[RenderableType] = [rows.grid]
        if self._front:
            parts.append(Text.assemble(("front so far  ", "dim"), self._front, overflow="ellipsis", no_wrap=True))
        return Group(*parts)

    def _study(self, rows: _Rows) -> None:
        from rich.progress_bar import ProgressBar

        start = self._start
        if start is None:
            return
        spent = sum(launch.duration_s or 0.0 for launch in self._done)
        spent += sum(self._now() - running.began for running in self._running.values())
        of, done = self._of, start.already + len(self._done)
        hours = f" of {self._estimates.hours:g}h" if self._estimates else ""
        left = self._study_left_s(of - done)
        rows.add(
            start.study + (f" {KIND_LABELS[start.kind]}" if KIND_LABELS[start.kind] else ""),
            ProgressBar(total=max(of, 1), completed=done, width=_BAR),
            f"{done}/{of}{' launches' if rows.has_bars else ''}"
            + ("" if left is None else f"  {duration(left)} left")
            + f"  {duration(spent)}{hours} spent",
        )

    def _launch(self, rows: _Rows, running: _Running) -> None:
        from rich.progress_bar import ProgressBar

        launch, passed = running.launch, self._now() - running.began
        slot = "" if launch.slot is None else f" on slot {launch.slot}"
        left = "" if running.expected_s is None else f"  {_left(running.expected_s - passed)}"
        rows.add(
            f"[{launch.number}/{launch.of}] {f'{launch.stage} ' if rows.has_bars else ''}{launch.config}{slot}",
            ProgressBar(total=running.expected_s, completed=passed, width=_BAR, pulse=running.expected_s is None),
            f"{'measuring' if running.ready else 'starting'}  {duration(passed)}{left}",
        )
        phase = running.phase
        if not running.ready or phase is None:
            return
        passed = self._now() - running.phase_began
        rate = self._glance(running)
        rate_text = "" if rate is None else f"{number(rate)} tok/s  "
        left = "" if running.phase_s is None else _left(running.phase_s - passed)
        rows.add(
            f"    C={phase.concurrency} repeat {phase.repeat}" if phase.repeat else "    probe",
            ProgressBar(total=running.phase_s, completed=passed, width=_BAR, pulse=running.phase_s is None),
            f"{rate_text}{left}",
        )

    def _glance(self, running: _Running) -> float | None:
        """The rate of the phase: what its end reported, else what the server's log says now."""
        if self._now() - running.glanced >= _GLANCE_EVERY_S:
            running.glanced = self._now()
            running.rate = rate_now(self._folder, running.launch.number) or running.rate
        return running.rate

    def _launch_s(self, config: SpecConfig) -> float | None:
        if self._estimates is None:
            return None
        return self._estimates.launch_s(config) * self._miss

    def _rate(self, config: SpecConfig, load: int) -> float | None:
        return None if self._estimates is None else self._estimates.rate(config, load)

    def _study_left_s(self, launches: int) -> float | None:
        """By the launches so far, or the cost model before the first; no more than the budget's hours leave."""
        durations = [launch.duration_s for launch in self._done if launch.duration_s]
        if self._estimates is None:
            return None
        hours_left = max(0.0, self._estimates.hours * 3600 - sum(durations))
        if durations:
            return min(launches * fmean(durations), hours_left)
        first = next(iter(self._running.values()), None)
        return None if first is None or first.expected_s is None else min(launches * first.expected_s, hours_left)


class _Rows:
    """Rows of what, how far and how long, as wide as the terminal: `has_bars` where that leaves room for them.

    Args:
        width: In columns.
    """

    def __init__(self, width: int) -> None:
        from rich.table import Table

        self.grid: Table = Table.grid(padding=(0, 2, 0, 0))
        self.has_bars = width >= _BARS_FROM
        # What is said last is the time left and the spend: a long name gives way to them.
        said = _SAID + (len(" launches") + _BAR + 2 if self.has_bars else 0)
        self.grid.add_column(no_wrap=True, overflow="ellipsis", max_width=min(46, max(12, width - said)))
        if self.has_bars:
            self.grid.add_column(width=_BAR)
        self.grid.add_column(no_wrap=True, overflow="ellipsis")

    def add(self, what: str, bar: RenderableType, said: str) -> None:
        """One more row."""
        self.grid.add_row(what, *((bar,) if self.has_bars else ()), said)


def _left(seconds: float) -> str:
    return f"{duration(seconds)} left" if seconds > 0 else "longer than expected"


def _front(judgements: Judgements) -> str:
    """Configs of the front with their rates, best at the first objective first."""
    front = judgements.whole.front
    parts = [
        f"{result.config} {' / '.join(number(at.rate.value) for _, at in sorted(result.loads.items())[:4])}"
        for result in front[:_FRONT_SHOWN]
    ]
    more = f" and {len(front) - _FRONT_SHOWN} more" if len(front) > _FRONT_SHOWN else ""
    return ",  ".join(parts) + more
