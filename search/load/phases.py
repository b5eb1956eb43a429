"""One phase on one server: warm-up, flush, closed loop, and the watch over all of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from search.contracts import Phase, PhaseResult
from search.errors import LoadFailed, UsageError
from search.load.client import Client, Pulse, connections
from search.load.closed_loop import ClosedLoop, ramp_prompts
from search.load.event_loop import loop_factory
from search.load.garbage import refuse_garbage
from search.load.limits import SPARE_CONNECTIONS, Lateness, limited, reserve_files
from search.load.prompts import prompts_sha256
from search.load.summary import summarise
from search.load.target import LOG_STRETCH, Prompt, Target
from search.load.trace import Trace
from search.outcomes import Evidence, Note, Reason

_WARM_WITHIN = 0.05
_WATCH_EVERY_S = 1.0


def measure(
    target: Target, prompts: Sequence[Prompt], phase: Phase, repeat: int, *, requests_log: Path | None = None
) -> PhaseResult:
    """Run `run_phase` to its end, on uvloop where it loads. See there for what it raises.

    Args:
        target: The server.
        prompts: In the order in which they are sent.
        phase: What is measured.
        repeat: Number of the repeat, from 1.
        requests_log: File that gets a line for each request.
    """
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_phase(target, prompts, phase, repeat, requests_log=requests_log))


async def run_phase(
    target: Target,
    prompts: Sequence[Prompt],
    phase: Phase,
    repeat: int,
    *,
    requests_log: Path | None = None,
    clock: Callable[[], float] = time.perf_counter,
    processor: Callable[[], float] = time.thread_time,
) -> PhaseResult:
    """Warm up if the phase says so, flush the radix cache, ramp up if staggered, then measure a closed loop.

    The first `phase.requests` prompts are measured, in order; fewer prompts are cycled. Warm-up
    and ramp use the end of the list, so they meet other prompts than the measured ones as long as
    there are enough. At concurrency 1 nothing can fall into step, and there is no ramp.
    How many requests a phase needs: `requests` / `concurrency` answers per worker make a steady
    window as many answers long, one slice of it for each, so four or more, and the uncertainty falls
    with the root of their number. More repeats instead of longer phases also meet drifts of the host.
    Cancelling closes all connections, on which SGLang aborts the requests.

    Args:
        prompts: In the study's order, the same for every config.
        repeat: Goes into the result; repeats send the same prompts.
        requests_log: One JSON line per measured request is appended: times and counts, no text.
            Written for a failed phase too, with the requests that ended before.
        clock: Seconds; never steps back.
        processor: Seconds of processor time that this thread has used.

    Raises:
        LoadFailed: The server broke, hung, refused, or reported impossible numbers; CLIENT_LIMITED when
            this process may not open enough files, or was itself the bottleneck.
        UsageError: The phase cannot be measured as asked.
    """
    _check(phase, prompts)
    measured = [prompts[i % len(prompts)] for i in range(phase.requests)]
    label = f"c={phase.concurrency}"
    reserve_files(phase.concurrency)
    started = clock()
    pulse, lateness = Pulse(started), Lateness()
    async with connections(phase.concurrency, pulse) as session:
        client = Client(session, target, clock, pulse)
        loop = ClosedLoop(client, phase, label)
        try:
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(_watch(client, label))]
                warm = await _warm_up(client, prompts, phase)
                await client.flush_cache(label)
                watches.append(group.create_task(lateness.watch(time.monotonic)))
                spent = processor()
                await loop.run(measured, ramp_prompts(prompts, phase))
                spent = processor() - spent
                for watch in watches:
                    watch.cancel()
        except BaseExceptionGroup as errors:
            raise _counted(_root(errors), phase, loop) from errors
        finally:
            if requests_log is not None and loop.traces:
                _write_log(requests_log, loop.traces, phase, repeat)
    if pulse.queued:
        raise limited(
            f"{pulse.queued} requests waited for a connection of the client, which may have "
            f"{phase.concurrency + SPARE_CONNECTIONS}: their times are the client's, not the server's",
            phase.concurrency,
        )
    refuse_garbage(loop.traces, phase)
    begun = min(trace.started for trace in loop.traces)
    result = summarise(
        loop.traces,
        phase,
        repeat,
        num_steps=target.num_steps,
        ramp=loop.ramp,
        limits=target.limits,
        warmup_s=begun - started if phase.warmup_requests or loop.ramp else 0.0,
        client_s=spent,
        prompts_sha256=prompts_sha256(measured[: len(prompts)]),
        notes=tuple(_notes(warm=warm, late=lateness.is_near_limit)),
    )
    return replace(
        result,
        requested=phase.requests,
        held_out=phase.held_out,
        workload=phase.workload or None,
        # Sampled answers differ by themselves, so nothing is told by comparing them.
        outputs=result.outputs if target.sampling.is_greedy else (),
        notes=tuple(dict.fromkeys(result.notes)),
    )


def _notes(*, warm: bool, late: bool) -> Iterator[Note]:
    if not warm:
        yield Note.WARMUP_TAINTED
    if late:
        yield Note.CLIENT_NEAR_LIMIT


async def _warm_up(client: Client, prompts: Sequence[Prompt], phase: Phase) -> bool:
    """Repeat one and the same round until two in a row agree in speed; return whether they did.

    Equal prompts and an emptied cache make rounds comparable: with other prompts, accept
    lengths alone would keep a speculating server from ever agreeing with itself.
    """
    if not phase.warmup_requests:
        return True
    tail = prompts[-phase.warmup_requests :]
    chosen = [tail[i % len(tail)] for i in range(phase.warmup_requests)]
    before: float | None = None
    for _ in range(phase.warmup_rounds):
        await client.flush_cache("warm-up")
        loop = ClosedLoop(client, phase.warm_up, "warm-up")
        await loop.run(chosen)
        took = max(trace.last for trace in loop.traces) - min(trace.started for trace in loop.traces)
        rate = sum(trace.tokens for trace in loop.traces) / took
        if before is not None and abs(rate - before) <= _WARM_WITHIN * max(rate, before):
            return True
        before = rate
    return False


async def _watch(client: Client, phase: str) -> None:
    """End the phase when the server has died, gone silent, or crawls. No length of a phase is too long by itself."""
    target, pulse = client.target, client.pulse
    pause = min(_WATCH_EVERY_S, target.silence_s / 4, target.crawl_s / 4)
    log_bytes, logged_at = target.log_bytes(), client.clock()
    crawl_from, crawl_arrivals = client.clock(), 0
    while True:
        await asyncio.sleep(pause)
        if evidence := target.death():
            raise LoadFailed(Reason.SERVER_CRASH_LOAD, evidence)
        now = client.clock()
        if (size := target.log_bytes()) != log_bytes:
            log_bytes, logged_at = size, now
        silent_s = now - pulse.last
        if pulse.open and silent_s > target.silence_s:
            line = f"waited for a token: none for {silent_s:.3g} s with {pulse.open} requests open"
            if now - logged_at > target.silence_s:
                raise LoadFailed(Reason.SERVER_HANG_LOAD, Evidence(f"{line}, and no new line in the log", phase))
            if silent_s > LOG_STRETCH * target.silence_s:
                raise LoadFailed(Reason.SERVER_HANG_LOAD, Evidence(f"{line}, though the log goes on", phase))
        if not pulse.open:
            crawl_from, crawl_arrivals = now, pulse.arrivals
        elif now - crawl_from > target.crawl_s:
            if (came := pulse.arrivals - crawl_arrivals) < target.crawl_arrivals:
                line = (
                    f"waited for tokens: {came} records brought some in {target.crawl_s:g} s with {pulse.open} requests "
                    f"open, but at least {target.crawl_arrivals} must"
                )
                raise LoadFailed(Reason.SERVER_HANG_LOAD, Evidence(line, phase))
            crawl_from, crawl_arrivals = now, pulse.arrivals


def _check(phase: Phase, prompts: Sequence[Prompt]) -> None:
    if not prompts:
        raise UsageError("A phase needs at least one prompt, but got none. Give a prompt file with prompts in it.")
    if not 1 <= phase.concurrency <= phase.requests:
        raise UsageError(
            f"`1 <= concurrency <= requests` must hold, but got concurrency {phase.concurrency} and "
            f"{phase.requests} requests. Raise `requests`: two or three times the concurrency gives a steady window."
        )
    if phase.output_tokens < 2:
        raise UsageError(
            f"`output_tokens >= 2` must hold, but got {phase.output_tokens}. Raise it: time per output token needs a second token."
        )


def _root(errors: BaseExceptionGroup) -> BaseException:
    """The first failure of a group of tasks; the others were cancelled because of it."""
    first = errors.exceptions[0]
    return _root(first) if isinstance(first, BaseExceptionGroup) else first


def _counted(error: BaseException, phase: Phase, loop: ClosedLoop) -> BaseException:
    """The failure with how many requests the phase was to measure, and how many had ended."""
    if not isinstance(error, LoadFailed):
        return error
    evidence = replace(error.evidence, requested=phase.requests, completed=len(loop.traces))
    return LoadFailed(error.reason, evidence, error.spent_s, error.leftovers)


def _write_log(path: Path, traces: Sequence[Trace], phase: Phase, repeat: int) -> None:
    """Append one line per measured request; times count from the first of them."""
    begun = min(trace.started for trace in traces)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        for trace in sorted(traces, key=lambda trace: trace.index):
            line = {
                **({"workload": phase.workload} if phase.workload else {}),
                "concurrency": phase.concurrency,
                "repeat": repeat,
                "index": trace.index,
                "prompt_id": trace.prompt_id,
                "worker": trace.worker,
                "start_s": round(trace.started - begun, 6),
                "first_s": round(trace.first - begun, 6),
                "last_s": round(trace.last - begun, 6),
                "tokens": trace.tokens,
                "verify_count": trace.verify_count,
            }
            log.write(json.dumps(line) + "\n")
