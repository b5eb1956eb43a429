"""The client: one session per phase, streaming `/generate`, no retry of anything.

A retried request would hide exactly the failures a study has to learn from.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from search.errors import LoadFailed
from search.load.answer import Answer, StreamLost, refused
from search.load.limits import SPARE_CONNECTIONS, limited, refused_to_us
from search.load.sse import LineTooLong, RecordSplitter
from search.load.target import Prompt, Target
from search.load.trace import Trace
from search.outcomes import Evidence, Reason

_CONNECT_S = 30.0
# SGLang's uvicorn closes idle connections after 5 s. Leaving them first avoids writing a
# request into a connection that the server is just closing.
_KEEPALIVE_S = 2.0
_FLUSH_TRIES = 10
_FLUSH_PAUSE_S = 0.2
_FLUSH_ANSWER_S = 120.0
# How long the supervisor may take to notice a death that a broken connection already shows.
_DEATH_GRACE_S = 3.0
_DEATH_POLL_S = 0.1


@asynccontextmanager
async def connections(concurrency: int, pulse: Pulse) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with room for `concurrency` streams and no time limit of its own on a stream.

    A request that has to wait for a connection of ours all the same is counted in `pulse`. Silence is judged over all streams together by the watch, not per stream: a queued request
    may rightly wait. Neither proxies nor cookies nor compression stand between us and the server.
    """
    limit = concurrency + SPARE_CONNECTIONS

    async def queued(*_: object) -> None:
        pulse.queued += 1

    trace = aiohttp.TraceConfig()
    trace.on_connection_queued_start.append(queued)
    connector = aiohttp.TCPConnector(limit=limit, limit_per_host=limit, keepalive_timeout=_KEEPALIVE_S)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        auto_decompress=False,
        trace_configs=[trace],
        trust_env=False,
    ) as session:
        yield session


@dataclass(slots=True)
class Pulse:
    """The signs of life over all streams.

    Attributes:
        last: When a token came last.
        open: Streams that are open.
        arrivals: Records that brought tokens so far.
        queued: Requests that had to wait for a connection of the client's.
    """

    last: float
    open: int = 0
    arrivals: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True)
class Client:
    """Sends the requests of one phase.

    Attributes:
        session: Open for the length of the phase.
        target: The server.
        clock: Seconds; the one clock of all times of the phase.
        pulse: Renewed with every token received.
    """

    session: aiohttp.ClientSession
    target: Target
    clock: Callable[[], float]
    pulse: Pulse

    async def generate(self, prompt: Prompt, *, tokens: int, index: int, worker: int, phase: str) -> Trace:
        """Send one prompt, and follow the stream to its end.

        Args:
            prompt: What is sent.
            tokens: Output tokens, exactly.
            index: Place of the request in its phase, from 0.
            worker: Which worker of the closed loop sends it.
            phase: Words for errors, such as the concurrency.

        Raises:
            LoadFailed: The stream broke, or was an error; the server's death is the cause if it died.
        """
        body = json.dumps(
            {
                "text": prompt.text,
                "sampling_params": {**self.target.sampling.params, "max_new_tokens": tokens, "ignore_eos": True},
                "stream": True,
            }
        ).encode()
        if not self.pulse.open:
            self.pulse.last = self.clock()
        self.pulse.open += 1
        try:
            return await self._follow(body, prompt, index, worker, phase)
        except (StreamLost, aiohttp.ClientError, OSError) as error:
            if ours := refused_to_us(error):
                raise limited(ours, self.pulse.open) from error
            line = f"request {prompt.prompt_id} was lost: {str(error) or type(error).__name__}"
            raise LoadFailed(Reason.SERVER_CRASH_LOAD, await self._cause(line, phase)) from error
        except LineTooLong as error:
            raise LoadFailed(Reason.METRIC_INVALID, Evidence(str(error), phase)) from error
        finally:
            self.pulse.open -= 1

    async def flush_cache(self, phase: str) -> bool:
        """Empty the radix cache, so that every phase starts alike; return whether the server did.

        SGLang answers 400 while requests still run or wait, so a few tries are made. A server
        without the route is no error: whether a cache served is read from the counters.

        Raises:
            LoadFailed: The server does not answer at all, or not in time.
        """
        limit = aiohttp.ClientTimeout(total=_FLUSH_ANSWER_S, sock_connect=_CONNECT_S)
        for _ in range(_FLUSH_TRIES):
            try:
                async with self.session.post(f"{self.target.base_url}/flush_cache", timeout=limit) as response:
                    if response.status == 200:
                        return True
                    if response.status == 404:
                        return False
            except TimeoutError as error:
                line = f"waited {_FLUSH_ANSWER_S:g} s for an answer to /flush_cache, with no request open"
                raise LoadFailed(Reason.SERVER_HANG_LOAD, Evidence(line, phase)) from error
            except (aiohttp.ClientError, OSError) as error:
                line = f"/flush_cache got no answer: {str(error) or type(error).__name__}"
                raise LoadFailed(Reason.SERVER_CRASH_LOAD, await self._cause(line, phase)) from error
            await asyncio.sleep(_FLUSH_PAUSE_S)
        return False

    async def _follow(self, body: bytes, prompt: Prompt, index: int, worker: int, phase: str) -> Trace:
        answer = Answer(self.target.meta_fields, phase)
        splitter = RecordSplitter()
        started = self.clock()
        async with self.session.post(
            f"{self.target.base_url}/generate", data=body, headers={"Content-Type": "application/json"}
        ) as response:
            if response.status != 200:
                message = (await response.content.read(4096)).decode(errors="replace")
                raise refused(response.status, message, phase)
            async for chunk in response.content.iter_any():
                now = self.clock()
                for record in splitter.feed(chunk):
                    if answer.add(record, now):
                        self.pulse.last = now
                        self.pulse.arrivals += 1
        return answer.finish(index=index, prompt_id=prompt.prompt_id, worker=worker, started=started)

    async def _cause(self, line: str, phase: str) -> Evidence:
        """The server's death if it becomes known within a moment, else the loss as we saw it."""
        for _ in range(int(_DEATH_GRACE_S / _DEATH_POLL_S)):
            if evidence := self.target.death():
                return evidence
            await asyncio.sleep(_DEATH_POLL_S)
        return Evidence(line, phase)
