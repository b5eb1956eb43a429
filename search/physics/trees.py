"""Accept lengths of many parameter sets at once: the tree arithmetic of `acceptance`, vectorised."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def accept_lengths(*, first: Floats, decay: Floats, sibling_share: Floats, topk: int, num_steps: int) -> Floats:
    """Expected output tokens per verify pass, for each parameter set and each number of draft tokens.

    The same tree as `survival` grows: the likeliest nodes of all that `num_steps` steps propose
    are verified, the root first.

    Args:
        first: Probability that the first guess at depth 1 is right; one per parameter set, shape (n,).
        decay: Factor on it for each further depth, shape (n,).
        sibling_share: See `rank_probabilities`, shape (n,).
        topk: Width of the tree.
        num_steps: Depth of the tree.

    Returns:
        Shape (n, `tree_bound`): column `d - 1` holds the accept length with `d` draft tokens.
    """
    count = len(first)
    beams = np.ones((count, 1))
    proposed = []
    for depth in range(num_steps):
        guess = first * decay**depth
        ratio = (1.0 - guess) * sibling_share
        ranks = guess[:, None] * ratio[:, None] ** np.arange(topk)[None, :]
        children = (beams[:, :, None] * ranks[:, None, :]).reshape(count, -1)
        proposed.append(children)
        beams = -np.sort(-children, axis=1)[:, :topk]
    nodes = -np.sort(-np.concatenate(proposed, axis=1), axis=1)
    return np.concatenate([np.ones((count, 1)), 1.0 + np.cumsum(nodes, axis=1)], axis=1)
