"""A fixed number of workers, each sending its next request when its last one has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from search.contracts import Phase
from search.load.client import Client
from search.load.steady import ramp_tokens
from search.load.target import Prompt
from search.load.trace import Trace


@dataclass(slots=True)
class ClosedLoop:
    """One run of a phase's load, and what came of it so far.

    Attributes:
        client: Sends the requests.
        phase: Its concurrency and output length.
        label: For evidence: `c=100`, `warm-up`.
        traces: Requests that have ended, in that order; kept when the run fails.
        ramp: Those of the ramp.
    """

    client: Client
    phase: Phase
    label: str
    traces: list[Trace] = field(default_factory=list)
    ramp: list[Trace] = field(default_factory=list)

    async def run(self, prompts: Sequence[Prompt], ramp: Sequence[Prompt] = ()) -> None:
        """Keep `phase.concurrency` requests in flight until all `prompts` were sent.

        Args:
            ramp: One prompt per worker, which it answers first and in part, see
                `search.load.steady`; empty for no ramp.
        """
        todo = iter(enumerate(prompts))
        workers = min(self.phase.concurrency, len(prompts))

        async def work(worker: int) -> None:
            if ramp:
                tokens = ramp_tokens(worker, workers, self.phase.output_tokens)
                self.ramp.append(await self._send(ramp[worker], tokens=tokens, index=worker, worker=worker))
            for index, prompt in todo:
                tokens = self.phase.tokens_of(index)
                self.traces.append(await self._send(prompt, tokens=tokens, index=index, worker=worker))

        async with asyncio.TaskGroup() as group:
            for worker in range(workers):
                group.create_task(work(worker))

    async def _send(self, prompt: Prompt, *, tokens: int, index: int, worker: int) -> Trace:
        return await self.client.generate(prompt, tokens=tokens, index=index, worker=worker, phase=self.label)


def ramp_prompts(prompts: Sequence[Prompt], phase: Phase) -> list[Prompt]:
    """The prompts of the ramp, one per worker, from the end of the list; none where there is no ramp."""
    if not phase.staggered or phase.concurrency == 1:
        return []
    tail = prompts[-phase.concurrency :]
    return [tail[i % len(tail)] for i in range(phase.concurrency)]
