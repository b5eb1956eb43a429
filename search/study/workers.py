"""Who carries out launches: this thread, one after the other, or one worker thread per slot."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from search.cluster import Executor
from search.contracts import Clock, Slot, VirtualClock
from search.study.launch import Launched

Work = Callable[[Clock], Launched]
"""One launch, given the clock of its slot; a fault of the study, such as its database, is raised."""


@dataclass(frozen=True, slots=True)
class Landed:
    """A launch that ended: its slot, and what came of it or what it raised."""

    slot: Slot
    launched: Launched | None
    error: BaseException | None = None


class Crew(Protocol):
    """Carries out launches on slots and hands them back in the order of their ends."""

    @property
    def busy(self) -> frozenset[int]:
        """Indices of the slots whose launch has not been handed back."""
        ...

    @property
    def interrupted(self) -> bool:
        """Whether a launch has met Ctrl-C: nothing more should be started."""
        ...

    def start(self, slot: Slot, work: Work) -> None:
        """Begin a launch on an idle slot."""
        ...

    def wait(self) -> Landed:
        """Wait for the next end; some slot must be busy."""
        ...

    def stop(self) -> None:
        """Make all launches end soon; each is still handed back by `wait`."""
        ...


def crew_for(executor: Executor, clock: Clock) -> Crew:
    """Threads where several real servers run side by side; else everything in the caller's own thread."""
    if isinstance(clock, VirtualClock) or len(executor.slots) == 1:
        return InlineCrew(clock, lanes=len(executor.slots))
    return ThreadCrew(executor, clock)


class InlineCrew:
    """Launches in the caller's thread, at once; several slots then live in virtual time.

    Each launch of several lanes runs on a clock of its own from the moment it was started, and
    they are handed back in the order of their virtual ends. So a simulated study over four slots
    comes out the same every time, and its clock tells what the real one would.
    """

    def __init__(self, clock: Clock, *, lanes: int = 1) -> None:
        self._clock = clock
        self._forks = lanes > 1
        self._ended: list[tuple[float, int, Landed]] = []
        self._started = 0
        self._interrupted = False

    @property
    def busy(self) -> frozenset[int]:
        """See `Crew`."""
        return frozenset(landed.slot.index for _, _, landed in self._ended)

    @property
    def interrupted(self) -> bool:
        """See `Crew`."""
        return self._interrupted

    def start(self, slot: Slot, work: Work) -> None:
        """See `Crew`; what the work raises comes out here."""
        began = self._clock.monotonic()
        lane = VirtualClock(self._clock.now()) if self._forks else self._clock
        launched = work(lane)
        end = began + lane.monotonic() if self._forks else self._clock.monotonic()
        if launched.interrupted:
            # Now, in real time: whatever else is under way in virtual time comes after it.
            self._interrupted, end = True, began
        self._started += 1
        heapq.heappush(self._ended, (end, self._started, Landed(slot, launched)))

    def wait(self) -> Landed:
        """See `Crew`; moves the study's clock to the end of that launch."""
        end, _, landed = heapq.heappop(self._ended)
        if self._forks:
            self._clock.spend(max(0.0, end - self._clock.monotonic()))
        return landed

    def stop(self) -> None:
        """See `Crew`: all have ended already."""


class ThreadCrew:
    """One thread per running launch; they are handed back through a queue, in the order of their ends.

    Args:
        executor: Told to abort what runs when the crew must stop.
        clock: Real; shared, because reading it is all that is done with it.
    """

    def __init__(self, executor: Executor, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock
        self._ended: queue.SimpleQueue[Landed] = queue.SimpleQueue()
        self._busy: dict[int, Slot] = {}

    @property
    def busy(self) -> frozenset[int]:
        """See `Crew`."""
        return frozenset(self._busy)

    @property
    def interrupted(self) -> bool:
        """See `Crew`: Python raises Ctrl-C in the main thread only, so no launch here can meet it."""
        return False

    def start(self, slot: Slot, work: Work) -> None:
        """See `Crew`."""
        self._busy[slot.index] = slot

        def carry_out() -> None:
            try:
                landed = Landed(slot, work(self._clock))
            except BaseException as error:  # noqa: BLE001  raised again by the loop
                landed = Landed(slot, None, error)
            self._ended.put(landed)

        # A daemon: a worker that hangs must not keep the program from ending after its last word.
        threading.Thread(target=carry_out, name=f"slot-{slot.index}", daemon=True).start()

    def wait(self) -> Landed:
        """See `Crew`; Ctrl-C gets through."""
        landed = self._ended.get()
        del self._busy[landed.slot.index]
        return landed

    def stop(self) -> None:
        """See `Crew`."""
        for slot in list(self._busy.values()):
            self._executor.abort(slot)
