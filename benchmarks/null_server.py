"""A server that emits at a known rate: in every step one token to each open stream, nothing computed.

It answers `/generate` with records like SGLang's (all text and token ids so far in each) and
`/v1/completions` like OpenAI's (only the new text), and logs its steps on the monotonic clock of
this host, so that what a client reports can be held against what was sent over the same stretch.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = "the quick answer is that nobody measured it before we did and so on "
DONE = b"data: [DONE]\n\n"
MODEL = "nothing"
TURNS = 10
"""Parts of a step; each open stream has its turn in one of them, so that tokens flow and do not come in waves."""


def chunk(payload: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def event(body: dict[str, Any]) -> bytes:
    """One line of an event stream."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def generate_record(n: int, *, last: bool) -> bytes:
    """Record n of an answer as SGLang 0.5.11 sends it."""
    meta = {
        "id": "8a5c2f6f0e6b4d0b9a3c1d2e3f405162",
        "finish_reason": {"type": "length", "length": n} if last else None,
        "prompt_tokens": 64,
        "weight_version": "default",
        "completion_tokens": n,
        "cached_tokens": 0,
    }
    text = (WORDS * (n * 4 // len(WORDS) + 1))[: n * 4]
    ids = [11_000 + 7 * i for i in range(n)]
    return event({"text": text, "output_ids": ids, "meta_info": meta})


def completions_record(n: int, *, last: bool) -> bytes:
    """Record n of an answer as OpenAI's completions stream it; the usage follows the last one."""
    record = {"id": "cmpl-8a5c2f6f0e6b4d0b", "object": "text_completion", "created": 1_780_000_000, "model": MODEL}
    choice = {"index": 0, "text": " word", "logprobs": None, "finish_reason": "length" if last else None}
    made = event({**record, "choices": [choice], "usage": None})
    if last:
        usage = {"prompt_tokens": 64, "completion_tokens": n, "total_tokens": 64 + n}
        made += event({**record, "choices": [], "usage": usage})
    return made


@dataclass(slots=True)
class Open:
    """A stream being answered: records sent, records wanted, and the route's ready-made pieces."""

    sent: int
    wanted: int
    pieces: list[bytes]
    ends: list[bytes]


class NullServer:
    """In every `step_s`, one token for each open stream; answers of up to `tokens` tokens."""

    def __init__(self, tokens: int, step_s: float) -> None:
        self._step_s = step_s
        self._tokens = tokens
        self._made = {
            route: (
                [chunk(record(n, last=False)) for n in range(1, tokens + 1)],
                [chunk(record(n, last=True)) + chunk(DONE) + chunk(b"") for n in range(1, tokens + 1)],
            )
            for route, record in ((b"/generate", generate_record), (b"/v1/completions", completions_record))
        }
        self._open: list[dict[asyncio.StreamWriter, Open]] = [{} for _ in range(TURNS)]
        self.steps: list[tuple[float, int]] = []
        self.asked: list[float] = []
        self.starts: list[float] = []
        self.ends: list[float] = []

    async def emit(self) -> None:
        """Keep the schedule by absolute times: a late step is made up for, not skipped."""
        due = time.perf_counter()
        for streams in itertools.cycle(self._open):
            due = max(due + self._step_s / TURNS, time.perf_counter() - 10 * self._step_s)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            written = 0
            for writer, stream in list(streams.items()):
                if stream.sent == 0:
                    writer.write(HEAD)
                    self.starts.append(time.perf_counter())
                stream.sent += 1
                written += 1
                if stream.sent == stream.wanted:
                    writer.write(stream.ends[stream.sent - 1])
                    del streams[writer]
                    self.ends.append(time.perf_counter())
                else:
                    writer.write(stream.pieces[stream.sent - 1])
            if written:
                self.steps.append((time.perf_counter(), written))

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: requests one after the other."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0)
                body = await reader.readexactly(length)
                route = head.split(b" ", 2)[1]
                if head.startswith(b"POST") and route in self._made:
                    self.asked.append(time.perf_counter())
                    self._open[len(self.asked) % TURNS][writer] = Open(
                        0, self._wanted(json.loads(body)), *self._made[route]
                    )
                    continue
                self._answer(writer, route)
        except (asyncio.IncompleteReadError, ConnectionError):
            for streams in self._open:
                streams.pop(writer, None)
        finally:
            writer.close()

    def _wanted(self, body: dict[str, Any]) -> int:
        wanted = body.get("sampling_params", {}).get("max_new_tokens") or body.get("max_tokens") or self._tokens
        return min(int(wanted), self._tokens)

    def _answer(self, writer: asyncio.StreamWriter, route: bytes) -> None:
        data: dict[str, Any] | None = None
        if route == b"/log":
            data = {"steps": self.steps, "asked": self.asked, "starts": self.starts, "ends": self.ends}
        elif route == b"/v1/models":
            data = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        elif route == b"/health":
            data = {}
        body = json.dumps(data).encode()
        status = b"404 Not Found" if data is None else b"200 OK"
        writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
        )


@dataclass(frozen=True, slots=True)
class Log:
    """What a null server did; seconds of the monotonic clock.

    Attributes:
        steps: Time and tokens of every step.
        asked: When requests arrived.
        starts: When streams got their first token.
        ends: When streams got their last one.
    """

    steps: list[tuple[float, int]]
    asked: list[float]
    starts: list[float]
    ends: list[float]

    def steady_tps(self, concurrency: int) -> float:
        """Tokens per second from all streams open to the first end without a successor.

        From the start of stream number `concurrency` to that end: each earlier end lets the
        client start one more.
        """
        begin = sorted(self.starts)[concurrency - 1]
        end = sorted(self.ends)[len(self.ends) - concurrency]
        # A step is logged after its writes: the steps that hold `begin` and `end` come right after them.
        times = [at for at, _ in self.steps]
        first, final = bisect.bisect_left(times, begin), bisect.bisect_left(times, end)
        tokens = sum(written for _, written in self.steps[first + 1 : final + 1])
        return tokens / (times[final] - times[first])

    def whole_run_tps(self) -> float:
        """All tokens / (last token sent - first request received)."""
        return sum(written for _, written in self.steps) / (max(self.ends) - min(self.asked))


@dataclass(frozen=True, slots=True)
class Running:
    """A null server in a process of its own."""

    url: str

    def log(self) -> Log:
        """Ask what it did."""
        with urllib.request.urlopen(f"{self.url}/log") as answer:
            entries = json.load(answer)
        return Log([(at, n) for at, n in entries["steps"]], entries["asked"], entries["starts"], entries["ends"])


@contextmanager
def null_server(tokens: int, step_s: float) -> Iterator[Running]:
    """Start one on a free port; it ends when its standard input closes."""
    command = [sys.executable, "-m", "benchmarks.null_server", str(tokens), repr(step_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield Running(f"http://127.0.0.1:{int(process.stdout.readline())}")
        process.stdin.close()


async def serve(tokens: int, step_s: float) -> None:
    """Serve on a free port, printed first."""
    null = NullServer(tokens, step_s)
    server = await asyncio.start_server(null.handle, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    emitting = asyncio.create_task(null.emit())
    await asyncio.to_thread(sys.stdin.read)
    emitting.cancel()
    server.close()


def fast_run(main: Callable[[], Any]) -> None:
    """uvloop where it loads, so that the server is not the bottleneck."""
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


if __name__ == "__main__":
    fast_run(lambda: serve(int(sys.argv[1]), float(sys.argv[2])))
