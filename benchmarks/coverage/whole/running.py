"""Many studies over processes, within a number of seconds."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from time import monotonic

from benchmarks.coverage.whole.claims import Claims
from benchmarks.coverage.whole.studies import study_of
from benchmarks.coverage.whole.worlds import Row
from benchmarks.processes import one_thread_each

Task = tuple[Row, int]
"""A row and the number of a study."""
_AHEAD = 2
"""Tasks handed out per process: what is handed out is done, also past the seconds."""


def run(tasks: Sequence[Task], *, processes: int, seconds: float | None = None) -> Iterator[tuple[Task, Claims]]:
    """Studies as they end, in no order; those that are not begun within `seconds` are left out.

    Args:
        tasks: In the order in which they are begun.
        processes: Side by side, each with one thread for linear algebra: its matrices are too small for more.
        seconds: From now; None until all are done.
    """
    ends = None if seconds is None else monotonic() + seconds
    waiting = iter(tasks)
    if processes == 1:
        for task in waiting:
            if ends is not None and monotonic() >= ends:
                return
            yield task, study_of(*task)
        return
    context = multiprocessing.get_context("spawn")
    with one_thread_each(), ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        running: dict[Future[Claims], Task] = {}
        while True:
            late = ends is not None and monotonic() >= ends
            free = 0 if late else _AHEAD * processes - len(running)
            running |= {pool.submit(study_of, *task): task for task in islice(waiting, free)}
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


def _begin() -> None:
    """Of a process: what is loaded stays, so the collector need not walk through it for every study."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
