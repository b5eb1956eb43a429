"""The sampler that searches for one config for a day's traffic."""

import optuna
import pytest

from search.config import SpecConfig
from search.contracts import PhaseResult
from search.errors import UsageError
from search.metrics import Traffic
from search.model.belief import Prior
from search.model.feasibility import Feasibility
from search.model.observations import Observation
from search.samplers.evidence import EVIDENCE, config_of, evidence_of
from search.samplers.factory import make_sampler
from search.samplers.traffic import TrafficOutlook

NAMES = ("off", "v2-k1-s1-d2", "v2-k1-s2-d3", "v2-k1-s3-d4", "v2-k1-s5-d6", "v1-k4-s3-d16")
CONFIGS = tuple(map(SpecConfig.from_id, NAMES))
OFF, SHORT, *_ = CONFIGS
DAY = Traffic(((1, 0.1), (30, 0.8), (100, 0.1)))


def outlook(rates, traffic=DAY):
    """After measurements of output tokens per second by config and load."""
    observations = [
        Observation(config, load, 1000 * load / rate, 0.005)
        for config, mine in rates.items()
        for load, rate in mine.items()
    ]
    return TrafficOutlook(
        traffic,
        Prior.of(CONFIGS, (1, 30, 100), seed=0),
        Feasibility(CONFIGS, seed=0),
        observations=observations,
        starts=(),
        measured=list(rates),
    )


MEASURED = {OFF: {1: 90.0, 30: 700.0, 100: 770.0}, SHORT: {1: 85.0, 30: 840.0, 100: 760.0}}


def test_best_time_is_that_of_what_was_measured_to_serve_it_best():
    told = outlook(MEASURED)
    by_hand = 0.1 * 90 / 85 + 0.8 * 700 / 840 + 0.1 * 770 / 760
    assert told.best_time == pytest.approx(by_hand, rel=0.03)
    assert told.expected_times[told.prior.index[OFF]] == pytest.approx(1.0, rel=0.03)
    assert not told.may_enter(OFF)


def test_traffic_of_one_load_ranks_as_that_load_does():
    lone = outlook(MEASURED, Traffic(((30, 1.0),)))
    paces = lone.belief.expected(30)
    order = sorted(range(len(CONFIGS)), key=lambda place: paces[place])
    times = sorted(range(len(CONFIGS)), key=lambda place: lone.expected_times[place])
    assert order[0] == times[0]


def test_gain_is_a_share_of_the_best_time_and_none_is_negative():
    told = outlook(MEASURED)
    assert all(0 <= gain < 1 for gain in told.gains)
    unmeasured = [config for config in CONFIGS if config not in MEASURED]
    assert told.expected_gain(unmeasured) == max(told.forecast(config).gain for config in unmeasured)
    assert "time for the traffic" in told.forecast(unmeasured[0]).why


def test_study_finds_the_config_that_serves_its_traffic():
    """The deep chain is best at the load that most of the day is spent at; the front's ends are elsewhere."""
    rates = {
        "off": (90, 700, 770), "v2-k1-s1-d2": (88, 760, 775), "v2-k1-s2-d3": (86, 820, 760),
        "v2-k1-s3-d4": (84, 870, 740), "v2-k1-s5-d6": (80, 800, 650), "v1-k4-s3-d16": (80, 320, 350),
    }  # fmt: skip
    sampler = make_sampler("traffic", configs=CONFIGS, seed=0, traffic=DAY)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    asked = []
    for _ in range(4):
        trial = study.ask()
        for name in sampler.distributions:
            trial.suggest_categorical(name, sampler.distributions[name].choices)
        config = config_of(study.trials[trial.number])
        asked.append(config.config_id)
        phases = [phase_at(load, rate) for load, rate in zip((1, 30, 100), rates[config.config_id], strict=True)]
        trial.set_user_attr(EVIDENCE, evidence_of(phases).dumped())
        study.tell(trial, (1000 / rates[config.config_id][0], rates[config.config_id][2]))
    assert asked[0] == "off"
    assert "v2-k1-s3-d4" in asked
    assert sampler.outlook(study).best_time == pytest.approx(
        0.1 * 90 / 84 + 0.8 * 700 / 870 + 0.1 * 770 / 740, rel=0.03
    )


def phase_at(load, rate):
    return PhaseResult(
        concurrency=load, repeat=1, requests=16, output_tokens=None, duration_s=None, output_tps=rate, whole_run_tps=None,
        tpot_ms=1000 / rate if load == 1 else None, ttft_ms=None,
    )  # fmt: skip


def test_without_traffic_there_is_nothing_to_search_for():
    with pytest.raises(UsageError, match="`traffic`"):
        make_sampler("traffic", configs=CONFIGS, seed=0)
