"""What is started again after the search, and in which order."""

from collections import Counter

import pytest

from search.testing.engines import Script, ScriptedEngine, Speed

QUESTION = "questions:\n  wide: {knob: topk, value: 2, against: [1], at: [1, 100]}\n"
ODD = (1.0, 1.02, 0.99, 1.01, 0.98, 1.005)
"""Of the starts of a config, in turn: they scatter by 1.5%."""
WIDE = (1.0, 1.03, 0.97, 1.02, 0.98, 1.0)


def scattering(rates, odd=ODD):
    """An engine whose starts of one config differ; rates at C=1, 30 and 100. Configs that are not named are far behind."""

    def script(config, before):
        base = rates.get(config.config_id, (40.0, 200.0, 400.0))
        mine = odd[(before + len(config.config_id)) % len(odd)]
        speeds = {load: rate * mine for load, rate in zip((1, 30, 100), base, strict=True)}
        speeds |= dict.fromkeys((2, 5, 10, 20), speeds[1]) | {50: speeds[30]}
        return Script(Speed(speeds, accept=2.0 if config.speculates else None), boot_s=1800.0)

    return ScriptedEngine(script)


def text_of(lab, *, questions="", fusion=False):
    text = lab.text.replace(", closing: false, confirm: 0, ladder: 0", ", ladder: 0") + questions
    return (
        text.replace("  num_draft_tokens: [tree]", '  num_draft_tokens: [tree]\n  allreduce_fusion: ["off", auto]')
        if fusion
        else text
    )


def fresh(heard):
    return [(launch.asked.config_id, launch.why) for launch in heard.launches if launch.stage == "confirm"]


OFF = {"off": (100.0, 400.0, 1000.0)}
CLOSE = {"v2-k1-s2-d3": (80.0, 300.0, 800.0), "v1-k2-s2-d7": (80.5, 300.0, 796.0)}
"""Behind the baseline, so that no gain is looked for in them, and alike."""


def test_open_question_about_a_knob_starts_the_best_of_each_value_again(lab):
    heard = lab.run(scattering(OFF | CLOSE), text=text_of(lab, questions=QUESTION))
    asked = {config: why for config, why in fresh(heard) if why.startswith("answers wide: the best of topk ")}
    assert set(asked) == {"v1-k2-s2-d7", "v2-k1-s2-d3"}
    (answer,) = heard.judgement.verdicts
    assert "started again after the choice" in answer.text and answer.verdict in ("not separable", "same")
    assert not any(one.is_open for one in heard.judgement.contenders)


def test_question_that_the_search_has_settled_starts_nothing(lab):
    lead = {"v2-k1-s1-d2": (99.0, 420.0, 1050.0), "v1-k2-s2-d7": (50.0, 100.0, 300.0)}
    heard = lab.run(scattering(OFF | lead), text=text_of(lab, questions=QUESTION))
    (answer,) = heard.judgement.verdicts
    assert answer.verdict == "refuted"
    assert not any(config == "v1-k2-s2-d7" or why.startswith("answers") for config, why in fresh(heard))


def test_what_leads_at_an_objective_comes_before_what_leads_elsewhere(lab):
    leads = {"v1-k1-s1-d2": (70.0, 500.0, 900.0), "v2-k1-s1-d2": (70.0, 300.0, 1100.0)}
    heard = lab.run(scattering(OFF | leads), text=text_of(lab))
    order = list(dict.fromkeys(config for config, _ in fresh(heard) if config != "off"))
    assert order[:2] == ["v2-k1-s1-d2", "v1-k1-s1-d2"]


FUSED = ("off", "off+arf=auto", "v2-k1-s2-d3", "v1-k2-s2-d7", "v1-k1-s1-d2")


@pytest.mark.parametrize(("share", "starts"), [(0.999, 2), (0.5, 1)])
def test_further_baseline_is_started_again_where_a_gain_has_to_beat_it(lab, share, starts):
    other = {"off+arf=auto": tuple(share * rate for rate in OFF["off"]), "v2-k1-s2-d3": (95.0, 420.0, 1060.0)}
    heard = lab.run(scattering(OFF | other), text=text_of(lab, fusion=True), configs=FUSED)
    measured = Counter(launch.asked.config_id for launch in heard.launches)
    assert measured["off"] >= 3 and measured["off+arf=auto"] == starts


def test_confirmed_baseline_is_the_one_that_is_measured_again_at_the_end(lab):
    rates = {"off+arf=auto": (110.0, 440.0, 1100.0), "v2-k1-s2-d3": (95.0, 500.0, 1200.0)}
    heard = lab.run(scattering(OFF | rates), text=text_of(lab, fusion=True), configs=FUSED)
    assert [launch.asked.config_id for launch in heard.launches if launch.stage == "closing"] == ["off+arf=auto"]
    assert sum(launch.asked.config_id == "off+arf=auto" for launch in heard.launches) >= 3


@pytest.mark.parametrize(("rate", "odd", "shown"), [(1030.0, WIDE, False), (1200.0, ODD, True)])
def test_lead_at_an_objective_gets_a_third_start_whether_it_is_shown_or_not(lab, rate, odd, shown):
    """Started again only where it is not shown, a study would look twice, and its gains be those of good starts."""
    heard = lab.run(scattering(OFF | {"v2-k1-s2-d3": (90.0, 360.0, rate)}, odd=odd), text=text_of(lab))
    own = Counter(config for config, _ in fresh(heard))
    winner = next(one for one in heard.judgement.winners if one.concurrency == 100)
    assert winner.claimed is shown and own["v2-k1-s2-d3"] == 3
    assert "confirms again: leads off at C=100 by more than 2%" in {why for _, why in fresh(heard)}


def test_lead_that_does_not_matter_gets_no_third_start(lab):
    heard = lab.run(scattering(OFF | {"v2-k1-s2-d3": (90.0, 360.0, 1012.0)}, odd=(1.0,) * 6), text=text_of(lab))
    assert Counter(config for config, _ in fresh(heard))["v2-k1-s2-d3"] == 2
