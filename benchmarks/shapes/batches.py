"""Batches that start together and stream nothing: how fast a server decodes, with as little of its clients as can be.

At a high load the pace of the host (streams, HTTP, this client) is most of what repeats differ by: 7% from one repeat
to the next at C=100 on an H200 with a small model. A batch without streams leaves the decode loop. It is for comparing
two servers, not for what a service would see.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import aiohttp
from scipy.stats import t as student

from search.load.target import Prompt


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two means, with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Relative, of the logarithm: 0.03 is about ±3%."""
        return math.log(self.high / self.low) / 2


def batch_rates(base_url: str, prompts: Sequence[Prompt], *, requests: int, tokens: int, rounds: int) -> list[float]:
    """Output tokens per second of each round, after one round that warms up.

    Args:
        base_url: Of the server.
        prompts: Used in order, again and again; the same ones in every round.
        requests: Sent together.
        tokens: Each answer's length.
        rounds: Measured ones.

    Raises:
        OSError: A request failed.
    """
    try:
        return asyncio.run(_rounds(base_url, prompts, requests, tokens, rounds))[1:]
    except aiohttp.ClientError as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Ours over theirs, by Welch's interval of the logarithms; None with fewer than two values on a side.

    Within one start each: it says nothing of what the next start would give.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    logs = [[math.log(value) for value in side] for side in (ours, theirs)]
    parts = [variance(side) / len(side) for side in logs]
    centre, error = fmean(logs[0]) - fmean(logs[1]), math.sqrt(sum(parts))
    if error == 0:
        return Ratio(math.exp(centre), math.exp(centre), math.exp(centre))
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, logs, strict=True) if part > 0
    )
    half = float(student.ppf(0.975, freedom)) * error
    return Ratio(math.exp(centre), math.exp(centre - half), math.exp(centre + half))


async def _rounds(base_url: str, prompts: Sequence[Prompt], requests: int, tokens: int, rounds: int) -> list[float]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=300)) as session:
        rates = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                sent = [
                    group.create_task(_answer(session, base_url, prompts[i % len(prompts)], tokens))
                    for i in range(requests)
                ]
            rates.append(sum(task.result() for task in sent) / (time.perf_counter() - began))
        return rates


async def _answer(session: aiohttp.ClientSession, base_url: str, prompt: Prompt, tokens: int) -> int:
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = {"text": prompt.text, "sampling_params": sampling, "stream": False}
    async with session.post(f"{base_url}/generate", json=body) as answer:
        answer.raise_for_status()
        return int((await answer.json())["meta_info"]["completion_tokens"])
