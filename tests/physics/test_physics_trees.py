"""Accept lengths of many parameter sets at once agree with the tree grown node by node."""

import numpy as np
import pytest

from search.config import tree_bound
from search.physics.acceptance import accept_length, survival
from search.physics.trees import accept_lengths


@pytest.mark.parametrize(("topk", "steps"), [(1, 4), (2, 2), (3, 3), (8, 2)])
def test_vectorised_accept_lengths_equal_the_tree_grown_node_by_node(topk, steps):
    first, decay, share = np.array([0.4, 0.8]), np.array([0.9, 1.0]), np.array([0.3, 0.7])
    lengths = accept_lengths(first=first, decay=decay, sibling_share=share, topk=topk, num_steps=steps)
    bound = tree_bound(topk=topk, num_steps=steps)
    assert lengths.shape == (2, bound)
    for row in range(2):
        for tokens in range(1, bound + 1):
            grown = survival(
                topk=topk,
                num_steps=steps,
                num_draft_tokens=tokens,
                first=float(first[row]),
                decay=float(decay[row]),
                sibling_share=float(share[row]),
            )
            assert lengths[row, tokens - 1] == pytest.approx(accept_length(grown), rel=1e-12)


def test_chain_of_even_odds_accepts_a_geometric_series():
    half = np.array([0.5])
    lengths = accept_lengths(first=half, decay=np.ones(1), sibling_share=half, topk=1, num_steps=3)
    assert lengths.tolist() == [[1.0, 1.5, 1.75, 1.875]]
