"""What share of the time decode would fill at a load, from what a step and a prefill cost and how long answers are.

A forecast for choosing lengths before a GPU is had; `benchmarks.decode_share` measures it afterwards. A staggered closed
loop is followed step by step: an answer that ends makes its worker's next request wait, and a prefill batch takes all that
wait and stops everybody's decoding meanwhile. Prefill costs the same whatever its length, as it does where the processor
launches its kernels one by one and the GPU waits for it.

    python -m benchmarks.prefill_stops --step-ms 8 --prefill-ms 20 [--accept 0.5 0.2 0.3] [--answers 128 160 320 900] [--waiting 1 10]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_WARM = 500


@dataclass(frozen=True, slots=True)
class Load:
    """A staggered closed loop.

    Attributes:
        concurrency: Workers, each with one request.
        answer: Mean tokens of an answer, which lie between half and one and a half times that.
        waiting: Requests that are let wait for one prefill.
    """

    concurrency: int
    answer: int
    waiting: int = 1


def forecast(
    load: Load, *, step_ms: float, prefill_ms: float, accept: Sequence[float] = (1.0,), steps: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Share of the time that decode fills, and output tok/s.

    Args:
        load: What is sent.
        step_ms: Of a decode step, or of a draft and its verify pass.
        prefill_ms: Of a prefill batch, the draft's part included.
        accept: Probabilities of 1, 2, … tokens per step.
        steps: That are followed.
        seed: Of the draws.
    """
    rng = np.random.default_rng(seed)
    left, waiting = rng.uniform(1, load.answer, load.concurrency), 0
    tokens = prefills = 0
    for step in range(steps + _WARM):
        if step == _WARM:
            tokens = prefills = 0
        if waiting and (waiting >= load.waiting or not len(left)):
            begun = rng.uniform(0.5 * load.answer, 1.5 * load.answer, waiting) - 1
            left, tokens, prefills, waiting = np.concatenate([left, begun]), tokens + waiting, prefills + 1, 0
        made = 1 + rng.choice(len(accept), size=len(left), p=accept)
        tokens += int(np.minimum(made, np.ceil(left)).sum())
        left = left - made
        waiting += int((left <= 0).sum())
        left = left[left > 0]
    decode_ms, prefill_all_ms = steps * step_ms, prefills * prefill_ms
    return decode_ms / (decode_ms + prefill_all_ms), 1000.0 * tokens / (decode_ms + prefill_all_ms)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each length and each number of requests that wait."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--prefill-ms", type=float, required=True)
    parser.add_argument(
        "--accept", type=float, nargs="+", default=[1.0], help="probabilities of 1, 2, … tokens per step"
    )
    parser.add_argument("--load", type=int, default=100)
    parser.add_argument("--answers", type=int, nargs="+", default=[128, 160, 320, 900])
    parser.add_argument("--waiting", type=int, nargs="+", default=[1, 10])
    options = parser.parse_args(argv)
    whole = sum(options.accept)
    if not whole > 0 or min(options.accept) < 0:
        parser.error(
            f"`--accept` holds probabilities, not all of them 0, but got {options.accept}. Give shares of passes."
        )
    accept = [share / whole for share in options.accept]
    for answer in options.answers:
        for waiting in options.waiting:
            share, rate = forecast(
                Load(options.load, answer, waiting),
                step_ms=options.step_ms,
                prefill_ms=options.prefill_ms,
                accept=accept,
            )
            print(f"answers of {answer}, a prefill when {waiting} wait: decode fills {share:.0%}, {rate:,.0f} tok/s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
