"""How many drafts a verify pass accepts, by depth and width of the draft tree.

The target picks one token at each depth. The draft ranks its guesses, and its guess of rank r at
depth i is the right one with probability ``q[i][r]``: at most one of the siblings can be right,
so the probabilities of siblings add up, and those along a path multiply. The tree is grown and
pruned as SGLang does it (0.5.9 `srt/speculative/eagle_utils.py`): every step expands the `topk`
best nodes into `topk` children each, and of all nodes ever proposed the `num_draft_tokens - 1`
likeliest are verified. The expected number of accepted drafts is then the sum of the path
probabilities of the nodes that were kept.

Two properties follow, and tests hold them: a wider tree (with the same depth and draft tokens)
never accepts less, and each further step adds no more than the one before it.
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from itertools import pairwise, product


def rank_probabilities(*, first: float, sibling_share: float, topk: int) -> tuple[float, ...]:
    """Probability that the guess of rank 1, 2, … `topk` is the right token.

    Each rank falls by the ratio ``(1 - first) * sibling_share``: the less the first guess gets
    right, the more is left for its siblings. All ranks together never exceed 1.

    Args:
        first: Probability of the first guess.
        sibling_share: 0 where siblings never help; 1 where enough of them find every token.
    """
    ratio = (1.0 - first) * sibling_share
    return tuple(first * ratio**rank for rank in range(topk))


@lru_cache(maxsize=4096)
def survival(
    *, topk: int, num_steps: int, num_draft_tokens: int, first: float, decay: float, sibling_share: float
) -> tuple[float, ...]:
    """Probability that a verify pass accepts at least 1, 2, … `num_steps` drafts.

    Args:
        first: Probability that the first guess at depth 1 is right.
        decay: Factor on it for each further depth, where the draft feeds on its own output.
        sibling_share: See `rank_probabilities`.
    """
    beams = [1.0]
    proposed: list[tuple[float, int]] = []
    for depth in range(num_steps):
        ranks = rank_probabilities(first=first * decay**depth, sibling_share=sibling_share, topk=topk)
        children = [parent * rank for parent, rank in product(beams, ranks)]
        # The shallower of two equally likely nodes comes first: a node needs its parent.
        proposed += [(child, -depth) for child in children]
        beams = heapq.nlargest(topk, children)
    reached = [0.0] * num_steps
    for probability, minus_depth in heapq.nlargest(num_draft_tokens - 1, proposed):
        reached[-minus_depth] += probability
    return tuple(reached)


def accept_length(reached: tuple[float, ...]) -> float:
    """Expected output tokens per verify pass, the bonus token included: 1 when drafts never help."""
    return 1.0 + sum(reached)


def accept_histogram(reached: tuple[float, ...]) -> tuple[float, ...]:
    """Probability that a verify pass accepts exactly 0, 1, 2, … drafts; sums to 1."""
    edges = (1.0, *reached, 0.0)
    return tuple(here - deeper for here, deeper in pairwise(edges))
