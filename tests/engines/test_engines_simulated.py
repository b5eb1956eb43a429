"""The simulated engine."""

import dataclasses
import math
import pickle
import statistics
from pathlib import Path
from statistics import fmean

import pytest

from search.config import SpecConfig
from search.contracts import LaunchPaths, Phase, Slot
from search.deployment import Deployment, Hardware
from search.engines import SimulatedEngine
from search.errors import LaunchFailed, LoadFailed
from search.outcomes import Note, Reason
from search.physics.files import load_physics

PHYSICS = load_physics("kimi-k25-story")
DEPLOYMENT = Deployment(
    model="m",
    draft="d",
    algorithm="EAGLE3",
    tp=8,
    hardware=Hardware("RTX PRO 6000", 120, 96.0, "pcie"),
    release="0.5.9",
)
SLOT = Slot(0)
C1 = Phase(1, 16, 256, warmup_requests=2)
C100 = Phase(100, 400, 256)


def engine(seed=7, *, noise=True, deployment=DEPLOYMENT, **changes):
    model = dataclasses.replace(PHYSICS.model, **changes)
    return SimulatedEngine(dataclasses.replace(PHYSICS, model=model), seed=seed, deployment=deployment, noise=noise)


def launch(config_id, source=None, folder="0001-x"):
    config = SpecConfig.from_id(config_id)
    return (source or engine()).launch(config, slot=SLOT, paths=LaunchPaths(Path("launches") / folder))


def test_noise_free_story_number_comes_out_at_both_objectives():
    with launch("off", engine(noise=False)) as session:
        assert session.measure(C1, 1).tpot_ms == pytest.approx(1000 / 92.7, rel=0.02)
        assert session.measure(C100, 1).output_tps == pytest.approx(773.1, rel=0.02)
        assert session.boot_s == 780.0


def test_effective_is_what_was_asked_and_limits_are_told():
    config = SpecConfig.from_id("v1-k4-s3-d16")
    with launch("v1-k4-s3-d16", engine(v1_running_limit=48)) as session:
        assert session.effective.config == config
        assert session.effective.release == "0.5.9"
        assert session.effective.max_running_requests == 48
    with launch("off") as session:
        assert session.effective.max_running_requests == 256


def test_numbers_do_not_depend_on_order_process_or_place_of_the_reports():
    with launch("v2-k1-s2-d3") as session:
        first, second = session.measure(C1, 1), session.measure(C100, 1)
    copy = pickle.loads(pickle.dumps(engine()))
    elsewhere = LaunchPaths(Path("/somewhere/else/0001-x"))
    with copy.launch(SpecConfig.from_id("v2-k1-s2-d3"), slot=Slot(3), paths=elsewhere) as session:
        assert session.measure(C100, 1) == second
        assert session.measure(C1, 1) == first


@pytest.mark.parametrize("other", ["seed", "repeat", "launch", "held out"])
def test_another_seed_repeat_launch_or_prompt_set_gives_other_noise(other):
    with launch("off") as session:
        here = session.measure(C100, 1)
    source = engine(seed=8) if other == "seed" else engine()
    phase = dataclasses.replace(C100, held_out=other == "held out")
    with launch("off", source, "0002-x" if other == "launch" else "0001-x") as session:
        there = session.measure(phase, 2 if other == "repeat" else 1)
    assert there.output_tps != here.output_tps
    assert there.output_tps == pytest.approx(here.output_tps, rel=0.05)


def test_repeats_spread_by_less_than_a_few_percent_around_the_expectation():
    with launch("off") as session:
        rates = [session.measure(C100, repeat).output_tps for repeat in range(1, 101)]
    assert fmean(rates) == pytest.approx(778.7, rel=0.005)
    assert 0.004 < (max(rates) - min(rates)) / 778.7 < 0.06


def test_result_is_complete_and_consistent():
    with launch("v2-k1-s2-d3") as session:
        result = session.measure(C100, 2)
    assert (result.concurrency, result.repeat, result.requests, result.output_tokens) == (100, 2, 400, 102_400)
    assert result.whole_run_tps == pytest.approx(102_400 / result.duration_s)
    assert result.whole_run_tps < result.output_tps
    assert fmean(result.prompt_tpot_ms) == pytest.approx(result.tpot_ms)
    assert len(result.prompt_tpot_ms) == 400
    assert fmean(result.window_tps) == pytest.approx(result.output_tps)
    passes = sum(result.accept_histogram)
    assert result.accept_length == pytest.approx(
        sum((drafts + 1) * count for drafts, count in enumerate(result.accept_histogram)) / passes
    )
    assert result.accept_length == pytest.approx(1.93, abs=0.03)
    assert result.accept_length * passes == pytest.approx(102_400, rel=0.01)


def test_off_has_no_acceptance():
    with launch("off") as session:
        result = session.measure(C1, 1)
    assert result.accept_length is None
    assert result.accept_histogram == ()


def test_prompts_that_draft_badly_do_so_for_every_config():
    per_prompt = []
    for config_id in ("v2-k1-s2-d3", "v1-k4-s3-d16"):
        with launch(config_id) as session:
            result = session.measure(C100, 1)
            per_prompt.append([value / result.tpot_ms for value in result.prompt_tpot_ms])
    ratios = [a / b for a, b in zip(*per_prompt, strict=True)]
    assert max(per_prompt[0]) - min(per_prompt[0]) > 0.2
    assert max(ratios) - min(ratios) < 0.06


def test_warmup_takes_time_only_where_the_phase_has_one():
    with launch("off") as session:
        assert session.measure(C1, 1).warmup_s > 1.0
        assert session.measure(C100, 1).warmup_s == 0.0


def test_every_result_is_synthetic_and_only_fitted_ones_are_not_extrapolated():
    with launch("off") as session:
        assert session.measure(C1, 1).notes == (Note.SYNTHETIC,)
        assert session.measure(C1, 1).extrapolated is False
        assert session.measure(Phase(50, 100, 256), 1).extrapolated is True
    with launch("v1-k2-s2-d7") as session:
        assert session.measure(C1, 1).extrapolated is True


def test_admission_is_limited_by_the_worker_and_by_the_study():
    limited = (Note.SYNTHETIC, Note.ADMISSION_LIMITED)
    with launch("v1-k4-s3-d16", engine(v1_running_limit=48)) as session:
        assert session.measure(Phase(48, 96, 256), 1).notes == (Note.SYNTHETIC,)
        assert session.measure(Phase(49, 98, 256), 1).notes == limited
    with launch("v2-k1-s2-d3") as session:
        assert session.measure(Phase(250, 500, 256), 1).notes == (Note.SYNTHETIC,)
    small = dataclasses.replace(DEPLOYMENT, max_running_requests=64)
    with launch("off", engine(deployment=small)) as session:
        assert session.measure(C100, 1).notes == limited


def test_drafts_that_never_help_and_acceptance_that_falls_are_noted():
    with launch("v1-k1-s2-d3", engine(first_accept=0.01)) as session:
        assert Note.NO_DRAFT_GAIN in session.measure(C1, 1).notes
    with launch("v1-k1-s2-d3", engine(v1_accept_loss=2.0)) as session:
        assert Note.ACCEPT_DRIFT not in session.measure(C1, 1).notes
        assert Note.ACCEPT_DRIFT in session.measure(C100, 1).notes


def test_tree_beyond_the_memory_cliff_fails_at_launch_and_says_what_it_cost():
    source = engine(draft_token_limit=8, noise=False)
    launch("v1-k2-s2-d7", source).close()
    with pytest.raises(LaunchFailed) as caught:
        launch("v1-k4-s3-d16", source)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert error.reason is Reason.OOM_GRAPH
        assert "16 draft tokens" in str(error)
        assert error.spent_s == pytest.approx(780.0, rel=0.2)


def test_closed_session_stops_cleanly_once_and_measures_no_more():
    session = launch("off")
    report = session.close()
    assert report.clean
    assert session.close() is report
    with pytest.raises(LoadFailed, match="closed"):
        session.measure(C1, 1)


def test_starts_of_one_config_differ_by_their_scatter_and_repeats_of_a_start_do_not():
    source = engine(start_spread=0.05, repeat_spread=0.0)
    means = []
    for number in range(200):
        with launch("off", source, folder=f"{number:04}-off") as session:
            rates = [session.measure(C100, repeat).output_tps for repeat in (1, 2)]
        assert rates[0] == rates[1]
        means.append(math.log(rates[0]))
    assert statistics.stdev(means) == pytest.approx(0.05, rel=0.2)


def test_prompts_have_names_so_that_configs_are_paired():
    with launch("off") as first, launch("v2-k1-s2-d3") as second:
        mine, theirs = first.measure(C1, 1), second.measure(C1, 2)
    assert len(set(mine.prompt_ids)) == mine.requests
    assert mine.prompt_ids == theirs.prompt_ids
