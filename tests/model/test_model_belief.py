"""Belief: calibrated on deployments whose formulas are not its own, and what it makes of each kind of evidence."""

import numpy as np
import pytest

from benchmarks.race.worlds.invented import invented
from search.config import SpecConfig
from search.errors import UsageError
from search.model.belief import Belief, Prior
from search.model.observations import Observation

LOADS = (1, 100)


def observed(table, configs, rng, *, loads=LOADS, histogram=True):
    return [
        Observation(
            config,
            load,
            float(table.ms_per_token[config, load] * np.exp(table.noise * rng.standard_normal())),
            relative_sd=table.noise,
            accept_length=table.accept_length[config, load] if config.speculates else None,
            histogram=table.histogram.get((config, load), ()) if histogram else (),
        )
        for config in configs
        for load in loads
    ]


def coverage(seeds, launches):
    inside = []
    for seed in seeds:
        table = invented(100 + seed, roughness=(0.005, 0.015, 0.03)[seed % 3])
        rng = np.random.default_rng(seed)
        prior = Prior.of(table.configs, LOADS, seed=seed)
        seen = [table.configs[0], *(table.configs[at] for at in rng.permutation(len(table.configs))[: launches - 1])]
        belief = Belief.given(prior, observed(table, seen, rng))
        rest = [config for config in table.configs if config not in seen]
        places = [prior.index[config] for config in rest]
        for load in LOADS:
            truth = np.log([table.ms_per_token[config, load] for config in rest])
            low, high = belief.quantile(0.05, load)[places], belief.quantile(0.95, load)[places]
            inside.append(np.mean((truth > low) & (truth < high)))
    return float(np.mean(inside))


@pytest.mark.parametrize("launches", [4, 9])
def test_ninety_percent_bands_hold_about_ninety_percent_on_foreign_formulas(launches):
    assert 0.85 <= coverage(range(16), launches) <= 0.97


def test_without_any_launch_the_order_is_sane():
    configs = [SpecConfig("off"), SpecConfig("v2", 1, 2, 3), SpecConfig("v1", 8, 6, 64)]
    belief = Belief.given(Prior.of(configs, LOADS), [])
    latency, loaded = belief.expected(1), belief.expected(100)
    assert latency[1] < latency[0]  # a short chain is expected to help one request
    assert loaded[2] > loaded[1]  # 6,400 tokens in a pass are expected to cost more than 300
    assert 0.5 < belief.std(1)[0] < 2.0


def test_gated_launches_narrow_the_load_they_skipped_too():
    ratios = []
    for seed in range(8):
        table = invented(seed)
        rng = np.random.default_rng(0)
        prior = Prior.of(table.configs, LOADS)
        first, other = table.configs[0], next(config for config in table.configs if config.topk == 1)
        before = Belief.given(prior, observed(table, [first], rng))
        after = Belief.given(prior, [*observed(table, [first], rng), *observed(table, [other], rng, loads=(1,))])
        place = prior.index[other]
        ratios.append([after.std(load)[place] / before.std(load)[place] for load in LOADS])
    measured, skipped = np.median(ratios, axis=0)
    assert measured < 0.2
    assert skipped < 0.95


def test_histogram_of_a_deep_chain_tells_the_shorter_ones():
    configs = [SpecConfig("off"), *(SpecConfig("v2", 1, steps, steps + 1) for steps in range(1, 7))]
    prior = Prior.of(configs, LOADS)
    deep = configs[-1]
    base = [Observation(configs[0], 1, 10.0)]
    # Of 100 passes 70, 50, 35, 25, 17, 10 accept at least 1, 2, … 6 drafts: 3.07 tokens a pass; one step alone gives 1.7.
    plain = Belief.given(prior, [*base, Observation(deep, 1, 5.0, accept_length=3.07)])
    told = Belief.given(
        prior, [*base, Observation(deep, 1, 5.0, accept_length=3.07, histogram=(30, 20, 15, 10, 8, 7, 10))]
    )
    short = prior.index[configs[1]]
    assert told.std(1)[short] < plain.std(1)[short]


def test_outlier_among_repeats_is_not_believed():
    table = invented(3)
    prior = Prior.of(table.configs, LOADS)
    off = table.configs[0]
    steady = [Observation(config, 1, table.ms_per_token[config, 1], 0.005) for config in table.configs[:12]]
    spoilt = [Observation(off, 1, 1.2 * table.ms_per_token[off, 1], 0.2), *steady[1:]]
    believed = np.exp(Belief.given(prior, spoilt).expected(1)[0])
    assert believed == pytest.approx(table.ms_per_token[off, 1], rel=0.12)


def test_earlier_study_informs_and_does_not_outvote_this_one():
    table = invented(3)
    prior = Prior.of(table.configs, LOADS)
    off, chain = table.configs[0], next(config for config in table.configs if config.topk == 1)
    earlier = [Observation(config, 1, 2 * table.ms_per_token[config, 1], weight=0.5) for config in (off, chain)]
    here = [Observation(off, 1, table.ms_per_token[off, 1]), Observation(chain, 1, table.ms_per_token[chain, 1])]
    none, only, both = (Belief.given(prior, seen) for seen in ([], earlier, [*earlier, *here]))
    place = prior.index[chain]
    assert only.std(1)[place] < 0.5 * none.std(1)[place]
    assert np.exp(both.expected(1)[place]) == pytest.approx(table.ms_per_token[chain, 1], rel=0.1)


def test_earlier_study_that_is_off_as_a_whole_still_tells_how_configs_compare():
    """Another host at half the speed: every number is twice as large, and their ratios hold."""
    table = invented(3)
    prior = Prior.of(table.configs, LOADS)
    off, *others = table.configs
    half = [others[at] for at in range(0, len(others), 2)]
    rest = [config for config in others if config not in half]
    earlier = [Observation(config, 1, 2 * table.ms_per_token[config, 1], weight=0.5) for config in (off, *half)]
    here = [Observation(off, 1, table.ms_per_token[off, 1], 0.01)]

    def error(seen):
        belief = Belief.given(prior, seen).expected(1)
        misses = [belief[prior.index[config]] - np.log(table.ms_per_token[config, 1]) for config in rest]
        return float(np.sqrt(np.mean(np.square(misses))))

    assert error([*earlier, *here]) < 0.7 * error(here)  # although each of them says twice the time


def test_told_bands_hold_noise_everywhere_and_the_models_own_uncertainty_where_nothing_was_measured():
    table = invented(3)
    prior = Prior.of(table.configs, LOADS)
    off, chain = table.configs[0], next(config for config in table.configs if config.topk == 1)
    belief = Belief.given(prior, [Observation(off, 1, 10.0, 0.001)])

    def width(config, *, told):
        low, high = (belief.quantile(q, 1, of_launch=told)[prior.index[config]] for q in (0.05, 0.95))
        return (high - low) / (2 * 1.645)

    noise = belief.noise[0]
    assert noise == pytest.approx(0.015, rel=0.5)
    assert width(off, told=True) ** 2 - width(off, told=False) ** 2 == pytest.approx(noise**2, rel=0.05)
    widened = width(chain, told=True) ** 2 - width(chain, told=False) ** 2
    assert widened == pytest.approx(noise**2 + 0.05**2, rel=0.3)
    # At the other load `off` was not measured either.
    at_other = [belief.quantile(q, 100, of_launch=told)[0] for told in (False, True) for q in (0.05, 0.95)]
    assert at_other[2] < at_other[0] and at_other[3] > at_other[1]


def test_categorical_knob_of_the_user_is_learned_from_one_pair():
    chains = [SpecConfig("v2", 1, steps, steps + 1) for steps in (1, 2, 3)]
    paged = [SpecConfig("v2", 1, steps, steps + 1, extra=(("attention_backend", "x"),)) for steps in (1, 2, 3)]
    configs = [SpecConfig("off"), *chains, *paged]
    prior = Prior.of(configs, LOADS)
    seen = [Observation(configs[0], 1, 10.0), Observation(chains[1], 1, 7.0), Observation(paged[1], 1, 6.0)]
    belief = Belief.given(prior, seen)
    gain = belief.expected(1)[prior.index[chains[2]]] - belief.expected(1)[prior.index[paged[2]]]
    assert gain == pytest.approx(np.log(7 / 6), abs=0.08)


def test_same_seed_gives_the_same_belief():
    table = invented(3)
    seen = observed(table, table.configs[:5], np.random.default_rng(0))
    one, two = (Belief.given(Prior.of(table.configs, LOADS, seed=9), seen).expected(100) for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_time_that_is_no_time_is_refused_at_the_door(bad):
    with pytest.raises(UsageError, match="`ms_per_token` of off at concurrency 1 is a positive number"):
        Observation(SpecConfig("off"), 1, bad)


def test_load_the_prior_was_not_made_for_is_named():
    belief = Belief.given(Prior.of([SpecConfig("off")], LOADS), [])
    with pytest.raises(UsageError, match=r"made for the loads \(1, 100\), but got 30"):
        belief.expected(30)
