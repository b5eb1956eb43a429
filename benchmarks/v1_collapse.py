"""Does one line of SGLang 0.5.11 explain how the v1 worker's accept length collapses under load?

After a verify pass the v1 worker lays the accepted tokens of all requests one behind the other, as many of each as were
accepted (0.5.11 `speculative/eagle_info.py`, `prepare_extend_after_decode`). The triton backend replays the graph of that
draft pass as if each request had `num_steps + 1` of them (`layers/attention/triton_backend.py`,
`init_forward_metadata_replay_cuda_graph`; 0.5.9 took the accepted counts there). So a request whose last token lies in
the rows of another one attends to that other's text, and its next drafts are guesses; the first request is always right.

This follows requests through that layout. Only two things are taken from the recording: what a pass accepts at
concurrency 1, where every row is its own, and, from the highest load, what a guess accepts. The loads between are
predicted. It needs no GPU; whether the line is the cause is settled on one (`docs/topk2.md`).

    python -m benchmarks.v1_collapse [recordings/h200-codelm-0.5.11]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search.config import SpecConfig
from search.engines.recording import Recording, read_recording

ROOT = Path(__file__).parents[1] / "recordings"
_TUNING = 12
_RUNS = 20

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Explained:
    """Accept length of a v1 config at a load between the lowest and the highest that were recorded.

    Attributes:
        alone: At concurrency 1, where nothing collapses.
        predicted: By the layout; `measured` is the recording's.
        own: Share of the passes whose drafts came from the request's own text.
    """

    config: str
    load: int
    alone: float
    predicted: float
    measured: float
    own: float


def rows_are_own(accepted: Sequence[int], width: int) -> list[bool]:
    """Whether each request's last accepted token is taken for its own.

    Args:
        accepted: Tokens of each request that the last pass emitted, in the order of the batch; from 1 to `width`.
        width: Rows the replayed graph gives to each request, `num_steps + 1`.
    """
    last = np.cumsum(accepted) - 1
    return [bool(row // width == place) for place, row in enumerate(last)]


def passes(own: Floats, guess: Floats, load: int, *, requests: int, length: int, seed: int) -> tuple[Floats, float]:
    """Follow `requests` of `length` tokens, `load` at a time: share of passes by accepted drafts, and of those with own drafts.

    Args:
        own: Probabilities of 0, 1, 2, … accepted drafts from own text; `guess` of those from another's.
        load: Requests in the batch.
        requests: In all.
        length: Tokens of an answer, the first of them from prefill.
        seed: Of the draws.
    """
    rng, width = np.random.default_rng(seed), len(own)
    counts, right, all_passes = np.zeros(width), 0, 0
    left, waiting = [length - 1] * min(load, requests), max(0, requests - load)
    is_own = [True] * len(left)  # prefill lays whole prompts, each its own
    while left:
        drawn = rng.random(len(left))
        drafts = np.where(is_own, np.searchsorted(np.cumsum(own), drawn), np.searchsorted(np.cumsum(guess), drawn))
        drafts = np.minimum(drafts, width - 1)
        counts += np.bincount(drafts, minlength=width)
        right, all_passes = right + sum(is_own), all_passes + len(left)
        stay = [place for place, tokens in enumerate(left) if tokens > drafts[place] + 1]
        left = [left[place] - int(drafts[place]) - 1 for place in stay]
        is_own = rows_are_own([int(drafts[place]) + 1 for place in stay], width)
        joining = min(load - len(left), waiting)
        waiting -= joining
        left, is_own = left + [length - 1] * joining, is_own + [True] * joining
    return counts / counts.sum(), right / all_passes


def guess_of(own: Floats, collapsed: Floats, load: int, *, requests: int, length: int) -> Floats:
    """What a guess accepts, so that the layout gives the `collapsed` passes of a load."""
    guess = collapsed.copy()
    for _ in range(_TUNING):
        _, share = passes(own, guess, load, requests=requests, length=length, seed=0)
        guess = np.clip((collapsed - share * own) / max(1.0 - share, 1e-9), 1e-6, None)
        guess /= guess.sum()
    return guess


def explained(recording: Recording, *, length: int = 128) -> Iterator[Explained]:
    """Each v1 config with histograms at three loads or more, at the loads between."""
    for config, seen in _histograms(recording).items():
        loads = sorted(seen)
        if config.spec_version != "v1" or len(loads) < 3 or loads[0] != 1:
            continue
        own, steps = seen[1], np.arange(len(seen[1]))
        guess = guess_of(own, seen[loads[-1]], loads[-1], requests=3 * loads[-1], length=length)
        for load in loads[1:-1]:
            runs = [passes(own, guess, load, requests=4 * load, length=length, seed=seed) for seed in range(_RUNS)]
            yield Explained(
                config.config_id, load, float(1 + own @ steps), float(1 + np.mean([run[0] @ steps for run in runs])),
                float(1 + seen[load] @ steps), float(np.mean([run[1] for run in runs])),
            )  # fmt: skip


def _histograms(recording: Recording) -> dict[SpecConfig, dict[int, Floats]]:
    found: dict[SpecConfig, dict[int, Floats]] = {}
    for row in recording.rows:
        if row.accept_histogram and row.concurrency is not None:
            counts = np.asarray(row.accept_histogram, dtype=float)
            loads = found.setdefault(row.config, {})
            loads[row.concurrency] = loads.get(row.concurrency, np.zeros(len(counts))) + counts
    return {config: {load: counts / counts.sum() for load, counts in loads.items()} for config, loads in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print predicted beside measured; 2 where the recording has no v1 config at three loads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("recording", nargs="?", type=Path, default=ROOT / "h200-codelm-0.5.11")
    options = parser.parse_args(argv)
    found = list(explained(read_recording(options.recording)))
    if not found:
        print("A v1 config with accept histograms at C=1 and two higher loads is needed; the recording has none.")
        return 2
    print(f"{'config':<16} {'load':>4} {'alone':>6} {'predicted':>9} {'measured':>8} {'own drafts':>10}")
    for one in found:
        print(
            f"{one.config:<16} {one.load:>4} {one.alone:>6.2f} {one.predicted:>9.2f} {one.measured:>8.2f} {one.own:>10.0%}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
