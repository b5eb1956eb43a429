"""What a 0.5.11 recording led to expect of v2 trees, beside what SGLang 0.5.16 gave in a first look.

SGLang 0.5.11 runs no tree on the overlapped worker, so a tree on v2 is a prediction: the belief of a study is given one
recording alone and asked for shapes that 0.5.16 ran. Two things differ besides the tree and are no part of the belief: the
release, and the training of the models. `off` and the chain that both releases ran show how much that is.

    python -m benchmarks.first_look [recordings/h200-codelm-0.5.11] [--without-v1]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from search.config import SpecConfig
from search.engines.recording import Recording, read_recording
from search.model.belief import Belief, Prior
from search.samplers.warm_start import recorded_evidence

ROOT = Path(__file__).parents[1] / "recordings"
ENDS = (0.05, 0.95)
ANCHOR = "v2-k1-s2-d3"
"""Ran on both releases."""
FIRST_LOOK = {
    "off": {1: 318.0, 100: 5210.0},
    "v2-k1-s2-d3": {1: 496.0, 100: 5190.0},
    "v2-k2-s2-d7": {1: 517.0, 100: 5100.0},
    "v2-k4-s3-d16": {1: 646.0, 100: 5620.0},
    "v2-k1-s4-d5": {1: 672.0, 100: 6740.0},
    "v2-k2-s4-d15": {1: 717.0, 100: 5820.0},
}
"""Output tok/s by config and load: one H200, SGLang 0.5.16, STANDALONE draft, one launch each, staggered start (issue 17)."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One number of the first look and what was expected of it, in output tokens per second.

    Attributes:
        known: Whether the recording holds the config at that load.
        times_anchor: Measured / the anchor's measured; `expected_times_anchor` likewise of what was expected.
    """

    config: str
    load: int
    measured: float
    low: float
    expected: float
    high: float
    known: bool
    times_anchor: float
    expected_times_anchor: float

    @property
    def held(self) -> bool:
        """Whether the band of 90% holds the number."""
        return self.low <= self.measured <= self.high


def expectations(recording: Recording, *, without_v1: bool = False, seed: int = 0) -> Iterator[Expected]:
    """Every number of the first look, as the belief sees it from a recording alone.

    Args:
        recording: Of another release.
        without_v1: Leave out configs of the v1 worker, whose accept length collapses under load there.
        seed: Of the belief's prior.
    """
    seen = [item for item in recorded_evidence(recording)[0] if not (without_v1 and item.config.spec_version == "v1")]
    asked = {SpecConfig.from_id(name): numbers for name, numbers in FIRST_LOOK.items()}
    configs = tuple(dict.fromkeys([*(item.config for item in seen), *asked]))
    loads = tuple(sorted({item.load for item in seen} | {load for numbers in asked.values() for load in numbers}))
    belief = Belief.given(Prior.of(configs, loads, seed=seed), seen)
    timed = {(item.config, item.load) for item in seen if item.ms_per_token is not None}
    anchor = SpecConfig.from_id(ANCHOR)
    for config, numbers in asked.items():
        for load, measured in numbers.items():
            low, middle, high = _band(belief, config, load)
            yield Expected(
                config.config_id, load, measured, low, middle, high, (config, load) in timed,
                measured / asked[anchor][load], middle / _band(belief, anchor, load)[1],
            )  # fmt: skip


def _band(belief: Belief, config: SpecConfig, load: int) -> tuple[float, float, float]:
    """Low end, median and high end of the output rate."""
    place = belief.prior.index[config]
    # The slow end of the pace is the low end of the rate.
    low, middle, high = (
        1000.0 * load / float(np.exp(belief.quantile(q, load, of_launch=True)[place])) for q in (ENDS[1], 0.5, ENDS[0])
    )
    return low, middle, high


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("recording", nargs="?", type=Path, default=ROOT / "h200-codelm-0.5.11")
    parser.add_argument("--without-v1", action="store_true", help="leave out what ran on the v1 worker")
    options = parser.parse_args(argv)
    rows = list(expectations(read_recording(options.recording), without_v1=options.without_v1))
    print(
        f"{'config':<14} {'load':>4} {'expected':>8} {'90% band':>15} {'measured':>8} {'in band':>7}   x {ANCHOR}: expected, measured"
    )
    for row in rows:
        print(
            f"{row.config:<14} {row.load:>4} {row.expected:>8,.0f} {f'{row.low:,.0f} to {row.high:,.0f}':>15} {row.measured:>8,.0f} "
            f"{'yes' if row.held else 'no':>7}   {row.expected_times_anchor:.2f}, {row.times_anchor:.2f}"
            f"{' (the config is in the recording)' if row.known else ''}"
        )
    unseen = [row for row in rows if not row.known]
    print(
        f"{sum(row.held for row in unseen)} of {len(unseen)} numbers of configs that were never measured lie in their bands"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
