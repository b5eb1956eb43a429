"""The nodes of a cluster must be alike, as far as a measurement can tell."""

import pytest

from search.errors import HostUnfit
from search.preflight.facts import NodeFacts, check_nodes


def node(*missing, **environment):
    return NodeFacts(missing, "0.5.11", environment)


def test_equal_nodes_and_unknown_answers_pass():
    check_nodes({})
    check_nodes({"a": node(driver="580", nccl="2.28"), "b": node(driver="580", nccl="unknown")})


def test_each_difference_between_nodes_is_refused_in_a_line():
    with pytest.raises(HostUnfit) as refused:
        check_nodes({"a": node(driver="580", target="x"), "b": node(driver="575", target="x")})
    (line,) = refused.value.missing
    assert "driver is 580 on a, 575 on b" in line and "leave a node out" in line


def test_what_a_node_lacks_is_told_before_differences():
    with pytest.raises(HostUnfit) as refused:
        check_nodes({"a": node(driver="580"), "b": node("Model: nothing is there.", driver="575")})
    assert refused.value.missing == ("Node b: Model: nothing is there.",)
