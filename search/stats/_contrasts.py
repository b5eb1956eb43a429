"""What starts of one config differ by when they were not all sent the same prompts.

Model (in logarithms): value = block + start + repeat, a block being a slot and a set of prompts. Starts that saw the
same blocks are compared by their means over all of those, which is what they are compared by with other configs: the
more is averaged, the less of the repeats' scatter has to be taken off again. What saw more and what saw fewer are then
compared on the blocks that both saw. The contrasts are orthogonal, so each is a degree of freedom of its own, and each
is scaled to the variance of one start (as the unweighted means of an analysis of variance; Searle, Casella and
McCulloch, Variance Components, 1992, chapter 3).

One contrast of a config that was picked stands apart, its *tie*: fresh starts against the one that it was picked by.
That one was lucky, or it would not have been picked; so where the fresh ones are lucky too, the tie is small, and
where they are not, it is large. Scatter that holds the tie is small just where the config seems good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from search.stats.readings import Block, Mean, Reading, by_block, start_means


class Tie(NamedTuple):
    """A contrast of fresh starts of a config with others of it; see the module.

    Attributes:
        fresh: Starts that were made after the choice.
        square: The squared contrast.
        inverse: What it holds of the variance of a repeat.
    """

    fresh: frozenset[int]
    square: float
    inverse: float


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Of one config's starts that share blocks, directly or through others.

    Attributes:
        starts: All of them, so one more than `freedom`.
        squares: Sum of the squared contrasts.
        inverses: Sum of what each contrast holds of the variance of a repeat.
        ties: Those contrasts among them that hold fresh starts against others.
    """

    starts: frozenset[int]
    squares: float
    inverses: float
    ties: tuple[Tie, ...] = ()

    @property
    def freedom(self) -> int:
        """How many contrasts there are."""
        return len(self.starts) - 1


@dataclass(frozen=True, slots=True)
class _Class:
    """Starts that saw the same blocks, all fresh or none; values and inverses by block, in the order of `starts`."""

    starts: tuple[int, ...]
    blocks: dict[Block, tuple[Mean, ...]]
    fresh: bool

    def means(self, blocks: Sequence[Block]) -> list[tuple[float, float]]:
        """Of each start over some of its blocks: logarithm and 1 / repeats."""
        count = len(blocks)
        rows = [[self.blocks[block][place] for block in blocks] for place in range(len(self.starts))]
        return [(sum(one.log_value for one in row) / count, sum(one.inverse for one in row) / count**2) for row in rows]


def contrasts_of(readings: Sequence[Reading]) -> Iterator[Contrasts]:
    """One value for each group of starts that can be compared; nothing of a start that stands alone."""
    left = _classes(readings)
    while left:
        group = [left.pop(0)]
        squares, inverses = _inside(group[0])
        ties: list[Tie] = []
        while (place := _next(group, left)) is not None:
            other = left.pop(place)
            across = _between(group, other)
            for contrast in (_inside(other), across):
                squares, inverses = squares + contrast[0], inverses + contrast[1]
            group.append(other)
            if len({one.fresh for one in group}) > 1:
                ties.append(Tie(_starts(one for one in group if one.fresh), *across))
        if len(starts := _starts(group)) > 1:
            yield Contrasts(starts, squares, inverses, tuple(ties))


def _starts(classes: Iterable[_Class]) -> frozenset[int]:
    return frozenset(start for one in classes for start in one.starts)


def _classes(readings: Sequence[Reading]) -> list[_Class]:
    """Fresh ones first, and of those the ones that saw the most blocks."""
    means = {block: start_means(mine) for block, mine in by_block(readings).items()}
    seen: dict[int, list[Block]] = {}
    for block, starts in means.items():
        for start in starts:
            seen.setdefault(start, []).append(block)
    fresh = {one.start for one in readings if one.fresh}
    classes: dict[tuple[bool, frozenset[Block]], list[int]] = {}
    for start, blocks in seen.items():
        classes.setdefault((start in fresh, frozenset(blocks)), []).append(start)

    def order(key: tuple[bool, frozenset[Block]]) -> tuple[bool, int, list[Block]]:
        return not key[0], -len(key[1]), sorted(key[1])

    return [
        _Class(
            tuple(classes[key]),
            {block: tuple(means[block][start] for start in classes[key]) for block in sorted(key[1])},
            key[0],
        )
        for key in sorted(classes, key=order)
    ]


def _inside(one: _Class) -> tuple[float, float]:
    """Squares about the mean of a class, and what they hold of repeats."""
    means = one.means(tuple(one.blocks))
    centre = sum(value for value, _ in means) / len(means)
    return sum((value - centre) ** 2 for value, _ in means), (1 - 1 / len(means)) * sum(inverse for _, inverse in means)


def _next(group: Sequence[_Class], left: Sequence[_Class]) -> int | None:
    """The first that shares a block with the group."""
    known = {block for one in group for block in one.blocks}
    return next((place for place, one in enumerate(left) if known & one.blocks.keys()), None)


def _between(group: Sequence[_Class], other: _Class) -> tuple[float, float]:
    """The squared difference of a class to those of a group, on the blocks that it shares with most of their starts."""
    shared = [tuple(block for block in other.blocks if block in one.blocks) for one in group]
    blocks = max(
        shared,
        key=lambda names: (
            sum(len(one.starts) for one in group if {*names} <= one.blocks.keys()) if names else 0,
            len(names),
        ),
    )
    theirs = [mean for one in group if {*blocks} <= one.blocks.keys() for mean in one.means(blocks)]
    (mine, here), (rest, there) = _mean(other.means(blocks)), _mean(theirs)
    scale = 1 / len(other.starts) + 1 / len(theirs)
    return (mine - rest) ** 2 / scale, (here + there) / scale


def _mean(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean over starts, and its share of the variance of a repeat."""
    count = len(values)
    return sum(value for value, _ in values) / count, sum(inverse for _, inverse in values) / count**2
