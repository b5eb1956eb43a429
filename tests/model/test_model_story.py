"""The twelve numbers of the Kimi-K2.5 story: what they leave confounded, and hold-out bands."""

import csv
from pathlib import Path

import numpy as np
import pytest

from search.config import SpecConfig, tree_bound
from search.model.belief import Belief, Prior
from search.model.confounding import confounded
from search.model.observations import Observation

LOADS = (1, 30, 100, 250)
STORY = Path(__file__).parents[2] / "recordings/kimi-k25-story/measurements.csv"


def numbers():
    with STORY.open() as file:
        return [
            Observation(
                SpecConfig.from_id(row["config_id"]),
                int(row["concurrency"]),
                1000.0 * int(row["concurrency"]) / float(row["output_tps"]),
            )
            for row in csv.DictReader(file)
        ]


def space():
    configs = [SpecConfig("off")]
    for version, widths in (("v1", (1, 2, 4)), ("v2", (1, 2, 4))):
        for topk in widths:
            for steps in (1, 2, 3, 4):
                bound = steps + 1 if topk == 1 else tree_bound(topk=topk, num_steps=steps)
                sizes = {bound} if topk == 1 else {bound, 16} if bound > 16 else {bound}
                configs += [SpecConfig(version, topk, steps, size) for size in sorted(sizes)]
    return tuple(configs)


@pytest.fixture(scope="module")
def prior():
    return Prior.of(space(), LOADS, seed=0)


def test_width_and_worker_are_confounded_and_the_chain_on_v1_would_tell(prior):
    launchable = [config for config in prior.configs if config.spec_version == "v1" or config.topk in (None, 1)]
    seen = numbers()
    found = confounded(Belief.given(prior, seen), [item.config for item in seen], launchable=launchable)
    named = {item.launch.config_id: item for item in found}
    assert "v1-k1-s2-d3" in named
    told = named["v1-k1-s2-d3"]
    assert told.effect == "worker"
    assert "width" in told.rivals
    assert told.std > 0.1
    assert "v2-k1-s2-d3 and v1-k4-s3-d16 differ in worker and width" in str(told)
    assert not any(item.launch.spec_version == "v2" and item.launch.topk > 1 for item in found)


def test_launch_that_separates_them_ends_the_confounding(prior):
    seen = numbers()
    chain = SpecConfig("v1", 1, 2, 3)
    seen += [
        Observation(chain, load, 1000.0 * load / tps) for load, tps in zip(LOADS, (84, 700, 720, 715), strict=True)
    ]
    found = confounded(Belief.given(prior, seen), [item.config for item in seen], launchable=prior.configs)
    assert "worker" not in {item.effect for item in found}


def test_width_and_draft_tokens_are_confounded_and_a_wide_tree_of_few_tokens_would_tell():
    """v1-k1-s3-d4 against v1-k4-s3-d16 says nothing of 4 against 16 tokens (#12)."""
    chain, wide, between = map(SpecConfig.from_id, ("v1-k1-s3-d4", "v1-k4-s3-d16", "v1-k4-s3-d4"))
    prior = Prior.of((SpecConfig("off"), chain, wide, between), LOADS, seed=0)
    seen = [Observation(config, load, 12.0 * load**0.5) for config in (chain, wide) for load in LOADS]
    (found,) = confounded(Belief.given(prior, seen), [chain, wide], launchable=prior.configs)
    assert found.launch == between and {found.effect, *found.rivals} == {"width", "draft tokens"}
    told = [*seen, *(Observation(between, load, 12.0 * load**0.5) for load in LOADS)]
    assert not confounded(Belief.given(prior, told), [chain, wide, between], launchable=prior.configs)


def test_bands_from_two_of_the_configs_hold_the_third_and_are_no_shrug(prior):
    held, widths = [], []
    for left_out in ("v2-k1-s2-d3", "v1-k4-s3-d16", "off"):
        belief = Belief.given(prior, [item for item in numbers() if item.config.config_id != left_out])
        place = prior.index[SpecConfig.from_id(left_out)]
        for item in numbers():
            if item.config.config_id == left_out:
                low, high = (float(np.exp(belief.quantile(q, item.load)[place])) for q in (0.05, 0.95))
                held.append(low < item.ms_per_token < high)
                widths.append(high / low)
    assert sum(held) >= 10  # of twelve bands of 90%
    assert np.median(widths) < 4.0


def test_band_of_a_measured_config_is_narrow(prior):
    belief = Belief.given(prior, numbers())
    places = [prior.index[item.config] for item in numbers()]
    assert max(belief.std(load)[places].max() for load in LOADS) < 0.03
