"""The stages after the search, and how launches are shared out between all of them."""

from collections import Counter
from dataclasses import replace

import pytest

from search.errors import BreakerOpen, Interrupted, LaunchFailed
from search.outcomes import Evidence, Outcome, Reason
from search.spec.study import BudgetSpec
from search.study.events import Ending
from search.study.stages import StageBudgets, ladder_loads
from search.testing.engines import Script, ScriptedEngine, Speed

RUNGS = (1, 2, 5, 10, 20, 30, 50, 100)


def speed(at_1, at_100, accept=None):
    """Straight in between, so that every rung has a rate."""
    return Speed({load: at_1 + (at_100 - at_1) * (load - 1) / 99 for load in RUNGS}, accept=accept)


OFF, CHAIN, TREE = speed(100.0, 1000.0), speed(90.0, 1100.0, 2.0), speed(80.0, 700.0, 2.5)


def usual(config, _before=0, _slot=0, **more):
    return Script(OFF if not config.speculates else CHAIN if config.topk == 1 else TREE, **more)


def with_budget(lab, words):
    return lab.text.replace("closing: false, confirm: 0, ladder: 0", words)


def stages(heard):
    return [(launch.stage, launch.asked.config_id) for launch in heard.launches]


def budgets(launches, *, kind="measured", baselines=1, known=1, slots=1, **budget):
    shared = StageBudgets.of(
        BudgetSpec(**budget), kind=kind, launches=launches, baselines=baselines, known=known, slots=slots
    )
    return shared.baseline, shared.known, shared.search, shared.confirm, shared.ladder, shared.closing


class TestBudgets:
    def test_forty_launches_leave_most_to_the_search(self):
        assert budgets(40, baselines=2, known=4) == (2, 4, 25, 8, 0, 1)

    def test_few_launches_confirm_fewer_picks_and_say_so(self):
        assert budgets(12) == (1, 1, 5, 4, 0, 1) and budgets(8) == (1, 1, 5, 0, 0, 1)
        short = StageBudgets.of(BudgetSpec(), kind="measured", launches=12, baselines=1, known=1)
        enough = StageBudgets.of(BudgetSpec(), kind="measured", launches=40, baselines=1, known=1)
        assert "4 of 7 confirmations are left" in next(short.shortfalls()) and not list(enough.shortfalls())

    def test_baselines_and_known_configs_come_before_everything_else(self):
        assert budgets(2) == (1, 1, 0, 0, 0, 0)
        assert budgets(3) == (1, 1, 0, 0, 0, 1)
        assert budgets(5, known=9) == (1, 4, 0, 0, 0, 0)

    def test_each_slot_measures_its_baseline_at_both_ends(self):
        assert budgets(40, slots=4) == (4, 1, 24, 7, 0, 4)
        assert budgets(8, slots=4) == (4, 1, 3, 0, 0, 0)

    def test_study_file_may_ask_for_more_or_for_none(self):
        assert budgets(12, confirm=3, ladder=2, closing=False) == (1, 1, 5, 3, 2, 0)
        assert budgets(6, confirm=9, ladder=2) == (1, 1, 0, 3, 0, 1)
        assert budgets(40, confirm=0, ladder=0) == (1, 1, 37, 0, 0, 1)

    def test_recording_gives_no_fresh_launches_and_a_computed_host_does_not_drift(self):
        assert budgets(40, kind="replay", confirm=3, ladder=3) == (1, 1, 38, 0, 0, 0)
        assert budgets(40, kind="simulated") == (1, 1, 30, 8, 0, 0)

    def test_recording_of_several_starts_has_some_to_confirm_with(self):
        shared = StageBudgets.of(BudgetSpec(), kind="replay", launches=40, baselines=1, known=1, restarts=True)
        assert (shared.confirm, shared.ladder, shared.closing) == (8, 0, 0)

    def test_shares_never_exceed_the_budget(self):
        for launches in range(1, 60):
            for slots in (1, 3, 8):
                assert sum(budgets(launches, slots=slots)) == launches

    def test_rungs_of_the_ladder_lie_between_the_lowest_and_the_highest_load(self):
        assert ladder_loads((1, 30, 100, 250)) == (1, 2, 5, 10, 20, 30, 50, 100, 250)
        assert ladder_loads((4, 64)) == (4, 5, 10, 20, 30, 50, 64)


class TestClosingBaseline:
    WORDS = "confirm: 0, ladder: 0"

    def test_budget_that_ends_the_search_leaves_a_launch_for_the_baseline(self, lab):
        heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, self.WORDS), launches=4)
        assert heard.ending is Ending.LAUNCHES
        assert [stage for stage, _ in stages(heard)] == ["baseline", "known", "search", "closing"]
        assert heard.launches[-1].asked.config_id == "off" and heard.launches[-1].trial is None
        assert any(line.startswith("No drift of the host is shown: ") for line in heard.judgement.remarks)

    def test_hour_budget_leaves_the_time_for_it_too(self, lab):
        engine = ScriptedEngine(lambda config, _: usual(config, boot_s=3600.0))
        heard = lab.run(engine, text=with_budget(lab, self.WORDS), hours=4.0)
        assert heard.ending is Ending.HOURS and stages(heard)[-1] == ("closing", "off")
        assert heard.hours < 5.0

    def test_finished_study_that_is_run_again_does_not_measure_it_once_more(self, lab):
        text = with_budget(lab, self.WORDS)
        assert stages(lab.run(ScriptedEngine(usual), text=text))[-1] == ("closing", "off")
        again = ScriptedEngine(usual)
        assert lab.run(again, text=text).ending is Ending.EXHAUSTED and again.launched == []

    def test_study_that_goes_on_owes_another_one(self, lab):
        text = with_budget(lab, self.WORDS)
        lab.run(ScriptedEngine(usual), text=text, launches=4)
        heard = lab.run(ScriptedEngine(usual), text=text, launches=7)
        assert [stage for stage, _ in stages(heard)] == ["search", "search", "closing"]

    def test_too_few_launches_for_it_are_said_and_go_to_the_known_configs(self, lab):
        heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, self.WORDS), launches=2)
        assert stages(heard) == [("baseline", "off"), ("known", "v2-k1-s2-d3")]
        assert heard.notices == ["the baseline is not measured again at the end: 2 launches leave none for it"]

    def test_every_slot_measures_its_own(self, lab):
        engine = ScriptedEngine(usual)
        heard = lab.run(engine, text=with_budget(lab, self.WORDS), slots=3)
        closing = [launch for launch in heard.launches if launch.stage == "closing"]
        assert sorted(launch.slot for launch in closing) == [0, 1, 2]
        assert engine.launched[-3:] == ["off"] * 3

    def test_one_that_fails_is_not_tried_again_and_does_not_stop_the_study(self, lab):
        def script(config, before):
            if not config.speculates and before:
                return Script(launch_error=LaunchFailed(Reason.HOST_BUSY, Evidence("busy")))
            return usual(config)

        engine = ScriptedEngine(script)
        heard = lab.run(engine, text=with_budget(lab, self.WORDS))
        assert heard.ending is Ending.EXHAUSTED and engine.launched.count("off") == 2

    def test_breaker_and_ctrl_c_leave_it_out(self, lab):
        def broken(config, _):
            if config.speculates:
                return Script(launch_error=LaunchFailed(Reason.OOM_GRAPH, Evidence("no room")))
            return usual(config)

        engine = ScriptedEngine(broken)
        assert isinstance(lab.run(engine, text=with_budget(lab, self.WORDS)).error, BreakerOpen)
        assert engine.launched.count("off") == 1
        (lab.folder / "trials.db").unlink()
        pressed = ScriptedEngine(
            lambda config, _: usual(config, phase_error={100: KeyboardInterrupt()} if config.speculates else {})
        )
        assert isinstance(lab.run(pressed, text=with_budget(lab, self.WORDS)).error, Interrupted)
        assert pressed.launched == ["off", "v2-k1-s2-d3"]


def test_known_configs_come_before_confirmations_where_hours_are_short(lab):
    """Else four hours measure five baselines, and every question of the study is left open."""
    text = with_budget(lab, "closing: false, confirm: 12, ladder: 0").replace(
        "known: [v2-k1-s2-d3]", "known: [v2-k1-s2-d3, v1-k1-s2-d3, v1-k2-s2-d7]"
    )
    engine = ScriptedEngine(lambda config, _: usual(config, boot_s=3600.0))
    heard = lab.run(engine, text=text, hours=6.0)
    told = [stage for stage, _ in stages(heard)]
    assert told[:4] == ["baseline", "known", "known", "known"] and set(told[4:]) <= {"confirm"}


class TestConfirmation:
    WORDS = "closing: false, confirm: 3, ladder: 0"

    def test_picks_are_launched_afresh_with_held_out_prompts_after_the_baseline(self, lab):
        engine = ScriptedEngine(usual)
        heard = lab.run(engine, text=with_budget(lab, self.WORDS), launches=6)
        assert [stage for stage, _ in stages(heard)] == ["baseline", "known", "search"] + ["confirm"] * 3
        confirmed = [config for stage, config in stages(heard) if stage == "confirm"]
        assert confirmed[0] == "off" and heard.launches[3].why.endswith("compared with, on the same prompts")
        assert confirmed[1] == confirmed[2] != "off"  # two starts of its own
        assert all(launch.trial is None for launch in heard.launches[3:])

    def test_baselines_and_confirmations_measure_the_objectives_on_both_prompt_sets(self, lab):
        heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, self.WORDS), launches=6)

        def measured(launch):
            return [(p.concurrency, p.repeat, p.held_out) for p in launch.phases if p.concurrency != 30]

        search = [(load, repeat, False) for repeat in (1, 2) for load in (1, 100)]
        both = [(load, repeat, held) for repeat in (1, 2) for held in (False, True) for load in (1, 100)]
        fresh = [(load, repeat, held) for repeat in (1, 2) for held in (True, False) for load in (1, 100)]
        assert [measured(launch) for launch in heard.launches] == [both, search, search, fresh, fresh, fresh]

    def test_optuna_is_told_what_the_search_prompts_gave(self, lab):
        """The held-out ones are for the end: what they say must not steer the search."""

        class Harder(ScriptedEngine):
            def launch(self, config, *, slot, paths, holds=()):
                session = super().launch(config, slot=slot, paths=paths)
                measure = session.measure

                def halved(phase, repeat):
                    result = measure(phase, repeat)
                    return replace(result, output_tps=result.output_tps / 2) if phase.held_out else result

                session.measure = halved
                return session

        lab.run(Harder(usual), text=with_budget(lab, self.WORDS), launches=6)
        assert lab.trial("off").values[1] == pytest.approx(1000.0)

    def test_reported_values_are_those_of_the_fresh_launch(self, lab):
        """The search met the chain on a lucky day: the report has to say what came out again."""

        def script(config, before):
            if config.config_id == "v2-k1-s2-d3" and not before:
                return Script(speed(120.0, 1500.0, 2.0))
            return usual(config)

        heard = lab.run(ScriptedEngine(script), text=with_budget(lab, self.WORDS), launches=6)
        results = {result.config.config_id: result for result in heard.judgement.results}
        chain = results["v2-k1-s2-d3"]
        assert chain.confirmed and chain.values[1].value == pytest.approx(1100.0)
        assert chain.searched.values[1].value == pytest.approx(1500.0)
        assert chain.score == pytest.approx((0.9 * 1.1) ** 0.5)
        assert results["off"].confirmed and chain.launches == (2, 5, 6)
        high = heard.judgement.winners[-1]
        assert not high.claimed and high.assumed  # two starts of it, as many of the baseline
        assert high.ahead[0].config.config_id == "v2-k1-s2-d3" and high.ahead[0].gain.value == pytest.approx(1.1)

    def test_other_prompts_do_not_make_a_confirmed_config_lose_to_one_that_is_not(self, lab):
        """Held-out prompts that are harder for all say nothing about which config is better."""

        def script(config, before):
            base = {"off": (100.0, 1000.0), "v2-k1-s2-d3": (90.0, 1300.0)}.get(config.config_id, (85.0, 1200.0))
            accept = 2.0 if config.speculates else None
            return Script(speed(*base, accept), held_out_speed=speed(base[0] * 0.8, base[1] * 0.8, accept))

        heard = lab.run(ScriptedEngine(script), text=with_budget(lab, "closing: false, confirm: 2, ladder: 0"))
        front = [(result.config.config_id, result.confirmed) for result in heard.judgement.front]
        assert front == [("off", True), ("v2-k1-s2-d3", True)]
        high = heard.judgement.winners[-1]
        assert high.ahead[0].config.config_id == "v2-k1-s2-d3" and high.ahead[0].gain.value == pytest.approx(1.3)

    def test_config_that_fails_its_confirmation_is_not_launched_for_it_again(self, lab):
        def script(config, before):
            if config.speculates and before:
                return Script(launch_error=LaunchFailed(Reason.CUDA_FAULT, Evidence(f"fault {config}")))
            return usual(config)

        engine = ScriptedEngine(script)
        heard = lab.run(engine, text=with_budget(lab, self.WORDS))
        tried = [config for stage, config in stages(heard) if stage == "confirm"]
        assert heard.ending is Ending.EXHAUSTED and len(tried) == len(set(tried)) == 3

    def test_resumed_study_confirms_what_is_left_and_no_more(self, lab):
        text = with_budget(lab, self.WORDS)

        def cut(config, before):
            error = {1: KeyboardInterrupt()} if config.speculates and before else {}
            return usual(config, phase_error=error)

        heard = lab.run(ScriptedEngine(cut), text=text)
        assert isinstance(heard.error, Interrupted) and stages(heard)[-1][0] == "confirm"
        again = ScriptedEngine(usual)
        resumed = lab.run(again, text=text)
        assert [stage for stage, _ in stages(resumed)] == ["confirm"] and lab.run(ScriptedEngine(usual), text=text)
        assert sum(launch.stage == "confirm" for launch in lab.launches()) == 3

    def test_picks_are_confirmed_on_one_slot(self, lab):
        heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, self.WORDS), slots=3)
        assert [launch.slot for launch in heard.launches if launch.stage == "confirm"] == [0, 0, 0]

    def test_no_confirmation_begins_while_the_search_runs(self, lab):
        slow = ScriptedEngine.on_slots(lambda config, _, slot: usual(config, boot_s=9000.0 if slot == 1 else 10.0))
        heard = lab.run(slow, text=with_budget(lab, self.WORDS), slots=2)
        ends = [launch.stage for launch in heard.launches]
        assert ends[-3:] == ["confirm"] * 3 and "confirm" not in ends[:-3]


def test_confirmed_start_of_a_family_climbs_its_ladder_too(lab):
    heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, "closing: false, confirm: 5"), launches=8)
    confirmed = [launch for launch in heard.launches if launch.stage == "confirm"]
    rungs = [{phase.concurrency for phase in launch.phases} == set(RUNGS) for launch in confirmed]
    families = [launch.asked.family for launch in confirmed]
    assert rungs == [family not in families[:place] for place, family in enumerate(families)]
    assert "ladder" not in [stage for stage, _ in stages(heard)]


def test_default_study_starts_baseline_three_times_and_every_pick_twice_more(lab):
    text = lab.text.replace(", closing: false, confirm: 0, ladder: 0", ", closing: false")
    rates = {"off": (100.0, 1000.0), "v2-k1-s2-d3": (90.0, 1300.0), "v2-k1-s1-d2": (104.0, 1100.0)}
    engine = ScriptedEngine(
        lambda config, _: Script(speed(*rates.get(config.config_id, (80.0, 900.0)), 2.0 if config.speculates else None))
    )
    heard = lab.run(engine, text=text)
    own = Counter(launch.asked for launch in heard.launches if launch.stage == "confirm")
    picks = {pick.result.config for pick in heard.judgement.picks if pick.result.config.speculates}
    assert engine.launched.count("off") >= 3 and picks and all(own[pick] >= 2 for pick in picks)
    for load in (1, 100):
        starts = {
            (launch.asked, phase.held_out, launch.number)
            for launch in heard.launches
            for phase in launch.phases
            if phase.concurrency == load
        }
        on_search_prompts = Counter(config for config, held_out, _ in starts if not held_out)
        assert sum(count - 1 for count in on_search_prompts.values()) >= 7


class TestLadder:
    WORDS = "closing: false, confirm: 0, ladder: 4"

    def test_best_of_each_family_climbs_all_rungs_once(self, lab):
        engine = ScriptedEngine(usual)
        heard = lab.run(engine, text=with_budget(lab, self.WORDS))
        ladder = [launch for launch in heard.launches if launch.stage == "ladder"]
        assert ladder[0].asked.config_id == "off"
        kinds = {(launch.asked.spec_version.value, launch.asked.topk) for launch in ladder}
        # The trees are behind at both objectives, by far more than any interval.
        assert kinds == {("off", None), ("v1", 1), ("v2", 1)}
        assert all([(p.concurrency, p.repeat) for p in launch.phases] == [(c, 1) for c in RUNGS] for launch in ladder)
        assert not any(engine.held_out)

    def test_every_rung_has_a_winner_and_says_what_is_ahead(self, lab):
        heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, self.WORDS))
        ahead = {winner.concurrency: bool(winner.ahead or winner.claimed) for winner in heard.judgement.winners}
        # 100 + 9.09 (C - 1) against 90 + 10.2 (C - 1): even at C = 10.
        assert ahead == {1: False, 2: False, 5: False, 10: False, 20: True, 30: True, 50: True, 100: True}

    def test_study_without_a_speculating_config_needs_none(self, lab):
        text = with_budget(lab, self.WORDS).replace("known: [v2-k1-s2-d3]", "")
        engine = ScriptedEngine(usual)
        lab.run(engine, text=text, configs=["off"])
        assert engine.launched == ["off"]


def test_all_stages_come_in_order_and_end_with_the_baseline(lab):
    heard = lab.run(ScriptedEngine(usual), text=with_budget(lab, "closing: true, confirm: 2, ladder: 2"), launches=11)
    order = [stage for stage, _ in stages(heard)]
    assert list(dict.fromkeys(order)) == ["baseline", "known", "search", "confirm", "ladder", "closing"]
    assert order == sorted(order, key=list(dict.fromkeys(order)).index)
    assert all(launch.outcome is Outcome.MEASURED for launch in heard.launches)
