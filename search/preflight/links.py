"""What an all-reduce costs between the GPUs of one slot: measured in seconds, before the first launch.

A tensor-parallel pass of `layers` layers makes two all-reduces a layer, each of tokens x hidden size. Over a slow link
that is most of a verify pass, and then the number of draft tokens decides what speculation is worth. NCCL is timed
(through torch, in CUDA graphs, as decode runs it); SGLang's own custom all-reduce and its fused kernels are others, and
are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import IO, Final, Literal, TypeAlias

from search.preflight.installed_process import whole_object

Backend: TypeAlias = Literal["nccl", "gloo"]

TOKENS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CALLS, BATCHES = 40, 9
"""All-reduces in one graph, and how often it is replayed: a few milliseconds a size."""
LIMIT_S = 120.0
"""For one setting: importing torch takes seconds, NCCL's start a second or two, the timing less than one."""
ALL_REDUCES_A_LAYER = 2
"""After attention and after the MLP (`LlamaDecoderLayer` and its kin, any SGLang release)."""


@dataclass(frozen=True, slots=True)
class LinkPoint:
    """One size: microseconds of one all-reduce of `tokens` x hidden, the slowest rank's.

    Attributes:
        us: Median over batches; `low_us` and `high_us` are their extremes.
    """

    tokens: int
    us: float
    low_us: float
    high_us: float


@dataclass(frozen=True, slots=True)
class LinkFit:
    """`latency_us + token_us * tokens`.

    Attributes:
        latency_us: Of the smallest one.
        token_us: What each token adds.
    """

    latency_us: float
    token_us: float

    @property
    def knee(self) -> float | None:
        """Tokens at which an all-reduce costs twice its latency: from here on tokens are what is paid for."""
        return self.latency_us / self.token_us if self.token_us > 0 else None


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """What one setting gave.

    Attributes:
        setting: Variables in force beyond the study's own, by name; empty for the study as it is.
        ranks: GPUs that take part.
        hidden: Size of a token's vector.
        item_bytes: Of one number of it.
        device: Their kind, as torch says.
        library: NCCL's version, or `gloo`.
        in_graph: Whether all sizes were replayed from CUDA graphs.
        points: By size, ascending; fewer where it ended early.
        trouble: Why it has no points or not all; empty when it has.
    """

    setting: tuple[tuple[str, str], ...]
    ranks: int
    hidden: int
    item_bytes: int = 2
    device: str = ""
    library: str = ""
    in_graph: bool = False
    points: tuple[LinkPoint, ...] = ()
    trouble: str = ""

    @property
    def fit(self) -> LinkFit | None:
        """Latency and cost per token, by least squares on relative errors; None with fewer than two sizes."""
        return fitted(self.points)

    def at(self, tokens: float) -> float | None:
        """Microseconds of one all-reduce of so many tokens: between measured sizes by straight lines.

        Beyond the largest size in proportion to what the last two add; None without two sizes.
        """
        if len(self.points) < 2:
            return None
        low, high = self.points[-2], self.points[-1]
        for left, right in zip(self.points, self.points[1:], strict=False):
            if tokens <= right.tokens:
                low, high = left, right
                break
        share = (tokens - low.tokens) / (high.tokens - low.tokens)
        return max(0.0, low.us + share * (high.us - low.us))

    def pass_ms(self, tokens: float, layers: int) -> float | None:
        """Milliseconds that one pass over so many tokens spends in all-reduces, had it nothing else to do meanwhile."""
        each = self.at(tokens)
        return None if each is None else ALL_REDUCES_A_LAYER * layers * each / 1000.0

    def bus_gbps(self, tokens: int) -> float | None:
        """Gigabytes per second over each GPU's link, as `nccl-tests` counts bus bandwidth: 2 (n - 1) / n x bytes / time."""
        each = self.at(tokens)
        if not each:
            return None
        return 2 * (self.ranks - 1) / self.ranks * tokens * self.hidden * self.item_bytes / each / 1000.0


def fitted(points: Sequence[LinkPoint]) -> LinkFit | None:
    """Latency and cost per token of some points, each error relative to its own value; neither is negative."""
    if len({point.tokens for point in points}) < 2:
        return None
    weights = [1.0 / point.us**2 for point in points]
    total = sum(weights)
    mean_x = sum(w * point.tokens for w, point in zip(weights, points, strict=True)) / total
    mean_y = sum(w * point.us for w, point in zip(weights, points, strict=True)) / total
    spread = sum(w * (point.tokens - mean_x) ** 2 for w, point in zip(weights, points, strict=True))
    joint = sum(w * (point.tokens - mean_x) * (point.us - mean_y) for w, point in zip(weights, points, strict=True))
    slope = max(0.0, joint / spread)
    latency = mean_y - slope * mean_x
    if latency < 0:  # nothing but tokens is paid for: a line through zero
        slope = sum(w * point.tokens * point.us for w, point in zip(weights, points, strict=True)) / sum(
            w * point.tokens**2 for w, point in zip(weights, points, strict=True)
        )
        latency = 0.0
    return LinkFit(latency, slope)


def probe_links(
    *,
    ranks: int,
    hidden: int,
    python: str,
    env: Mapping[str, str],
    port: int,
    setting: Mapping[str, str] | None = None,
    backend: Backend = "nccl",
    tokens: Sequence[int] = TOKENS,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> LinkProbe:
    """Time all-reduces between `ranks` processes of the engine's interpreter.

    Nothing outlives it: each rank has a session of its own, which is killed at the end, whatever ends it.

    Args:
        ranks: From 2.
        hidden: Of the target.
        python: The engine's interpreter; empty for our own. It needs torch.
        env: Full environment of the ranks; `CUDA_VISIBLE_DEVICES` names the slot's GPUs.
        port: A free one of loopback, where the ranks meet.
        setting: Variables on top, such as `NCCL_P2P_DISABLE`.
        backend: `gloo` needs no GPU and shows nothing of one.
        tokens: Sizes.
        limit_s: For all of it.
        clock: Seconds; never steps back.
    """
    chosen = tuple(sorted((setting or {}).items()))
    empty = LinkProbe(chosen, ranks, hidden)
    if ranks < 2:
        return replace(empty, trouble="one GPU has nobody to reduce with")
    ask = json.dumps({"backend": backend, "hidden": hidden, "tokens": list(tokens), "calls": CALLS, "batches": BATCHES})
    code = files("search.preflight").joinpath("_links_probe.py").read_text(encoding="utf-8")
    python = python or sys.executable
    with ExitStack() as stack:
        # Files, not pipes: a grandchild could hold a pipe open.
        out = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
        errors = [
            stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")) for _ in range(ranks)
        ]
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, processes)
        try:
            for rank in range(ranks):
                processes.append(  # noqa: PERF401 - those that started are ended whatever the next one does
                    subprocess.Popen(
                        [python, "-c", code, ask],
                        env={**env, **dict(chosen), **_of_a_rank(rank, ranks, port)},
                        stdin=subprocess.DEVNULL,
                        stdout=out if rank == 0 else subprocess.DEVNULL,
                        stderr=errors[rank],
                        start_new_session=True,
                    )
                )
        except OSError as error:
            return replace(empty, trouble=f"{python} could not be started: {error}")
        failed, ending = _wait(processes, limit_s, clock)
        _end(processes)
        return _read(out, empty, trouble=ending and f"{ending}{_last(errors[failed])}", sizes=len(tokens))


def _of_a_rank(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def _wait(processes: Sequence[subprocess.Popen[bytes]], limit_s: float, clock: Callable[[], float]) -> tuple[int, str]:
    """Wait for all; whose end was otherwise than well, and how, or empty. One that fails ends the wait: others would hang."""
    end = clock() + limit_s
    while True:
        codes = [process.poll() for process in processes]
        for rank, code in enumerate(codes):
            if code:
                return rank, f"rank {rank} {'was ended by signal' if code < 0 else 'ended with status'} {abs(code)}"
        if all(code == 0 for code in codes):
            return 0, ""
        if clock() > end:
            return 0, f"it did not finish within {limit_s:g} s"
        time.sleep(0.05)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(out: IO[str], empty: LinkProbe, *, trouble: str, sizes: int) -> LinkProbe:
    out.seek(0)
    lines = [found for line in out if (found := whole_object(line)) is not None]
    ready = next((line for line in lines if line.get("state") == "ready"), None)
    points, graphs = [], []
    for line in lines:
        try:
            point = LinkPoint(int(line["tokens"]), float(line["us"]), float(line["low"]), float(line["high"]))
        except (KeyError, TypeError, ValueError):
            continue
        if point.us > 0:
            points.append(point)
            graphs.append(bool(line.get("graph")))
    if not trouble and len(points) < sizes:
        trouble = f"{len(points)} of {sizes} sizes were reported"
    ready = ready or {}
    return replace(
        empty,
        device=str(ready.get("device", "")),
        library=str(ready.get("library", "")),
        item_bytes=int(ready.get("bytes", empty.item_bytes)),
        in_graph=bool(graphs) and all(graphs),
        points=tuple(sorted(points, key=lambda point: point.tokens)),
        trouble=trouble,
    )


def _last(err: IO[str]) -> str:
    """The telling line of what the ranks printed: an exception, or the last words."""
    err.seek(0)
    said = [line.strip() for line in err if line.strip()]
    telling = [line for line in said if "Error" in line.split(":")[0]] or said
    return f": {telling[-1][:200]}" if telling else ""
