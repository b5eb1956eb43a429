"""What the server's log says of its decode batches during a phase, where no value reports it.

SGLang logs a line per 40 decode steps (`--decode-log-interval`), one per data-parallel rank
(`scheduler_metrics_mixin.py` of 0.5.9 and 0.5.11, `metrics_reporter.py` of 0.5.16 to 0.5.23):
`Decode batch, #running-req: 100, …, cuda graph: True, gen throughput (token/s): 20118.42, #queue-req: 0`.
Prefill lines say `cuda graph: False` as a rule and are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_DECODE = re.compile(rb"\] Decode batch\b[^\n]*")
_RUNNING = re.compile(rb"#running-req: (\d+)")
_QUEUED = re.compile(rb"#queue-req: (\d+)")
# `cuda graph` on NVIDIA's GPUs, `cpu graph` and the like elsewhere.
_NO_GRAPH = re.compile(rb"\bgraph: False\b")

_MISSES = 0.05
_QUEUES = 3


@dataclass(frozen=True, slots=True)
class DecodeLog:
    """Counts over the decode lines of a phase.

    Attributes:
        lines: All of them.
        without_graph: Those whose batch ran without a CUDA graph.
        most_running: The largest batch.
        queued: Those that report requests in the queue.
    """

    lines: int = 0
    without_graph: int = 0
    most_running: int = 0
    queued: int = 0

    @property
    def misses_graphs(self) -> bool:
        """Whether over a twentieth of the lines had no graph: fewer are the odd batch of another shape."""
        return self.without_graph > _MISSES * self.lines

    def admits_less_than(self, concurrency: int) -> bool:
        """Whether requests waited in three lines or more while no batch held all of them.

        A queue in the first line or two is the prefill of a load that has just begun.
        """
        return self.queued >= _QUEUES and self.most_running < concurrency


def read_decode_log(path: Path, start: int) -> DecodeLog:
    """Read what was appended to the log after byte `start`; a missing log has no lines."""
    try:
        with path.open("rb") as log:
            log.seek(start)
            written = log.read()
    except FileNotFoundError:
        return DecodeLog()
    lines = _DECODE.findall(written)
    return DecodeLog(
        lines=len(lines),
        without_graph=sum(bool(_NO_GRAPH.search(line)) for line in lines),
        most_running=max((_number(_RUNNING, line) for line in lines), default=0),
        queued=sum(_number(_QUEUED, line) > 0 for line in lines),
    )


def log_size(path: Path) -> int:
    """Bytes of the log so far; 0 without one."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _number(pattern: re.Pattern[bytes], line: bytes) -> int:
    found = pattern.search(line)
    return int(found[1]) if found else 0
