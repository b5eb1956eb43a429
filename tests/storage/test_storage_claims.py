"""What drivers of one study have to agree on: who launches a config, and who has the last launch."""

import threading
from collections import Counter

import pytest
from test_storage_store import STUDY, planned

from search.storage.store import LaunchesSpent, Store


@pytest.fixture
def stores(tmp_path):
    with Store(tmp_path / "trials.db") as first, Store(tmp_path / "trials.db") as second:
        first.save_study(STUDY)
        yield first, second


def at_once(*works):
    """Run each in a thread of its own, all from one moment on."""
    start = threading.Barrier(len(works))

    def run(work):
        start.wait(10)
        work()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def nobody_is_free(_trial):
    return False


def test_config_that_one_trial_holds_is_refused_to_another_drivers(stores):
    first, second = stores
    assert first.claim("kimi", "off", 3, nobody_is_free)
    assert not second.claim("kimi", "off", 2, nobody_is_free)
    assert second.claim("kimi", "v2-k1-s2-d3", 2, nobody_is_free)
    assert first.claim("kimi", "off", 3, nobody_is_free)  # its own


def test_config_of_a_trial_that_is_free_again_goes_to_the_first_who_asks(stores):
    first, second = stores
    first.claim("kimi", "off", 1, nobody_is_free)
    assert second.claim("kimi", "off", 2, lambda trial: trial == 1)
    assert not first.claim("kimi", "off", 3, lambda trial: trial == 1)


def test_of_claims_in_one_moment_one_is_granted(stores):
    granted = []

    def claim_all(store, trial):
        mine = [number for number in range(15) if store.claim("kimi", f"config {number}", trial, nobody_is_free)]
        granted.extend(mine)

    at_once(*(lambda store=store, trial=trial: claim_all(store, trial) for trial, store in enumerate(stores)))
    assert Counter(granted) == Counter(range(15))


def test_drivers_together_get_as_many_launches_as_the_study_may_have(stores):
    begun, refused = [], []

    def begin(store):
        for _ in range(15):
            try:
                begun.append(store.begin_launch("kimi", planned, at_most=20).number)
            except LaunchesSpent as error:
                refused.append(str(error))

    at_once(*(lambda store=store: begin(store) for store in stores))
    assert sorted(begun) == list(range(1, 21))
    assert set(refused) == {"Study 'kimi' has 20 launches, and may have 20."} and len(refused) == 10
