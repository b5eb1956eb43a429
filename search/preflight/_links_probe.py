"""One rank of the all-reduce probe. Run with `-c` by the engine's interpreter, which needs torch and nothing of ours.

Takes one argument, a JSON object (`backend`, `hidden`, `tokens`, `calls`, `batches`), and torch's usual variables of a
rank. Rank 0 prints JSON lines: what it runs on, then a line for each size.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def main() -> None:
    """Time all-reduces of each size; on a GPU inside a CUDA graph, as decode runs them."""
    import torch
    import torch.distributed as dist

    ask = json.loads(sys.argv[1])
    rank, cuda = int(os.environ["RANK"]), ask["backend"] == "nccl"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(ask["backend"])
    device = torch.device("cuda" if cuda else "cpu")
    # gloo has no bfloat16 sum in every build.
    kind = torch.bfloat16 if cuda else torch.float32

    def tell(line: Mapping[str, Any]) -> None:
        if rank == 0:
            print(json.dumps(line), flush=True)  # noqa: T201

    tell(
        {
            "state": "ready",
            "torch": torch.__version__,
            "library": ".".join(map(str, torch.cuda.nccl.version())) if cuda else "gloo",
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "bytes": torch.finfo(kind).bits // 8,
        }
    )
    for tokens in ask["tokens"]:
        buffer = torch.zeros(tokens, ask["hidden"], dtype=kind, device=device)
        run, in_graph = _prepare(torch, dist, buffer, ask["calls"], cuda)
        times: list[float] = []
        for batch in range(ask["batches"] + 1):
            dist.barrier()
            began = time.perf_counter()
            run()
            if cuda:
                torch.cuda.synchronize()
            if batch:  # the first one is warm-up
                times.append((time.perf_counter() - began) / ask["calls"] * 1e6)
        # The slowest rank decides how long a pass waits.
        worst = torch.tensor(times, dtype=torch.float32, device=device)
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        found = sorted(worst.tolist())
        tell(
            {
                "tokens": tokens,
                "us": statistics.median(found),
                "low": found[0],
                "high": found[-1],
                "graph": in_graph,
            }
        )
    dist.barrier()
    dist.destroy_process_group()


def _prepare(torch: Any, dist: Any, buffer: Any, calls: int, cuda: bool) -> tuple[Callable[[], None], bool]:
    """A function that makes all calls, and whether it replays a CUDA graph."""

    def eager() -> None:
        for _ in range(calls):
            dist.all_reduce(buffer)

    if not cuda:
        return eager, False
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        eager()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            eager()
    except RuntimeError:
        torch.cuda.synchronize()
        return eager, False
    return graph.replay, True


main()
