"""Who carries out launches: one worker thread per slot in real time, the caller's thread in virtual time."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from search.cluster import Executor
from search.contracts import Clock, Slot, VirtualClock
from search.errors import Interrupted
from search.study.launch import Launched
from search.study.signals import Interrupts

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

    def start(self, slot: Slot, work: Work) -> None:
        """Begin a launch on an idle slot."""
        ...

    def wait(self) -> Landed:
        """Wait for the next end; some slot must be busy.

        Raises:
            Interrupted: `wake` was called meanwhile.
        """
        ...

    def wake(self) -> None:
        """Make `wait` raise once. For other threads; does not block."""
        ...

    def stop(self) -> None:
        """Make all launches end soon; each is still handed back by `wait`."""
        ...


def crew_for(executor: Executor, clock: Clock, interrupts: Interrupts) -> Crew:
    """Threads for real servers, so that a wait for one can be cut short; in virtual time, the caller's own."""
    if isinstance(clock, VirtualClock):
        return InlineCrew(clock, interrupts, lanes=len(executor.slots))
    return ThreadCrew(executor, clock)


def run_alone(work: Work, *, slot: Slot, crew: Crew, interrupts: Interrupts) -> Launched:
    """Carry out one launch; after Ctrl-C it is stopped, and what came of it is returned all the same.

    Args:
        work: The launch.
        slot: Where.
        crew: Idle.
        interrupts: Cut the wait short.
    """
    with interrupts.telling(crew.wake):
        crew.start(slot, work)
        try:
            landed = crew.wait()
        except Interrupted:
            crew.stop()
            landed = crew.wait()
    if landed.launched is None:
        assert landed.error is not None
        raise landed.error
    return landed.launched


class InlineCrew:
    """Launches in the caller's thread, at once; several slots then live in virtual time.

    Each launch of several lanes runs on a clock of its own from the moment it was started, and
    they are handed back in the order of their virtual ends. So a simulated study over four slots
    comes out the same every time, and its clock shows what the real one would.
    """

    def __init__(self, clock: Clock, interrupts: Interrupts, *, lanes: int = 1) -> None:
        self._clock = clock
        self._interrupts = interrupts
        self._forks = lanes > 1
        self._ended: list[tuple[float, int, Landed]] = []
        self._started = 0

    @property
    def busy(self) -> frozenset[int]:
        """See `Crew`."""
        return frozenset(landed.slot.index for _, _, landed in self._ended)

    def start(self, slot: Slot, work: Work) -> None:
        """See `Crew`; what the work raises comes out here."""
        began = self._clock.monotonic()
        lane = VirtualClock(self._clock.now()) if self._forks else self._clock
        launched = work(lane)
        end = began + lane.monotonic() if self._forks else self._clock.monotonic()
        if launched.interrupted:
            # Now, in real time: whatever else is under way in virtual time comes after it.
            end = began
            self._interrupts.press()
        self._started += 1
        heapq.heappush(self._ended, (end, self._started, Landed(slot, launched)))

    def wait(self) -> Landed:
        """See `Crew`; moves the study's clock to the end of that launch."""
        end, _, landed = heapq.heappop(self._ended)
        if self._forks:
            self._clock.spend(max(0.0, end - self._clock.monotonic()))
        return landed

    def wake(self) -> None:
        """See `Crew`: nothing is waited for, and launches look at the interrupts themselves."""

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
        self._ended: queue.SimpleQueue[Landed | None] = queue.SimpleQueue()
        self._busy: dict[int, Slot] = {}

    @property
    def busy(self) -> frozenset[int]:
        """See `Crew`."""
        return frozenset(self._busy)

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
        """See `Crew`."""
        landed = self._ended.get()
        if landed is None:
            raise Interrupted("The wait for a launch was interrupted.")
        del self._busy[landed.slot.index]
        return landed

    def wake(self) -> None:
        """See `Crew`."""
        self._ended.put(None)

    def stop(self) -> None:
        """See `Crew`."""
        for slot in list(self._busy.values()):
            self._executor.abort(slot)
