"""Feasibility: monotone in memory, odd rules, no panic after one failure."""

import numpy as np

from search.config import SpecConfig, tree_bound
from search.model.feasibility import Feasibility, Start

SPACE = [SpecConfig("off")] + [
    SpecConfig(version, topk, steps, steps + 1 if topk == 1 else size, allreduce_fusion=fusion)
    for version in ("v1", "v2")
    for topk in (1, 2, 4, 8)
    for steps in (1, 2, 3, 5)
    for size in ((0,) if topk == 1 else (4, 8, 16, 32, 64))
    if topk == 1 or size <= tree_bound(topk=topk, num_steps=steps)
    for fusion in ("off", "auto")
]
BY_ID = {config.config_id: place for place, config in enumerate(SPACE)}


def test_before_any_launch_nearly_everything_may_start():
    chance = Feasibility(SPACE).probability([])
    assert np.median(chance) > 0.7
    assert chance[BY_ID["off"]] > 0.9


def test_memory_failure_condemns_the_larger_more_than_the_smaller():
    chance = Feasibility(SPACE).probability([Start(SpecConfig("v1", 4, 3, 32), started=False, of_memory=True)])
    assert chance[BY_ID["v1-k8-s5-d64"]] < 0.15
    assert chance[BY_ID["v1-k4-s3-d16"]] > 2 * chance[BY_ID["v1-k8-s5-d64"]]
    assert chance[BY_ID["v1-k1-s2-d3"]] > 0.8


def test_large_start_clears_the_smaller_ones():
    feasibility = Feasibility(SPACE)
    start = Start(SpecConfig("v1", 8, 5, 64, allreduce_fusion="auto"), started=True)
    before, after = feasibility.probability([]), feasibility.probability([start])
    assert after[BY_ID["v1-k4-s3-d16"]] > before[BY_ID["v1-k4-s3-d16"]]
    assert after[BY_ID["v2-k8-s5-d32"]] > before[BY_ID["v2-k8-s5-d32"]]


def test_odd_rule_is_found_by_two_failures_and_a_start_beside_them():
    starts = [
        Start(SpecConfig("v2", 1, 2, 3, allreduce_fusion="auto"), started=False, of_memory=False),
        Start(SpecConfig("v2", 1, 5, 6, allreduce_fusion="auto"), started=False, of_memory=False),
        Start(SpecConfig("v2", 1, 3, 4), started=True),
        Start(SpecConfig("v1", 1, 3, 4, allreduce_fusion="auto"), started=True),
    ]
    chance = Feasibility(SPACE).probability(starts)
    assert chance[BY_ID["v2-k1-s3-d4+arf=auto"]] < 0.35
    assert chance[BY_ID["v2-k1-s1-d2"]] > 0.8
    assert chance[BY_ID["v1-k1-s1-d2+arf=auto"]] > 0.6


def test_crash_of_trees_cut_to_a_chain_s_tokens_does_not_condemn_other_trees():
    starts = [
        Start(SpecConfig("v2", 8, 3, 4), started=False, of_memory=False),
        Start(SpecConfig("v1", 4, 3, 4, allreduce_fusion="auto"), started=False, of_memory=False),
        Start(SpecConfig("v1", 8, 5, 16), started=True),
        Start(SpecConfig("v2", 1, 3, 4), started=True),
    ]
    chance = Feasibility(SPACE).probability(starts)
    assert chance[BY_ID["v1-k8-s3-d4"]] < 0.3
    assert chance[BY_ID["v2-k4-s3-d4+arf=auto"]] < 0.3
    assert chance[BY_ID["v2-k4-s5-d8"]] > 0.75


def test_failure_without_a_cause_is_laid_to_what_was_likelier_before():
    big, small = SpecConfig("v2", 8, 5, 64, allreduce_fusion="auto"), SpecConfig("v1", 1, 1, 2)
    feasibility = Feasibility(SPACE)
    oom = [Start(SpecConfig("v2", 8, 5, 32), started=False, of_memory=True)]
    silent = feasibility.probability([*oom, Start(big, started=False)])
    told = feasibility.probability([*oom, Start(big, started=False, of_memory=True)])
    assert abs(silent[BY_ID[small.config_id]] - told[BY_ID[small.config_id]]) < 0.05
    assert silent[BY_ID["v2-k4-s5-d64+arf=auto"]] < 0.25


def test_space_of_the_baseline_alone_has_no_rules():
    assert Feasibility([SpecConfig("off")]).probability([])[0] > 0.9
