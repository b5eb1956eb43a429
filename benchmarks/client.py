"""Is the client the bottleneck? Reported rate against emitted rate, and processor time per token.

A null server in a process of its own emits records like SGLang's at a known rate: every step it
writes one token to each open stream. It logs its steps on the same monotonic clock, so emitted
and reported tokens are counted over the same stretch: from all streams open to the first one
that ends without a successor.

    python benchmarks/client.py [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from search.contracts import Phase
from search.load import Prompt, Target, measure

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORDS = "the quick answer is that nobody measured it before we did and so on "


def chunk(payload: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def records(tokens: int) -> list[bytes]:
    """The stream of one answer, text cumulative as SGLang sends it, ready to be written."""
    made = []
    for n in range(1, tokens + 1):
        meta = {
            "id": "8a5c2f6f0e6b4d0b9a3c1d2e3f405162",
            "finish_reason": {"type": "length", "length": tokens} if n == tokens else None,
            "prompt_tokens": 64,
            "weight_version": "default",
            "completion_tokens": n,
            "cached_tokens": 0,
        }
        text = (WORDS * (n * 4 // len(WORDS) + 1))[: n * 4]
        made.append(chunk(b"data: " + json.dumps({"text": text, "meta_info": meta}).encode() + b"\n\n"))
    made[-1] += chunk(b"data: [DONE]\n\n") + chunk(b"")
    return made


class NullServer:
    """Every `step_s`, one token for each open stream."""

    def __init__(self, tokens: int, step_s: float) -> None:
        self._records = records(tokens)
        self._step_s = step_s
        self._open: dict[asyncio.StreamWriter, int] = {}
        self.steps: list[tuple[float, int]] = []
        self.starts: list[float] = []
        self.ends: list[float] = []

    async def emit(self) -> None:
        """Keep the schedule by absolute times: a late step is made up for, not skipped."""
        due = time.perf_counter()
        while True:
            due = max(due + self._step_s, time.perf_counter() - 10 * self._step_s)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            written = 0
            for writer, sent in list(self._open.items()):
                if sent == 0:
                    writer.write(HEAD)
                    self.starts.append(time.perf_counter())
                writer.write(self._records[sent])
                written += 1
                if sent + 1 == len(self._records):
                    del self._open[writer]
                    self.ends.append(time.perf_counter())
                else:
                    self._open[writer] = sent + 1
            if written:
                self.steps.append((time.perf_counter(), written))

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: requests one after the other."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:")), 0)
                await reader.readexactly(length)
                if head.startswith(b"POST /generate"):
                    self._open[writer] = 0
                    continue
                body = json.dumps({"steps": self.steps, "starts": self.starts, "ends": self.ends}).encode()
                status = b"200 OK" if head.startswith(b"GET /log") else b"404 Not Found"
                writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._open.pop(writer, None)
        finally:
            writer.close()


async def serve(tokens: int, step_s: float) -> None:
    """Serve on a free port, printed first; ends when standard input closes."""
    null = NullServer(tokens, step_s)
    server = await asyncio.start_server(null.handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    emitting = asyncio.create_task(null.emit())
    await asyncio.to_thread(sys.stdin.read)
    emitting.cancel()
    server.close()


@dataclass(frozen=True)
class Row:
    """One comparison; rates in tokens per second."""

    concurrency: int
    asked_tps: float
    emitted_tps: float
    reported_tps: float
    error_percent: float
    cpu_us_per_token: float
    cpu_share: float


def emitted_rate(log: dict[str, Any], concurrency: int, requests: int) -> float:
    """Tokens per second over the server's own steady stretch: start excluded, end included.

    From the start of stream number `concurrency` to the end of the first stream without a
    successor: each earlier end lets the client start one more.
    """
    begin = sorted(log["starts"])[concurrency - 1]
    end = sorted(log["ends"])[requests - concurrency]
    # A step is logged after its writes: the steps that hold `begin` and `end` come right after them.
    times = [at for at, _ in log["steps"]]
    first, final = bisect.bisect_left(times, begin), bisect.bisect_left(times, end)
    tokens = sum(written for _, written in log["steps"][first + 1 : final + 1])
    return float(tokens / (times[final] - times[first]))


def compare(concurrency: int, asked_tps: float, tokens: int, seconds: float) -> Row:
    """Run one phase against a fresh null server."""
    step_s = concurrency / asked_tps
    requests = max(2 * concurrency, round(asked_tps * seconds / tokens))
    command = [sys.executable, __file__, "--serve", str(tokens), repr(step_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        prompts = [Prompt(f"p{i}", "chat", f"question number {i}") for i in range(requests)]
        phase = Phase(concurrency=concurrency, requests=requests, output_tokens=tokens)
        before = time.process_time()
        result = measure(Target(base_url=url), prompts, phase, 1)
        spent = time.process_time() - before
        with urllib.request.urlopen(f"{url}/log") as answer:
            log = json.load(answer)
        process.stdin.close()
    assert result.output_tokens and result.duration_s, "a measured phase has both"
    emitted = emitted_rate(log, concurrency, requests)
    return Row(
        concurrency,
        asked_tps,
        emitted,
        result.output_tps,
        100 * (result.output_tps / emitted - 1),
        1e6 * spent / result.output_tokens,
        spent / result.duration_s,
    )


def fast_run(main: Callable[[], Any]) -> None:
    """The null server's loop: uvloop where it loads, so that the server is not the bottleneck."""
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


def main() -> None:
    """Run all comparisons and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows there")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each comparison")
    parser.add_argument("--tokens", type=int, default=256, help="output tokens of a request")
    parser.add_argument("--serve", nargs=2, metavar=("TOKENS", "STEP_S"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        tokens, step_s = int(options.serve[0]), float(options.serve[1])
        fast_run(lambda: serve(tokens, step_s))
        return
    rows = []
    print(
        f"{'C':>4} {'asked tok/s':>12} {'emitted':>10} {'reported':>10} {'error %':>8} {'CPU us/tok':>11} {'CPU share':>10}"
    )
    for concurrency, asked in ((1, 100), (1, 400), (100, 5_000), (100, 10_000), (100, 20_000)):
        row = compare(concurrency, asked, options.tokens, options.seconds)
        rows.append(row)
        print(
            f"{row.concurrency:>4} {row.asked_tps:>12.0f} {row.emitted_tps:>10.1f} {row.reported_tps:>10.1f} "
            f"{row.error_percent:>8.2f} {row.cpu_us_per_token:>11.1f} {row.cpu_share:>10.0%}"
        )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
