"""Acceptance of draft trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.config import tree_bound
from search.physics.acceptance import accept_histogram, accept_length, rank_probabilities, survival

PROBABILITY = st.floats(0.05, 0.95)


@st.composite
def trees(draw, *, topk=(1, 8), steps=(1, 6)):
    """A draft tree as `survival` takes it."""
    k, s = draw(st.integers(*topk)), draw(st.integers(*steps))
    tokens = s + 1 if k == 1 else draw(st.integers(2, tree_bound(topk=k, num_steps=s)))
    return {
        "topk": k,
        "num_steps": s,
        "num_draft_tokens": tokens,
        "first": draw(PROBABILITY),
        "decay": draw(st.floats(0.5, 1.0)),
        "sibling_share": draw(st.floats(0.0, 1.0)),
    }


def test_chain_accepts_the_products_of_its_steps():
    reached = survival(topk=1, num_steps=2, num_draft_tokens=3, first=0.5, decay=0.8, sibling_share=0.6)
    assert reached == pytest.approx((0.5, 0.2))
    assert accept_length(reached) == pytest.approx(1.7)
    assert accept_histogram(reached) == pytest.approx((0.5, 0.3, 0.2))


def test_two_siblings_at_depth_one_add_up():
    # The second guess is right with 0.5 * (1 - 0.5) * 0.6 = 0.15.
    reached = survival(topk=2, num_steps=1, num_draft_tokens=3, first=0.5, decay=1.0, sibling_share=0.6)
    assert reached == pytest.approx((0.65,))


def test_tree_with_few_tokens_keeps_only_its_likeliest_path():
    # Two drafts: the first guess (0.5), then its child (0.25), likelier than its sibling (0.15).
    reached = survival(topk=2, num_steps=2, num_draft_tokens=3, first=0.5, decay=1.0, sibling_share=0.6)
    assert reached == pytest.approx((0.5, 0.25))


def test_tree_with_fewer_tokens_than_depth_ends_early():
    reached = survival(topk=2, num_steps=5, num_draft_tokens=2, first=0.5, decay=1.0, sibling_share=0.6)
    assert reached == pytest.approx((0.5, 0.0, 0.0, 0.0, 0.0))


@given(first=PROBABILITY, share=st.floats(0.0, 1.0), topk=st.integers(1, 32))
def test_ranks_fall_and_never_exceed_certainty(first, share, topk):
    ranks = rank_probabilities(first=first, sibling_share=share, topk=topk)
    assert sum(ranks) <= 1.0 + 1e-9
    assert list(ranks) == sorted(ranks, reverse=True)


@given(tree=trees())
def test_accept_length_lies_between_one_and_depth_plus_one(tree):
    assert 1.0 < accept_length(survival(**tree)) <= tree["num_steps"] + 1


@given(tree=trees())
def test_histogram_is_a_distribution(tree):
    histogram = accept_histogram(survival(**tree))
    assert len(histogram) == tree["num_steps"] + 1
    assert min(histogram) >= -1e-12
    assert sum(histogram) == pytest.approx(1.0)


@given(tree=trees(topk=(2, 7)))
def test_wider_tree_never_accepts_less(tree):
    wider = accept_length(survival(**tree | {"topk": tree["topk"] + 1}))
    assert wider >= accept_length(survival(**tree)) - 1e-9


@given(tree=trees(topk=(2, 8)))
def test_more_draft_tokens_never_accept_less(tree):
    fewer = tree | {"num_draft_tokens": max(2, tree["num_draft_tokens"] - 1)}
    assert accept_length(survival(**tree)) >= accept_length(survival(**fewer)) - 1e-9


@given(tree=trees(topk=(1, 1), steps=(3, 6)))
def test_each_further_step_of_a_chain_adds_no_more_than_the_last(tree):
    lengths = [
        accept_length(survival(**tree | {"num_steps": depth, "num_draft_tokens": depth + 1})) for depth in (1, 2, 3)
    ]
    assert 0 < lengths[2] - lengths[1] <= lengths[1] - lengths[0] + 1e-12
