"""Hours that a search which knows the truth would need: no race comes far below them."""

import math
from dataclasses import dataclass

import pytest

from benchmarks.race.floors import floor_rows, least_hours
from benchmarks.race.hypervolume import hypervolume
from benchmarks.race.prices import Prices, beyond_shape, phases_s
from benchmarks.race.sources import HERE, load_table, own_worlds
from search.app.assembly import read_spec
from search.app.options import RunOptions
from search.config import SpecConfig

PRICES = Prices(start=3600.0, stop=360.0, switch=36.0)
OFF, CHAIN, DEEP, TREE, WIDE = (
    SpecConfig.from_id(name) for name in ("off", "v2-k1-s2-d3", "v2-k1-s4-d5", "v1-k2-s2-d7", "v1-k4-s2-d8")
)


@dataclass(frozen=True)
class Truth:
    """Of a table, all that a floor goes by: a front of two steps, one in each group."""

    truth: dict
    reference: tuple = (10.0, 0.0)

    def share(self, configs):
        points = [self.truth[config] for config in configs]
        return hypervolume(points, self.reference) / hypervolume(self.truth.values(), self.reference)


TABLE = Truth({OFF: (9.0, 1.0), CHAIN: (8.0, 2.0), DEEP: (2.0, 4.0), TREE: (9.0, 3.0), WIDE: (5.0, 9.0)})
NO_TIME = dict.fromkeys(TABLE.truth, 0.0)


def hours(share, *, shared, prescribed=(OFF,), spent_s=NO_TIME):
    return least_hours(TABLE, spent_s, share, prices=PRICES, shared=shared, prescribed=prescribed)


def test_share_that_the_prescribed_reach_needs_nothing_more():
    assert hours(0.01, shared=True) == pytest.approx(1.0)
    assert hours(0.01, shared=False) == pytest.approx(1.0)


def test_front_of_two_groups_needs_a_start_for_each_both_ways():
    assert hours(1.0, shared=False) == pytest.approx(3.2)
    assert hours(1.0, shared=True) == pytest.approx(3.2)


def test_start_that_is_left_before_the_next_known_config_must_be_paid_again():
    assert hours(1.0, shared=False, prescribed=(OFF, CHAIN, TREE)) == pytest.approx(5.4)
    # The best tree by a switch; the best chain by one more start of a group that was open before.
    assert hours(1.0, shared=True, prescribed=(OFF, CHAIN, TREE)) == pytest.approx(1.0 + 3 * 1.1 + 0.01)


def test_known_configs_of_one_group_pay_one_start():
    assert hours(1.0, shared=True, prescribed=(OFF, CHAIN, DEEP)) == pytest.approx(1.0 + 2 * 1.1 + 0.01)


def test_phases_are_paid():
    assert hours(1.0, shared=True, spent_s=dict.fromkeys(TABLE.truth, 3600.0)) == pytest.approx(3.2 + 3.0)


def test_share_beyond_what_can_be_measured_is_never_reached():
    assert hours(1.5, shared=True) == math.inf
    assert hours(1.5, shared=False) == math.inf


def test_floors_of_a_world_are_no_higher_with_shared_starts_nor_with_less_prescribed():
    spec = read_spec(RunOptions(here=HERE, study="kimi-k25"))
    source = own_worlds("building", 1)[0]
    told = list(floor_rows([source], spec, (0.8, 0.95), Prices()))
    assert [(row["share"], row["prescribed"]) for row in told] == [
        (share, words) for share in (0.8, 0.95) for words in ("baseline and known", "baseline")
    ]
    assert all(row["median"]["ratio"] <= 1.0 for row in told)
    known, free = (row["median"] for row in told[2:])
    assert free["shared"] <= known["shared"]
    assert free["apart"] <= known["apart"]


def test_phases_of_every_config_that_can_be_measured_take_time():
    table = load_table(own_worlds("building", 1)[0])
    spent = phases_s(table, read_spec(RunOptions(here=HERE, study="kimi-k25")))
    assert spent.keys() == table.truth.keys()
    assert min(spent.values()) > 0.0


def test_configs_that_differ_in_their_shape_alone_are_alike():
    assert beyond_shape(CHAIN) == beyond_shape(DEEP) != beyond_shape(TREE)
