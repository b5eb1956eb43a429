"""Worlds of our own: the same for the same seed, in the format of recordings, with faults and a memory direction."""

import pytest

from benchmarks.race.tables import read_table
from benchmarks.race.worlds import make_world, write_world
from benchmarks.race.worlds.drafts import widths
from search.config import SpecConfig, SpecVersion
from search.outcomes import Outcome, Reason

SEEDS = range(12)


@pytest.fixture(scope="module")
def worlds():
    return {seed: make_world(seed) for seed in SEEDS}


def test_same_seed_makes_the_same_world(worlds):
    again = make_world(3)
    assert again.recording == worlds[3].recording
    assert again.truth == worlds[3].truth


def test_halves_are_the_even_and_the_odd_seeds_and_every_third_world_is_rough(worlds):
    assert [worlds[seed].group for seed in (0, 1, 4, 5, 10, 11)] == [
        "building", "heldout", "building-rough", "heldout-rough", "building-rough", "heldout-rough",
    ]  # fmt: skip
    assert [seed for seed in SEEDS if worlds[seed].rough] == [4, 5, 10, 11]


def test_written_world_reads_back_with_its_truth(worlds, tmp_path):
    write_world(tmp_path / "own", worlds[4])
    read = read_table(tmp_path / "own", group="building-rough")
    assert read.recording == worlds[4].recording
    assert read.truth == worlds[4].truth
    assert read.rough


@pytest.mark.parametrize("seed", SEEDS)
def test_world_is_worth_a_search(worlds, seed):
    world = worlds[seed]
    assert len(world.space.configs) >= 60
    assert len(world.front) >= 3
    assert 0.0 < world.share(world.start) <= 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_baseline_and_known_configs_run_and_everything_else_has_a_reason_or_numbers(worlds, seed):
    world = worlds[seed]
    assert set(world.start) <= set(world.truth)
    failed = {row.config for row in world.recording.rows if row.outcome is Outcome.FAILED}
    assert failed | set(world.truth) == set(world.space.configs)
    assert not failed & set(world.truth)


@pytest.mark.parametrize("seed", SEEDS)
def test_out_of_memory_has_a_direction(worlds, seed):
    """A config with more draft tokens than one that ran out of memory, all else alike, runs out of memory too."""
    world = worlds[seed]
    reasons = {row.config: row.reason for row in world.recording.rows}
    out = {config for config, reason in reasons.items() if reason is Reason.OOM_GRAPH}
    for config in set(world.space.configs) - set(world.start):
        for small in out:
            alike = (config.spec_version, config.allreduce_fusion) == (small.spec_version, small.allreduce_fusion)
            if alike and config.verify_tokens >= small.verify_tokens:
                assert config in out


def test_some_worlds_run_out_of_memory_and_some_fail_otherwise(worlds):
    reasons = {row.reason for world in worlds.values() for row in world.recording.rows}
    assert Reason.OOM_GRAPH in reasons
    assert reasons - {None, Reason.OOM_GRAPH}


@pytest.mark.parametrize("seed", SEEDS)
def test_accept_histograms_agree_with_accept_lengths(worlds, seed):
    for row in worlds[seed].recording.rows:
        if row.accept_length is None:
            continue
        accepted = sum(drafts * passes for drafts, passes in enumerate(row.accept_histogram))
        assert row.accept_length == pytest.approx(1 + accepted / sum(row.accept_histogram), abs=1e-4)
        assert 1.0 <= row.accept_length <= (row.config.num_steps or 0) + 1


@pytest.mark.parametrize(
    ("config_id", "expected"),
    [
        ("v1-k1-s3-d4", (1, 1, 1)),
        ("v1-k2-s2-d7", (2, 4)),
        ("v1-k4-s6-d4", (1, 1, 1)),
        ("v1-k4-s2-d21", (4, 16)),
        ("v1-k4-s3-d6", (2, 2, 1)),
    ],
    ids=["a chain", "a full tree", "cut shallower than its steps", "wide", "filled from the root"],
)
def test_tree_has_as_many_nodes_as_drafts(config_id, expected):
    assert widths(SpecConfig.from_id(config_id)) == expected


def test_trees_on_v2_only_in_worlds_of_a_release_that_drafts_them(worlds):
    for world in worlds.values():
        trees = [c for c in world.space.configs if c.spec_version is SpecVersion.V2 and (c.topk or 0) > 1]
        assert bool(trees) == (world.recording.meta["versions"]["sglang"] == "0.5.23")
