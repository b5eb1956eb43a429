"""The fake's model: a batch that steps in time, with costs and acceptance of a plausible shape."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of one decode step, and how many drafts a pass accepts.

    Shaped after a small model on one GPU: a step costs a floor plus a share per verified token;
    v2 hides most of the draft; wide trees accept more and cost far more.
    """

    verify_tokens: int
    steps: int
    topk: int
    overlapped: bool
    speed: float = 1.0
    slots: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, args: argparse.Namespace, *, speed: float) -> Costs:
        """Costs of resolved arguments."""
        if args.speculative_algorithm is None:
            return cls(verify_tokens=1, steps=0, topk=0, overlapped=True, speed=speed)
        return cls(
            verify_tokens=args.speculative_num_draft_tokens or 1,
            steps=args.speculative_num_steps,
            topk=args.speculative_eagle_topk,
            overlapped=not args.disable_overlap_schedule,
            speed=speed,
            slots=_slots(args) if args.speculative_adaptive and args.speculative_eagle_topk == 1 else (),
        )

    def at(self, batch: int) -> Costs:
        """Those of a batch: with adaptive steps by batch size, of the slot that is nearest below it."""
        below = [steps for size, steps in self.slots if size <= batch] or [steps for _, steps in self.slots[:1]]
        return replace(self, steps=below[-1], verify_tokens=below[-1] + 1, slots=()) if below else self

    def step_s(self, batch: int) -> float:
        """Seconds of one step of a batch."""
        draft_ms = self.steps * (0.15 if self.overlapped else 0.5)
        return (3.0 + 0.02 * batch * self.verify_tokens + draft_ms) / 1000 / self.speed

    @property
    def accepted(self) -> float:
        """Drafts a verify pass accepts on average: a chain of decreasing chances."""
        chance = min(0.9, 0.68 + 0.06 * (self.topk - 1))
        return sum(chance**depth for depth in range(1, self.steps + 1))


def _slots(args: argparse.Namespace) -> tuple[tuple[int, int], ...]:
    """Batch size and the middle one of its candidate steps, of a file by batch size."""
    if not args.speculative_adaptive_config:
        return ()
    data = json.loads(Path(args.speculative_adaptive_config).read_text())
    slots = {int(size): sorted(slot["candidate_steps"]) for size, slot in data.items() if size.isdigit()}
    return tuple((size, steps[len(steps) // 2]) for size, steps in sorted(slots.items()))


@dataclass(slots=True)
class Generation:
    """One request in the scheduler. `tokens` counts what was emitted."""

    number: int
    wanted: int
    tokens: int = 0
    verify_count: int = 0
    histogram: list[int] = field(default_factory=list)
    cancelled: bool = False
    _credit: float = 0.0

    def step(self, costs: Costs) -> None:
        """Emit what one decode step gives; the first token comes from the prefill alone."""
        emitted = 1
        if costs.steps and self.tokens:
            self._credit += costs.accepted
            accepted = min(int(self._credit), costs.steps)
            self._credit -= accepted
            self.verify_count += 1
            self.histogram += [0] * (accepted + 1 - len(self.histogram))
            self.histogram[accepted] += 1
            emitted += accepted
        self.tokens = min(self.wanted, self.tokens + emitted)

    @property
    def done(self) -> bool:
        """Whether no step is left."""
        return self.cancelled or self.tokens >= self.wanted


class Batcher:
    """Runs at most `limit` requests at once; the others wait in line, as in the real server.

    Args:
        costs: Of a step.
        limit: See above.
        watch: Asked with the batch before each step; False stops all progress.
        tell: Gets those that have made a step.
    """

    def __init__(
        self,
        costs: Costs,
        *,
        limit: int,
        watch: Callable[[int], bool],
        tell: Callable[[Sequence[Generation]], None],
    ) -> None:
        self._costs = costs
        self._limit = limit
        self._watch = watch
        self._tell = tell
        self._waiting: deque[Generation] = deque()
        self._running: list[Generation] = []
        self._arrived = asyncio.Event()
        self.verify_count = 0
        self.tokens = 0

    def run_shape(self, topk: int, steps: int, tokens: int) -> None:
        """Draft with another tree from the next step on."""
        self._costs = replace(self._costs, topk=topk, steps=steps, verify_tokens=tokens)

    def submit(self, generation: Generation) -> None:
        """Put a request into the line."""
        self._waiting.append(generation)
        self._arrived.set()

    async def run(self) -> None:
        """Step for ever."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self._running = [generation for generation in self._running if not generation.done]
            while self._waiting and len(self._running) < self._limit:
                self._running.append(self._waiting.popleft())
            if not self._running:
                self._arrived.clear()
                await self._arrived.wait()
                due = loop.time()
                continue
            if not self._watch(len(self._running)):
                await asyncio.Event().wait()
            costs = self._costs.at(len(self._running))
            due = max(due, loop.time() - 0.05) + costs.step_s(len(self._running))
            await asyncio.sleep(due - loop.time())
            for generation in self._running:
                before = generation.tokens
                generation.step(costs)
                self.tokens += generation.tokens - before
                self.verify_count += costs.steps > 0 and before > 0
            self._tell(self._running)
