"""How well are public numbers predicted from part of themselves? Whole configs are left out of an imported table.

Of each table every config that speculates is left out in turn: the belief is given all other numbers of the table, as a
what-if is, and its reported 90% band is held against each number of the config that was left out. With `--share 0.5` half
of the configs are left out at a time, by seed. Hand-made tables are single numbers of unknown conditions, so a miss may
be the table's: the sources stand in their `meta.json`.

    python -m benchmarks.public_numbers [recordings/public/* recordings/kimi-k25-story] [--share 0.5] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from search.config import SpecConfig
from search.engines.recording import Recording, read_recording
from search.errors import UsageError
from search.model.belief import Belief, Prior
from search.model.observations import Observation
from search.samplers.warm_start import recorded_evidence

ROOT = Path(__file__).parents[1] / "recordings"
ENDS = (0.05, 0.95)
_LEAST = 2
"""Configs that have to be left to predict from."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """One public number and what was expected of it without its config, in output tokens per second.

    Attributes:
        expected: Median of the belief.
    """

    table: str
    config: str
    load: int
    number: float
    low: float
    expected: float
    high: float

    @property
    def held(self) -> bool:
        """Whether the band holds the number."""
        return self.low <= self.number <= self.high

    @property
    def miss(self) -> float:
        """Expected / number - 1."""
        return self.expected / self.number - 1


def splits(configs: Sequence[SpecConfig], share: float | None, seed: int) -> Iterator[frozenset[SpecConfig]]:
    """Configs that are left out together: each alone, or so that each is left out once with a share of the others."""
    shuffled = list(configs)
    random.Random(seed).shuffle(shuffled)
    size = 1 if share is None else max(1, round(share * len(shuffled)))
    for place in range(0, len(shuffled), size):
        yield frozenset(shuffled[place : place + size])


def predicted(recording: Recording, *, share: float | None = None, seed: int = 0) -> Iterator[Predicted]:
    """Every number of every speculating config, from the others of its table.

    Args:
        recording: With numbers of several configs.
        share: Of the configs that are left out at a time; one by one without it.
        seed: Of the order in which they are left out, and of the belief's prior.
    """
    seen = [item for item in recorded_evidence(recording)[0] if item.ms_per_token is not None]
    configs = tuple(dict.fromkeys(item.config for item in seen))
    if len(configs) <= _LEAST:
        return
    loads = tuple(sorted({item.load for item in seen}))
    prior = Prior.of(configs, loads, seed=seed)
    for left_out in splits([config for config in configs if config.speculates], share, seed):
        kept = [item for item in seen if item.config not in left_out]
        if len({item.config for item in kept}) < _LEAST:
            continue
        belief = Belief.given(prior, kept)
        yield from (_of(recording.name, item, belief) for item in seen if item.config in left_out)


def _of(table: str, item: Observation, belief: Belief) -> Predicted:
    place = belief.prior.index[item.config]
    # The fast end of the pace is the high end of the rate.
    high, expected, low = (
        1000.0 * item.load / float(np.exp(belief.quantile(q, item.load, of_launch=True)[place]))
        for q in (ENDS[0], 0.5, ENDS[1])
    )
    return Predicted(table, item.config.config_id, item.load, item.output_tps, low, expected, high)


def lines(numbers: Sequence[Predicted]) -> Iterator[str]:
    """A line for each table and one for all, then the worst misses."""
    yield f"{'table':<40} {'numbers':>7} {'in band':>8} {'median width':>12} {'median miss':>11} {'worst miss':>10}"
    for name in (*dict.fromkeys(one.table for one in numbers), ""):
        mine = [one for one in numbers if name in ("", one.table)]
        worst = max(mine, key=lambda one: abs(one.miss))
        yield (
            f"{name or 'all':<40} {len(mine):>7} {sum(one.held for one in mine) / len(mine):>8.0%} "
            f"{median(one.high / one.low for one in mine):>11.2f}x {median(abs(one.miss) for one in mine):>11.1%} {worst.miss:>+10.1%}"
        )
    yield ""
    yield "worst misses"
    for one in sorted(numbers, key=lambda one: -abs(one.miss))[:5]:
        yield (
            f"  {one.table} {one.config} at C={one.load}: {one.number:,.0f} tok/s, expected {one.expected:,.0f} "
            f"({one.low:,.0f} to {one.high:,.0f}){'' if one.held else ', outside its band'}"
        )


def folders(given: Iterable[str]) -> list[Path]:
    """The tables that were named; without any, the public ones and the story's."""
    named = [Path(name) for name in given]
    return named or [*sorted(path.parent for path in (ROOT / "public").glob("*/meta.json")), ROOT / "kimi-k25-story"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 2 where nothing could be predicted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "tables", nargs="*", metavar="DIR", help="recordings; the public ones and the story's without any"
    )
    parser.add_argument("--share", type=float, help="of the configs left out at a time; one by one without it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="PATH")
    options = parser.parse_args(argv)
    try:
        numbers = [
            one
            for folder in folders(options.tables)
            for one in predicted(read_recording(folder), share=options.share, seed=options.seed)
        ]
    except UsageError as error:
        print(error)
        return 2
    if not numbers:
        print("A prediction needs a table with three configs or more, one of them speculating; none of these has them.")
        return 2
    for line in lines(numbers):
        print(line)
    if options.json is not None:
        data = [{**asdict(one), "held": one.held, "miss": one.miss} for one in numbers]
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
