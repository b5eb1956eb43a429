"""What share of a server's time its decode steps fill at a load, from the server's own log.

Where prefill fills the time, speculation cannot show what it does: a study of shapes needs a load at which decode fills
most of it. SGLang logs a line per prefill batch and one per 40 decode steps (`--decode-log-interval`), with the batch, the
accept length and the rate since the line before (0.5.11 `scheduler_metrics_mixin.py`, 0.5.16 `metrics_reporter.py`). So
the time between two decode lines is known, and what was prefilled in it. Between lines of a full batch that time is

    decode steps x s per step + prefill batches x s per batch + prefilled tokens x s per token,

and the three rates, none below zero, are fitted by least squares. The uncertainty is the fit's on resampled pieces of the
log. Where a start ran several shapes (`docs/shapes.md`), each is read apart. A log with `--decode-log-interval 4` or so settles more in the same time, since some of its gaps hold no prefill at all.

    python -m benchmarks.decode_share server.log --load 100 [--interval 40] [--at-least 0.8]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

_SWITCH = re.compile(r"SEARCH_SHAPES (\w+) (k\d+-s\d+-d\d+) after ")
_DECODE = re.compile(r"\] Decode batch\b.*")
_PREFILL = re.compile(r"\] Prefill batch\b.*")
_RUNNING = re.compile(r"#running-req: (\d+)")
_NEW = re.compile(r"#new-token: (\d+)")
_ACCEPT = re.compile(r"accept len: (\d+(?:\.\d+)?)")
_RATE = re.compile(r"gen throughput \(token/s\): (\d+(?:\.\d+)?)")

SWITCHED = "switched"
"""As `plugin/search_shapes/switch.py` says it."""
FULL = 0.85
"""Of the load that has to be running for a gap to count: fewer run while the load begins and ends."""
LEAST_GAPS = 8
RESAMPLED = 400
APART = 0.02
"""Of decode's part of the gaps that has to move apart from prefill's: below it the two cannot be told from each other."""
_BLOCKS = 20


@dataclass(frozen=True, slots=True)
class Gap:
    """What lies between two decode lines.

    Attributes:
        running: Requests in the batch, the fewer of the two lines'.
        steps: Decode steps.
        seconds: Of the clock.
        batches: Prefill batches, with `tokens` that were not cached.
        shape: A shared start was switched to; empty before the first switch.
    """

    running: int
    steps: int
    seconds: float
    batches: int
    tokens: int
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """Of decode, with its 95% CI.

    Attributes:
        gaps: It is read from.
        step_ms: Of a decode step; a verify pass with its drafts where the server speculates.
    """

    share: float
    low: float
    high: float
    gaps: int
    step_ms: float

    def verdict(self, least: float) -> str:
        """Whether decode fills at least that share: `yes`, `no` or `not settled`."""
        if self.low >= least:
            return "yes"
        return "no" if self.high < least else "not settled"


def gaps_of(lines: Iterable[str], interval: int) -> Iterator[Gap]:
    """Gaps between the decode lines of a log, in its order; a first line has none before it.

    Args:
        lines: Of the log of one data-parallel rank.
        interval: Decode steps per line, as `--decode-log-interval`.
    """
    before: int | None = None
    batches = tokens = 0
    shape = ""
    for line in lines:
        if found := _SWITCH.search(line):
            # Not every switch succeeds; the one that did not left the shape before it.
            before, shape = None, found[2] if found[1] == SWITCHED else shape
        elif found := _PREFILL.search(line):
            batches += 1
            tokens += int(_number(_NEW, found[0]) or 0)
        elif found := _DECODE.search(line):
            running, rate = _number(_RUNNING, found[0]), _number(_RATE, found[0])
            if running is None or rate is None:
                continue
            if before is not None and running and rate:
                # The rate is of all tokens since the line before; the batch is nearly the same at a load that stands.
                made = interval * (before + running) / 2 * (_number(_ACCEPT, found[0]) or 1.0)
                yield Gap(min(before, int(running)), interval, made / rate, batches, tokens, shape)
            before, batches, tokens = int(running), 0, 0


def share_of(gaps: Sequence[Gap], *, seed: int = 0) -> Share | None:
    """Share of the time that decode steps fill; None for fewer than eight gaps, which settle nothing."""
    if len(gaps) < LEAST_GAPS:
        return None
    rows = np.array([[gap.steps, gap.batches, gap.tokens] for gap in gaps], dtype=float)
    seconds = np.array([gap.seconds for gap in gaps])
    rng = np.random.default_rng(seed)
    drawn = [_fitted(rows[picked], seconds[picked]) for picked in _resampled(len(gaps), rng)]
    share, step = _fitted(rows, seconds)
    low, high = np.quantile([one[0] for one in drawn], (0.025, 0.975)) if _apart(rows) else (0.0, 1.0)
    return Share(share, float(min(low, share)), float(max(high, share)), len(gaps), 1000 * step)


def _resampled(count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    # In pieces of neighbours, because a load that moves in step repeats itself.
    pieces = np.array_split(np.arange(count), min(_BLOCKS, count))
    for _ in range(RESAMPLED):
        yield np.concatenate([pieces[place] for place in rng.integers(0, len(pieces), len(pieces))])


def _apart(rows: np.ndarray) -> bool:
    """Whether steps and prefill vary apart from each other: the same prefill in every gap says nothing of its cost."""
    steps, prefill = rows[:, 0], rows[:, 1:]
    if not prefill.any():
        return True
    left = steps - prefill @ np.linalg.lstsq(prefill, steps, rcond=None)[0]
    return bool(np.linalg.norm(left) > APART * np.linalg.norm(steps))


def _fitted(rows: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """Share of decode, and seconds of a step."""
    scale = np.where(rows.max(axis=0) > 0, rows.max(axis=0), 1.0)
    rates = nnls(rows / scale, seconds)[0] / scale
    parts = rows.sum(axis=0) * rates
    return float(parts[0] / parts.sum()) if parts.sum() > 0 else 0.0, float(rates[0])


def _number(pattern: re.Pattern[str], line: str) -> float | None:
    found = pattern.search(line)
    return float(found[1]) if found else None


def main(argv: Sequence[str] | None = None) -> int:
    """Print the share of each shape and load; 0 where all fill `--at-least`, 1 where one does not or is not settled, 2 without data."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--load", type=int, nargs="+", default=[100], help="requests that run at a time (default: 100)")
    parser.add_argument("--interval", type=int, default=40, help="the server's `--decode-log-interval` (default: 40)")
    parser.add_argument("--at-least", type=float, default=0.8, metavar="SHARE")
    options = parser.parse_args(argv)
    with options.log.open(encoding="utf8", errors="replace") as log:
        gaps = list(gaps_of(log, options.interval))
    worst = 0
    for shape in dict.fromkeys(gap.shape for gap in gaps) or [""]:
        for load in options.load:
            mine = [gap for gap in gaps if gap.shape == shape and FULL * load <= gap.running <= load]
            name = f"{shape or 'as started'} at C={load}"
            share = share_of(mine)
            if share is None:
                print(
                    f"{name}: a share needs {LEAST_GAPS} gaps between decode lines of {FULL:.0%} of the load or more, but the log "
                    f"has {len(mine)}. Send more requests, or start the server with a smaller `--decode-log-interval`."
                )
                worst = 2
                continue
            answer = share.verdict(options.at_least)
            print(
                f"{name}: decode fills {share.share:.0%} of the time (95% CI {share.low:.0%} to {share.high:.0%}; {share.gaps} "
                f"gaps, {share.step_ms:.2f} ms per step); at least {options.at_least:.0%}: {answer}"
            )
            worst = max(worst, 0 if answer == "yes" else 1)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
