"""What a config would be worth: read, judged and predicted without I/O."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from search.analysis.analyse import judge
from search.config import SpecConfig
from search.contracts import LaunchPaths, PhaseResult, Slot
from search.dialects import for_release
from search.engines import SimulatedEngine
from search.errors import InvalidConfig, UnsupportedKnob
from search.outcomes import Outcome, Reason
from search.physics.files import load_physics
from search.spec.file import find_study, load_study
from search.storage.records import LaunchRecord
from search.whatif.ask import what_if
from search.whatif.evidence import basis_of_launches, basis_of_physics


def study(release=None, **space):
    spec = load_study(find_study("kimi-k25", here=Path("/nowhere")))
    if release:
        spec = spec.model_copy(update={"engine": spec.engine.model_copy(update={"release": release})})
    # A small space keeps a test under a second; the forecasts of its configs are the same.
    small = {"topk": (1, 2, 4), "num_steps": (2, 3), "num_draft_tokens": (3, 7, 16), "allreduce_fusion": ("off",)}
    return spec.model_copy(update={"space": spec.space.model_copy(update=small | space)})


def ask(text, spec=None, *, points=None, basis=None):
    spec = spec or study()
    dialect = for_release(spec.engine.release)
    physics = load_physics(spec.simulation.physics)
    if points is not None:
        physics = replace(physics, points=tuple(point for point in physics.points if points(point)))
    basis = basis or basis_of_physics(spec, physics, spec.space_of(dialect).baselines)
    return what_if(spec, text, dialect=dialect, physics=physics, basis=basis)


@pytest.fixture(scope="module")
def sweet_spot():
    return ask("topk=2 num_steps=2")


def test_the_worker_left_open_gives_both_and_says_what_was_taken(sweet_spot):
    assert [variant.config_id for variant in sweet_spot.variants] == ["v1-k2-s2-d7", "v2-k2-s2-d7"]
    assert "spec_version: both workers." in sweet_spot.taken
    assert "num_draft_tokens 7: the full tree." in sweet_spot.taken


def test_v1_is_legal_with_its_share_of_tokens_and_its_command_line(sweet_spot):
    legality = sweet_spot.variants[0].legality
    assert legality.legal
    assert legality.verify_tokens == 7
    (share,) = [item for item in legality.shares if item.config_id == "v1-k4-s3-d16"]
    assert (share.tokens, share.ratio) == (16, 0.4375)
    assert legality.releases == ("0.5.9", "0.5.10", "0.5.10.post1", "0.5.11", "0.5.12", "0.5.12.post1")
    words = " ".join(legality.command)
    assert "SGLANG_ENABLE_SPEC_V2=0" in words
    assert "--speculative-num-steps 2 --speculative-eagle-topk 2 --speculative-num-draft-tokens 7" in words


def test_v2_is_locked_with_the_servers_words_and_where_it_is_legal(sweet_spot):
    legality = sweet_spot.variants[1].legality
    (refusal,) = legality.refusals
    assert refusal.rule_id == "v2-topk1-only"
    assert refusal.words == "Spec v2 currently only supports topk = 1 for speculative decoding."
    assert refusal.source.startswith("sglang 0.5.9 srt/server_args.py:")
    assert legality.locked
    assert legality.releases[0] == "0.5.13"


def test_a_patch_of_the_study_lifts_the_rule_and_is_named():
    spec = study()
    patch = spec.engine.patches[0].model_copy(update={"name": "v2-trees", "lifts": ("v2-topk1-only",)})
    engine = spec.engine.model_copy(update={"patches": (*spec.engine.patches, patch)})
    answer = ask("v2-k2-s2-d7", spec.model_copy(update={"engine": engine}))
    assert answer.variants[0].legality.legal
    assert "v2-trees (lifts v2-topk1-only)" in answer.variants[0].legality.through


def test_on_a_later_release_the_workers_change_places():
    v1, v2 = ask("topk=2 num_steps=2", study("0.5.16")).variants
    assert [refusal.rule_id for refusal in v1.legality.refusals] == ["v1-worker-gone"]
    assert v2.legality.legal


def test_missing_knobs_are_taken_from_the_study():
    answer = ask("topk=4 spec_version=v1")
    assert answer.variants[0].config_id == "v1-k4-s2-d21"
    assert "num_steps 2: as in v2-k1-s2-d3, which the study names first." in answer.taken


def test_a_rewritten_chain_is_told_under_its_canonical_id():
    (variant,) = ask("topk=1 num_steps=2 num_draft_tokens=9 spec_version=v2").variants
    assert variant.config_id == "v2-k1-s2-d3"
    assert variant.legality.rewritten_from == "v2-k1-s2-d9"


def test_an_impossible_tree_is_explained_with_its_bound():
    with pytest.raises(
        InvalidConfig, match=r"= 7` must hold .* got 16.* The root is 1 token, the first step proposes 2"
    ):
        ask("topk=2 num_steps=2 num_draft_tokens=16")


def test_a_tree_outside_the_choices_is_judged_all_the_same():
    (variant,) = ask("topk=8 num_steps=2 spec_version=v1").variants
    assert variant.config_id == "v1-k8-s2-d73"
    assert variant.legality.legal
    assert variant.legality.outside[0] == "`topk` 8 is not among the study's 1, 2, 4."
    assert "more than anything that started" in variant.cost.memory


def test_knob_that_the_release_cannot_spell_is_refused():
    with pytest.raises(UnsupportedKnob, match=r"adaptive steps; they begin at 0\.5\.11"):
        ask("topk=2 num_steps=2 adaptive=1-3")


def test_bands_are_ordered_and_beaten_only_by_chance(sweet_spot):
    for variant in sweet_spot.variants:
        assert [load.concurrency for load in variant.expectation.loads] == [1, 30, 100, 250]
        for load in variant.expectation.loads:
            assert 0 < load.low < load.expected < load.high
            assert 0 <= load.beats <= 1
            # Two forecasts from the same twelve numbers, made apart, should not contradict one another; the band's
            # ends move by some percent with the seed of the ensemble.
            assert 0.95 * load.low < load.model_tps < 1.05 * load.high
    assert sweet_spot.variants[0].expectation.at(100).best == "v2-k1-s2-d3"
    assert sweet_spot.variants[0].expectation.at(1).best == "off"


def test_the_control_of_width_and_worker_is_among_the_separations(sweet_spot):
    assert "v1-k1-s2-d3" in [item.launch for item in sweet_spot.separations]
    assert "v1 with topk 2 (only with 4)." in sweet_spot.variants[0].expectation.gaps


def test_unlocking_is_tied_to_the_legal_twin(sweet_spot):
    unlocking = sweet_spot.variants[1].unlocking
    assert unlocking.twin == "v1-k2-s2-d7"
    assert [item.concurrency for item in unlocking.thresholds] == [1, 100]
    for item in unlocking.thresholds:
        if item.twin_tps is not None:
            expected = sweet_spot.variants[0].expectation.at(item.concurrency).expected
            assert (item.twin_tps > expected) == (item.chance < 0.5)
    assert "v1-k2-s2-d7" in sweet_spot.variants[1].verdict or "not worth patching" in sweet_spot.variants[1].verdict


def test_cost_is_boot_and_phases_of_all_gpus(sweet_spot):
    cost = sweet_spot.variants[0].cost
    assert cost.boot_s == 795.0
    assert cost.gpus == 8
    assert cost.phases_s > 60
    assert cost.memory.endswith("v1-k4-s3-d16, which started, has 16 per request")


def test_a_measured_config_needs_no_launch():
    answer = ask("v2-k1-s2-d3")
    assert answer.variants[0].worth == "measured"
    assert answer.test.commands == ()
    assert answer.decision.startswith("No launch, it is measured already")


def test_without_any_number_the_baseline_comes_first():
    answer = ask("topk=2 num_steps=2", points=lambda point: False)
    assert answer.basis == "prior"
    assert answer.variants[0].worth == "open"
    assert answer.decision.startswith("Measure off first")


@pytest.mark.parametrize(
    ("left_out", "widest"),
    # Neither v1 nor a wide tree is seen without the tree, so its bands may be wide; the others may not.
    [("off", 4.0), ("v2-k1-s2-d3", 3.0), ("v1-k4-s3-d16", 12.0)],
)
def test_bands_without_a_config_hold_its_story_numbers(left_out, widest):
    truth = {
        point.concurrency: point.output_tps
        for point in load_physics("kimi-k25-story").points
        if point.config.config_id == left_out
    }
    loads = ask(left_out, points=lambda point: point.config.config_id != left_out).variants[0].expectation.loads
    held = [load.low < truth[load.concurrency] < load.high for load in loads]
    assert not any(load.measured for load in loads)
    assert sum(held) >= 3  # of four bands of 90%
    assert max(load.high / load.low for load in loads) < widest


def phase(concurrency, tps):
    return PhaseResult(
        concurrency=concurrency,
        repeat=1,
        requests=10,
        output_tokens=100,
        duration_s=1.0,
        output_tps=tps,
        whole_run_tps=tps,
        tpot_ms=1000.0 * concurrency / tps,
        ttft_ms=1.0,
    )


def launch(number, config_id, rates=None, **more):
    config = SpecConfig.from_id(config_id)
    phases = tuple(phase(load, tps) for load, tps in (rates or {}).items())
    outcome = {"outcome": Outcome.MEASURED} if rates else {}
    return LaunchRecord(
        number, "known", config, config, datetime(2026, 1, 1, tzinfo=UTC), **outcome | {"phases": phases} | more
    )


OWN = (
    launch(1, "off", {1: 100.0, 100: 800.0}, boot_s=600.0),
    launch(2, "v1-k2-s2-d7", {1: 130.0, 100: 900.0}, boot_s=700.0),
    launch(3, "v1-k4-s3-d16", outcome=Outcome.FAILED, reason=Reason.OOM_GRAPH),
)


def test_own_launches_are_what_a_forecast_rests_on():
    spec = study()
    answer = ask("topk=2 num_steps=2", spec, basis=basis_of_launches(spec, OWN, name="kimi-k25"))
    v1, v2 = answer.variants
    assert answer.basis == "launches"
    assert answer.rests_on == ("3 launches of study kimi-k25, with 2 configs measured at both objectives.",)
    assert v1.cost.boot_s == 665.0
    assert v1.expectation.at(1).measured
    assert 120 < v1.expectation.at(1).expected < 140
    assert v1.expectation.at(30).measured is False
    assert v2.expectation.at(100).best_tps == pytest.approx(900.0)


def test_memory_that_ran_out_of_a_smaller_tree_is_a_warning():
    spec = study()
    answer = ask("v1-k4-s3-d32", spec, basis=basis_of_launches(spec, OWN, name="kimi-k25"))
    assert "v1-k4-s3-d16 ran out of memory with 16 per request" in answer.variants[0].cost.memory


def test_a_changed_study_file_widens_the_bands_and_is_told():
    spec = study()
    same, changed = (basis_of_launches(spec, OWN, name="kimi-k25", changed=parts) for parts in ((), ("engine",)))
    assert "changed" in changed.words[1] and "engine" in changed.words[1]
    bands = [ask("v1-k2-s2-d7", spec, basis=basis).variants[0].expectation.at(1) for basis in (same, changed)]
    assert bands[1].high / bands[1].low > bands[0].high / bands[0].low


def test_launches_without_both_objectives_are_no_basis():
    spec = study()
    assert basis_of_launches(spec, (launch(1, "off", {1: 100.0}),), name="kimi-k25") is None
    assert basis_of_launches(spec, (), name="kimi-k25") is None


def simulated(spec, config_ids):
    """Launches of a simulated study, each load measured once."""
    engine = SimulatedEngine(load_physics(spec.simulation.physics), seed=0, deployment=spec.deployment)
    for number, config in enumerate(map(SpecConfig.from_id, config_ids), start=1):
        with engine.launch(config, slot=Slot(0), paths=LaunchPaths(Path(f"{number:04d}"))) as session:
            phases = tuple(session.measure(spec.measure.phase(load, warm=True), 1) for load in spec.loads)
        began = datetime(2026, 1, 1, tzinfo=UTC)
        yield LaunchRecord(number, "known", config, config, began, outcome=Outcome.MEASURED, phases=phases)


def test_report_of_the_simulated_study_and_whatif_say_the_same_of_the_same_config():
    """The report once printed +13.6% [+10.2%, +17.0%] where what-if said 682 to 994 tok/s (#12)."""
    spec = study()
    asked = ["v1-k2-s2-d7", "v1-k1-s2-d3"]
    judged = judge(spec, list(simulated(spec, ["off", "v2-k1-s2-d3", "v1-k4-s3-d16", *asked])))
    for config_id in asked:
        result = next(one for one in judged.results if one.config.config_id == config_id)
        (variant,) = ask(config_id, spec).variants
        assert result.extrapolated
        for load in spec.loads:
            printed, told = result.loads[load], variant.expectation.at(load)
            assert printed.band and printed.rate.value == told.model_tps
            assert (printed.rate.lo, printed.rate.hi) == told.model_band


def test_report_of_the_simulated_study_stays_within_what_whatif_thinks_possible():
    spec = study()
    judged = judge(spec, list(simulated(spec, ["off", "v2-k1-s2-d3", "v1-k4-s3-d16"])))
    for result in judged.results:
        (variant,) = ask(result.config.config_id, spec).variants
        for load in spec.loads:
            told = variant.expectation.at(load)
            # The belief was made from the twelve numbers that the simulator was fitted to.
            assert 0.95 * told.low < result.loads[load].rate.value < 1.05 * told.high
