"""Hours of shared starts against one start per config: what each measurement is charged with."""

import pytest

from benchmarks.race.hours import Hours, Prices, _Server, rows
from benchmarks.race.sources import load_table, own_worlds
from search.study.starts import ANCHORED_AT

PRICES = Prices(start=1000.0, stop=100.0, switch=10.0)


class Holds:
    """In place of a sampler: a start is to hold all of its group."""

    def to_hold(self, group):
        return frozenset(group)


@pytest.fixture
def table():
    return load_table(own_worlds("building", 1)[0])


def alike(table, count):
    found = {}
    for config in table.space.configs:
        if config.speculates:
            found.setdefault((config.spec_version, config.allreduce_fusion, config.extra), []).append(config)
    return max(found.values(), key=len)[:count]


def spent(table, configs, *, shares, fails=(), usable=True):
    server = _Server(table, PRICES, Holds(), shares=shares)
    for config in configs:
        server.run(config, fails=config in fails, usable=usable)
        server.spend(0.0 if config in fails else 1.0)
    return server.seconds, server.starts


def test_start_of_its_own_costs_start_phases_and_stop(table):
    assert spent(table, alike(table, 3), shares=False) == (3 * 1101.0, 3)


def test_further_configs_of_a_shared_start_cost_a_switch_each_and_the_stop_is_still_to_come(table):
    assert spent(table, alike(table, 3), shares=True) == (1000.0 + 3.0 + 2 * 10.0, 1)


def test_failure_that_is_put_back_costs_a_start_alone_and_the_open_one_goes_on(table):
    configs = alike(table, 3)
    assert spent(table, configs, shares=True, fails=configs[1:2]) == (1000.0 + 2.0 + 2 * 10.0 + 1000.0, 2)


def test_failure_under_load_ends_the_open_start_too(table):
    configs = alike(table, 3)
    told = spent(table, configs, shares=True, fails=configs[1:2], usable=False)
    assert told == (1000.0 + 1.0 + 10.0 + 1000.0 + 1000.0 + 1.0, 3)


def test_first_config_is_paid_again_at_its_places(table):
    configs = alike(table, 4)
    assert len(configs) == 4
    assert min(ANCHORED_AT) == 4
    assert spent(table, configs, shares=True) == (1000.0 + 4.0 + 3 * 10.0 + 11.0, 1)


def test_ratio_is_of_medians_and_of_ninth_deciles_and_a_race_that_never_arrived_is_infinite():
    def pair(apart, shared):
        return tuple(
            Hours("t", "g", 0, way, (0.5, 0.96), (0.1, end), 1) for way, end in ((False, apart), (True, shared))
        )

    told = {row["share"]: row for row in rows([pair(2.0, 1.0), pair(4.0, 1.0), pair(4.0, 3.0)])}
    assert told[0.95]["median"] == {"apart": 4.0, "shared": 1.0, "ratio": 0.25}
    assert told[0.95]["p90"] == {"apart": 4.0, "shared": 3.0, "ratio": 0.75}
    assert told[0.99]["median"] == {"apart": None, "shared": None, "ratio": None} and told[0.99]["missed"] == [1, 1]
