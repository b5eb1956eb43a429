"""Is the client the bottleneck? Reported rate against emitted rate, and processor time per token.

A null server in a process of its own emits at a known rate (`benchmarks/null_server.py`); our client
and those of other tools measure it in turn. Each is held against what was emitted over the
stretch that it reports: ours over the steady window, the others over the whole run.

    python -m benchmarks.client [--bench-serving PATH] [--guidellm PATH] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import client_rivals
from benchmarks.client_rivals import Missing, Outcome
from benchmarks.null_server import null_server
from search.contracts import Phase
from search.load.phases import measure
from search.load.target import Prompt, Target

LOADS = ((1, 100), (1, 400), (100, 5_000), (100, 10_000), (100, 20_000), (1_000, 5_000), (1_000, 10_000))
"""Concurrency, tokens per second asked of the null server."""


@dataclass(frozen=True)
class Row:
    """One client at one load; rates in tokens per second. `missing` says why there are no numbers.

    `cpu_us_per_token` is None where a client's work is too little to distinguish from its start-up.
    """

    client: str
    concurrency: int
    asked_tps: float
    emitted_tps: float | None = None
    reported_tps: float | None = None
    error_percent: float | None = None
    cpu_us_per_token: float | None = None
    missing: str = ""

    def __str__(self) -> str:
        start = f"{self.client:<14} {self.concurrency:>5} {self.asked_tps:>9,.0f}"
        if self.missing:
            return f"{start}  not measured: {self.missing}"
        processor = "-" if self.cpu_us_per_token is None else f"{self.cpu_us_per_token:.1f}"
        return (
            f"{start} {self.emitted_tps:>10,.1f} {self.reported_tps:>10,.1f} {self.error_percent:>8.2f} {processor:>10}"
        )


HEADER = f"{'client':<14} {'C':>5} {'asked':>9} {'emitted':>10} {'reported':>10} {'error %':>8} {'CPU us/tok':>10}"


def ours(url: str, concurrency: int, requests: int, tokens: int) -> Outcome:
    """A phase as a study measures it, but with all workers started at once and answers of one length.

    Which streams are a ramp's is not seen from the server, and the two would count over other stretches;
    one length is what the other clients ask for.
    """
    prompts = [Prompt(f"p{i}", "chat", f"question number {i}") for i in range(requests)]
    phase = Phase(concurrency=concurrency, requests=requests, output_tokens=tokens, staggered=False, spread=0.0)
    spent = time.process_time()
    result = measure(Target(base_url=url), prompts, phase, 1)
    return Outcome(result.output_tokens or 0, result.output_tps, time.process_time() - spent)


def compare(client: str, send: Callable[[str], Outcome], *, steady: bool, load: tuple[int, float], tokens: int) -> Row:
    """One client against a fresh null server."""
    concurrency, asked_tps = load
    with null_server(tokens, concurrency / asked_tps) as server:
        try:
            outcome = send(server.url)
        except Missing as why:
            return Row(client, concurrency, asked_tps, missing=str(why))
        log = server.log()
    emitted = log.steady_tps(concurrency) if steady else log.whole_run_tps()
    return Row(
        client,
        concurrency,
        asked_tps,
        emitted,
        outcome.reported_tps,
        100 * (outcome.reported_tps / emitted - 1),
        None if outcome.processor_s is None else 1e6 * outcome.processor_s / outcome.tokens,
    )


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Every client at every load, the clients of one load one after the other."""
    for load in [(int(c), float(tps)) for c, tps in options.load] or LOADS:
        concurrency, asked_tps = load
        # Answers short enough for two of them per worker in the time given.
        tokens = min(options.tokens, max(16, round(asked_tps * options.seconds / (2 * concurrency))))
        requests = max(2 * concurrency, round(asked_tps * options.seconds / tokens))
        size = {"concurrency": concurrency, "requests": requests, "tokens": tokens}
        yield compare("ours", lambda url: ours(url, **size), steady=True, load=load, tokens=tokens)  # noqa: B023
        for name, path in (("bench_serving", options.bench_serving), ("guidellm", options.guidellm)):
            rival = getattr(client_rivals, name)
            if path is None:
                why = f"not given, see `--{name.replace('_', '-')}`"
                yield Row(name, concurrency, asked_tps, missing=why)
                continue
            yield compare(
                name,
                lambda url: rival(path, url, **size),  # noqa: B023
                steady=False,
                load=load,
                tokens=tokens,
            )


def main() -> None:
    """Run all comparisons and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the rows there")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each comparison")
    parser.add_argument("--tokens", type=int, default=256, help="most output tokens of a request")
    parser.add_argument(
        "--load", nargs=2, action="append", default=[], metavar=("C", "TPS"), help="only this; repeatable"
    )
    parser.add_argument("--bench-serving", type=Path, help="`bench_serving.py` of an unpacked SGLang wheel, to 0.5.14")
    parser.add_argument("--guidellm", type=Path, help="the `guidellm` program (0.8) of an environment of its own")
    options = parser.parse_args()
    print(HEADER)
    done = []
    for row in rows(options):
        print(row, flush=True)
        done.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in done], indent=1) + "\n")


if __name__ == "__main__":
    main()
