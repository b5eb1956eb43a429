"""The fake's child processes: they boot, log in the real server's words, make tokens, and die on demand."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Collection
from datetime import UTC, datetime

from search.testing._batcher import Costs
from search.testing._link import run_scheduler
from search.testing._noise import make_noise

LOAD = 8
"""Batch size from which misbehaviours under load strike."""

_WORKER = (
    '  File "/site/sglang/srt/managers/scheduler.py", line 3130, in run_scheduler_process\n    scheduler = Scheduler('
)
_LOAD = (
    '  File "/site/sglang/srt/model_executor/model_runner.py", line 1022, in load_model\n    self.model = get_model('
)
_POOL = (
    '  File "/site/sglang/srt/model_executor/model_runner.py", line 1803, in init_memory_pool\n    raise RuntimeError('
)
_GRAPH = '  File "/site/sglang/srt/model_executor/cuda_graph_runner.py", line 410, in capture\n    self.capture_one_batch_size('
_LOOP = '  File "/site/sglang/srt/managers/scheduler.py", line 1120, in event_loop_overlap\n    result = self.run_batch(batch)'

_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 139.80 GiB "
    "of which 110.50 MiB is free."
)

# Misbehaviour -> the boot step it strikes after, the frame, the exception.
DEATHS = {
    "die-loading": ("Load weight begin", _LOAD, "RuntimeError: Cannot find any model weights with `/models/target`"),
    "oom-weights": ("Load weight begin", _LOAD, _OOM),
    "oom-kv": (
        "Load weight end",
        _POOL,
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "self.server_args.mem_fraction_static=0.84",
    ),
    "oom-graph": ("Capture cuda graph begin", _GRAPH, _OOM),
    "die-graph-capture": ("Capture cuda graph begin", _GRAPH, "ModuleNotFoundError: No module named 'deep_gemm'"),
}

_BOOT = (
    "Init torch distributed begin.",
    "Init torch distributed ends. elapsed=0.31 s, mem usage=0.09 GB",
    "Load weight begin. avail mem=138.90 GB",
    "Load weight end. elapsed=1.52 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=137.31 GB, mem usage=1.59 GB.",
    "KV Cache is allocated. #tokens: 1048576, K size: 32.00 GB, V size: 32.00 GB",
    "Memory pool end. avail mem=72.80 GB",
    "Capture cuda graph begin. This can take up to several minutes. avail mem=72.70 GB",
    "Capture cuda graph end. Time elapsed: 2.11 s. mem usage=0.84 GB. avail mem=71.86 GB.",
    "max_total_num_tokens=1048576, chunked_prefill_size=8192, max_prefill_tokens=16384",
)


def say(text: str, rank: str = "") -> None:
    """Log one record in one write, as the real one does: ranks share the file."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    os.write(2, f"[{stamp}{rank}] {text}\n".encode(errors="surrogateescape"))


def die(frame: str, exception: str) -> None:
    """Log the exception as a dying scheduler does, and notify the launcher."""
    say(f"Scheduler hit an exception: Traceback (most recent call last):\n{_WORKER}\n{frame}\n{exception}\n", " TP0")
    os.kill(os.getppid(), signal.SIGQUIT)
    sys.exit(1)


def scheduler(
    *, misbehaviours: Collection[str], boot_s: float, ready: int, link: socket.socket, costs: Costs, limit: int
) -> None:
    """Boot, notify the launcher, then make tokens for the requests that arrive.

    Args:
        misbehaviours: Names of what goes wrong.
        boot_s: Seconds to boot.
        ready: File descriptor that the launcher waits on.
        link: Requests come and tokens go through it.
        costs: Of a step.
        limit: Requests at once.
    """
    for line in _BOOT:
        say(line, " TP0")
        time.sleep(boot_s / len(_BOOT))
        if line.startswith("Load weight begin"):
            make_noise(misbehaviours)
        for name in misbehaviours:
            after, frame, exception = DEATHS.get(name, (None, "", ""))
            if after is not None and line.startswith(after):
                die(frame, exception)
        if line.startswith("Load weight begin") and "never-ready" in misbehaviours:
            time.sleep(3600)
        if line.startswith("Load weight begin") and "busy-never-ready" in misbehaviours:
            while True:
                pass
        if line.startswith("Init torch distributed begin") and "hang-in-rendezvous" in misbehaviours:
            time.sleep(3600)
    os.write(ready, b"ready\n")
    os.close(ready)

    def fail() -> None:
        die(_LOOP, "RuntimeError: CUDA error: an illegal memory access was encountered")

    def watch(batch: int) -> bool:
        if "die-under-load" in misbehaviours and batch >= LOAD:
            fail()
        return not ("hang-under-load" in misbehaviours and batch >= LOAD)

    asyncio.run(run_scheduler(link, costs, limit=limit, watch=watch, die=fail))


def detokenizer() -> None:
    """Wait to be killed."""
    while True:
        time.sleep(3600)


def grandchild(*, new_session: bool = False) -> None:
    """Leave a process behind that no tree walk from the launcher finds: forked twice, deaf to SIGTERM."""
    if os.fork() == 0:
        if new_session:
            os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            detokenizer()
        os._exit(0)
    os.wait()
