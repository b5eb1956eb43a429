"""The protocol of a switch: every rank looks, all agree, every rank acts, all agree; one failure undoes all.

Each rank runs this with the same arguments in the same order (SGLang hands a request to all of them in one
place of their loops), so each decision is made from words that all ranks have heard.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from search_shapes.ranks import Ranks
from search_shapes.shape import Shape, impossible, too_large
from search_shapes.states import States

log = logging.getLogger("search_shapes")

SWITCHED, REFUSED, FAILED = "switched", "refused", "failed"
BUSY = "busy"
"""First word of the one refusal that passes by itself."""

_GROWTH = 1.25
"""Room asked for a state beside the largest one built so far."""


class Server(Protocol):
    """One rank of a server, as far as a switch touches it."""

    page_size: int

    def refuses(self) -> str:
        """Why this server can never switch; empty when it can."""
        ...

    def busy(self) -> str:
        """What keeps it from being idle; empty when it is."""
        ...

    def running(self) -> Shape:
        """What the worker runs."""
        ...

    def places(self) -> dict[str, Shape | None]:
        """The shape at every place that has one; None for a place that is wrong without having a shape."""
        ...

    def free_gb(self) -> float:
        """Free memory of the GPU, after giving back what only the allocator holds."""
        ...

    def full(self) -> str:
        """Why no further graphs fit, memory aside; empty when they do."""
        ...

    def state(self) -> Any:
        """What the running shape owns."""
        ...

    def build(self, shape: Shape) -> Any:
        """Make what a shape owns, leaving what runs as it is, also when it raises."""
        ...

    def snapshot(self) -> Any:
        """Everything that `apply` changes."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Put it back."""
        ...

    def apply(self, shape: Shape, state: Any) -> None:
        """Let a shape run."""
        ...

    def settle(self) -> str:
        """Flush the cache and zero the counters; says what went wrong."""
        ...


@dataclass
class Last:
    """How the last command ended; what the report tells of it."""

    request: int
    shape: tuple[int, int, int]
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    built: bool = False
    memory_gb: float = 0.0
    evicted: int = 0


class Switcher:
    """One rank's part in all switches of one server's life."""

    def __init__(
        self,
        server: Server,
        ranks: Ranks,
        *,
        cap: int,
        room_gb: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.server = server
        self.start = server.running()
        self.broken = ""
        self.last: Last | None = None
        self.states = States(cap)
        self.largest_gb = 0.0
        self._room_gb = room_gb
        self._ranks = ranks
        self._clock = clock

    def ask(self, shape: Shape, request: int) -> Last:
        """Switch, or say why not; on all ranks or on none."""
        began = self._clock()
        last = Last(request, (shape.topk, shape.num_steps, shape.num_draft_tokens), FAILED)
        try:
            self._ask(shape, last)
        except Exception as error:  # one rank must not leave the loop that all ranks walk in step
            log.exception("SEARCH_SHAPES: a switch to %s fell over.", shape)
            self.broken = last.reason = f"The switch itself fell over: {_words(error)}. End this start."
        last.seconds = self._clock() - began
        self.last = last
        log.info(
            "SEARCH_SHAPES %s %s after %.2f s%s",
            last.outcome,
            shape,
            last.seconds,
            f": {last.reason}" * bool(last.reason),
        )
        return last

    def report(self) -> dict[str, Any]:
        """What `/server_info` shows; plain values."""
        places = self.server.places()
        now = self.server.running()
        return {
            "start": list(self.start),
            "now": list(now),
            "consistent": not self.broken and all(place == now for place in places.values()),
            "places": {name: None if place is None else list(place) for name, place in places.items()},
            "states": [list(shape) for shape in self.states.shapes()],
            "refuses": self.server.refuses(),
            "broken": self.broken,
            "last": None if self.last is None else asdict(self.last) | {"shape": list(self.last.shape)},
        }

    def _ask(self, shape: Shape, last: Last) -> None:
        server = self.server
        if reasons := self._heard(_attempt(lambda: self._refusal(shape))):
            last.outcome, last.reason = REFUSED, reasons
            return
        before = server.running()
        if shape != before:
            self.states.begin(before, server.state())
            if shape not in self.states:
                if reason := self._make_room(before, last):
                    last.outcome, last.reason = REFUSED, reason
                    return
                if not self._build(shape, before, last):
                    return
            if not self._apply(shape, before, last):
                return
        elif wrong := self._heard(self._wrong(shape)):
            self.broken = last.reason = f"{wrong} End this start."
            return
        if problems := self._heard(_attempt(server.settle)):
            self.broken = last.reason = f"{shape} runs, but the cache was not flushed: {problems} End this start."
            return
        last.outcome = SWITCHED

    def _refusal(self, shape: Shape) -> str:
        server = self.server
        if self.broken:
            return f"An earlier switch left this server in doubt: {self.broken}"
        if reason := server.refuses() or impossible(shape) or too_large(shape, self.start, server.page_size):
            return reason
        busy = server.busy()
        return f"{BUSY}: {busy}" if busy else ""

    def _heard(self, word: str) -> str:
        """All ranks' problems in one text, each once; empty when no rank has any."""
        words = self._ranks.hear(word)
        places: dict[str, list[int]] = {}
        for rank, text in enumerate(words):
            if text:
                places.setdefault(text, []).append(rank)
        if len(places) == 1 and len(next(iter(places.values()))) == len(words):
            return next(iter(places))
        return " ".join(f"Rank {', '.join(map(str, ranks))}: {text}" for text, ranks in places.items())

    def _make_room(self, now: Shape, last: Last) -> str:
        """Drop states until one more fits on the fullest rank; says why it cannot."""
        if full := self._heard(self.server.full()):
            return full
        need = max(self._room_gb, self.largest_gb * _GROWTH)
        while True:
            free = min(self._ranks.hear(self.server.free_gb()))
            if free >= need and len(self.states.shapes()) < self.states.cap:
                return ""
            going = self.states.next_to_go(now=now)
            if going is None:
                if free >= need:
                    return ""
                return (
                    f"One more shape needs some {need:.1f} GB, and {free:.1f} GB are free with no state left to drop. "
                    "Start with a lower `--mem-fraction-static`."
                )
            self.states.drop(going)
            last.evicted += 1

    def _build(self, shape: Shape, before: Shape, last: Last) -> bool:
        server = self.server
        free = server.free_gb()
        state: Any = None
        problem = ""
        try:
            state = server.build(shape)
        except Exception as error:
            log.exception("SEARCH_SHAPES: building %s failed.", shape)
            problem = f"Building {shape} failed: {_words(error)}."
        if problems := self._heard(problem):
            del state
            last.reason = problems
            if wrong := self._heard(self._wrong(before)):
                self.broken = f"after a build that failed: {wrong} End this start."
                last.reason += f" And {self.broken}"
            server.free_gb()  # gives back what the other ranks had built
            return False
        last.built = True
        last.memory_gb = max(self._ranks.hear(free - server.free_gb()))
        self.largest_gb = max(self.largest_gb, last.memory_gb)
        self.states.keep(shape, state)
        return True

    def _apply(self, shape: Shape, before: Shape, last: Last) -> bool:
        server = self.server
        snapshot = server.snapshot()
        problem = _attempt(lambda: server.apply(shape, self.states.use(shape)))
        if not (problems := self._heard(problem or self._wrong(shape))):
            return True
        undone = _attempt(lambda: server.restore(snapshot))
        last.reason = f"Switching to {shape} failed: {problems}"
        if wrong := self._heard(undone or self._wrong(before)):
            self.broken = f"after a switch that failed: {wrong} End this start."
            last.reason += f" And {self.broken}"
        self.states.drop(shape)
        return False

    def _wrong(self, shape: Shape) -> str:
        """Places of this rank that do not run a shape."""
        try:
            wrong = [f"{name} ({place})" for name, place in self.server.places().items() if place != shape]
        except Exception as error:
            log.exception("SEARCH_SHAPES: the places could not be read.")
            return f"the places could not be read: {_words(error)}."
        return f"not at {shape}: {', '.join(wrong)}." if wrong else ""


def _attempt(act: Callable[[], str | None]) -> str:
    try:
        return act() or ""
    except Exception as error:
        log.exception("SEARCH_SHAPES: a step failed.")
        return f"{_words(error)}."


def _words(error: BaseException) -> str:
    """Its first line, without the stop that the sentence around it has."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:300].rstrip('.')}" if first else type(error).__name__
