"""What the first screen says in single cases: one gain among many loads, notes, what is ahead, what is expected."""

import json
import re
from dataclasses import replace

from search.analysis.findings import Ahead
from search.config import SpecConfig
from search.outcomes import Note
from search.report.content import ServingCommand
from search.report.decision import decide
from search.report.figures import by_load
from search.report.first_screen import first_screen
from search.report.markdown import summary
from search.report.page import page


def measured(content, **judgement):
    """The study as if it were measured, with some of its judgement changed."""
    study = replace(content.study, name="kimi-k25", kind="measured")
    return replace(content, study=study, judgement=replace(content.judgement, **judgement))


def lines_of(content):
    """Configs with a line in the chart of gains."""
    drawn = json.loads(by_load(content))["data"]
    return [trace["name"] for trace in drawn if "markers" in trace.get("mode", "") and trace.get("showlegend", True)]


def paying_at(content, *loads):
    """Winners of which only those at `loads` have a gain that is shown; at C=1 everything is slower."""
    off = content.judgement.baselines[0]
    return tuple(
        winner
        if winner.concurrency in loads or winner.concurrency == 1
        else replace(winner, config=off.config, claimed=False)
        for winner in content.judgement.winners
    )


def test_single_load_that_pays_is_named_once(content):
    told = decide(measured(content, winners=paying_at(content, 30)))
    assert told.sentence == (
        "Turn speculation on at 30 concurrent requests: `v2-k1-s2-d3`, 10% more tokens per second; leave it off at 1, where "
        "everything measured is slower; at 100 and 250 no gain is shown."
    )


def test_several_loads_that_pay_name_the_one_the_gain_is_of(content):
    told = decide(measured(content, winners=paying_at(content, 30, 100)))
    assert "on at 30 and 100 concurrent requests: `v2-k1-s2-d3`, 0.2% more tokens per second at 100" in told.sentence


def test_simulation_never_says_that_it_measured(content):
    told = decide(replace(content, judgement=replace(content.judgement, winners=paying_at(content, 30))))
    assert "where everything the cost model was fitted to is slower" in told.sentence
    assert summary(content).rstrip().endswith("3 configs computed; study `kimi-k25.simulated`.")


def test_confirmation_is_told_for_the_loads_that_a_config_was_chosen_for(content):
    def said(*loads):
        off, chain, tree = content.judgement.results
        chain = replace(chain, confirmed=True, confirmed_loads=frozenset(loads))
        told = measured(content, winners=paying_at(content, 30, 100), results=(off, chain, tree))
        return next(line for line in decide(told).basis if line.startswith("`v2-k1-s2-d3`"))

    assert said(1, 30, 100).endswith("confirmed on prompts kept back for it.")
    assert said(1, 30).endswith("confirmed on prompts kept back for it at 30 alone.")
    assert said(1).endswith("not confirmed at 30 and 100.")


def test_note_that_changes_a_decision_is_said_in_words(content):
    off, chain, tree = content.judgement.results
    noted = replace(chain, notes=(Note.THROTTLED, Note.UNSTABLE))
    told = decide(measured(content, results=(off, noted, tree)))
    notes, failures = told.warnings
    assert notes == "`v2-k1-s2-d3` was measured while power or heat lowered the GPUs' clocks (THROTTLED)."
    assert failures.startswith("1 of 4 launches gave no measurement")


def open_study(content):
    """Nothing is shown anywhere, and the chain is ahead at C=30."""
    off, chain, _ = content.judgement.results
    winners = tuple(
        replace(
            winner,
            config=off.config,
            claimed=False,
            slower=False,
            ahead=(Ahead(chain.config, chain.gains[30]),) if winner.concurrency == 30 else (),
        )
        for winner in content.judgement.winners
    )
    return measured(content, winners=winners)


def test_what_is_ahead_where_nothing_is_shown_has_its_command_folded_behind_the_baselines(content):
    told = open_study(content)
    assert decide(told).sentence == (
        "Leave speculation off for now: no gain is shown; ahead so far is `v2-k1-s2-d3`, by 10% at 30 concurrent requests."
    )
    assert [(one.title, one.folded) for one in first_screen(told).commands] == [("off", False), ("v2-k1-s2-d3", True)]
    text = page(told)
    fold = text[
        text.index("<details><summary>To serve <code>v2-k1-s2-d3</code> all the same: ahead, but no gain is shown") :
    ]
    assert "serve # v2-k1-s2-d3" in fold.split("<nav")[0]
    assert not any(one.folded for one in first_screen(measured(content)).commands)


def test_expected_winner_has_a_line_and_is_the_launch_to_make_next(content):
    chain = content.judgement.results[1]
    beyond = SpecConfig.from_id("v2-k1-s1-d2")
    far = {load: replace(at, extrapolated=True) for load, at in chain.loads.items()}
    result = replace(chain, config=beyond, loads=far)
    winner = replace(content.judgement.winners[1], config=beyond, claimed=False, extrapolated=True)
    told = replace(
        content,
        judgement=replace(content.judgement, results=(*content.judgement.results, result), beyond=(winner,)),
        serving=dict(content.serving) | {"v2-k1-s1-d2": ServingCommand("serve")},
    )
    assert "v2-k1-s1-d2" in lines_of(told)
    assert (
        "Then `v2-k1-s1-d2`: the cost model was not fitted to it, and expects +10.1% over `off` at 30."
        in decide(told).next
    )


def test_family_that_is_extrapolated_alone_has_no_line_beside_what_rests_on_data(content):
    off, chain, tree = content.judgement.results
    far = replace(tree, loads={load: replace(at, extrapolated=True) for load, at in tree.loads.items()})
    told = replace(content, judgement=replace(content.judgement, results=(off, chain, far)))
    assert lines_of(content) == ["v2-k1-s2-d3", "v1-k4-s3-d16"] and lines_of(told) == ["v2-k1-s2-d3"]
    alone = replace(content, judgement=replace(content.judgement, results=(off, far)))
    assert lines_of(alone) == ["v1-k4-s3-d16"]


def test_settings_that_differ_from_what_was_measured_are_counted(content):
    assert "<summary>1 setting differs from what was measured</summary>" in page(content)
    two = {name: replace(command, changes=("a", "b")) for name, command in content.serving.items()}
    assert re.search(
        r"<summary>2 settings differ from what was measured</summary>", page(replace(content, serving=two))
    )
