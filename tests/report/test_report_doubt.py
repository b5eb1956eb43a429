"""No number without its interval where there is one; verdicts on answers; remarks."""

from dataclasses import replace

import pytest

from search.analysis.findings import Gain, KnobWorth
from search.outcomes import Evidence, Note, Outcome
from search.report.frames import front_frame, trials_frame
from search.report.lines import launched_line
from search.report.markdown import summary
from search.report.page import page
from search.report.payload import payload
from search.stats.estimates import Estimate
from search.stats.losslessness import OutputCheck

CHECKS = (
    OutputCheck(1, "lossless", "answers share 61%", 16, Estimate(0.61, 0.5, 0.7)),
    OutputCheck(100, "lossy", "answers share 12% [10%, 14%] of their length", 400, Estimate(0.12, 0.1, 0.14)),
)


@pytest.fixture
def told(content):
    """The chain's gains, score, accept lengths, answers and times with all that is known of them."""
    off, chain, tree = content.judgement.results
    loads = {
        load: replace(at, accept=Estimate(1.9, 1.8, 2.0), tails={"ttft_p99_ms": Estimate(240.0, 210.0, 270.0)})
        for load, at in chain.loads.items()
    }
    chain = replace(
        chain,
        loads=loads,
        gains={**chain.gains, 30: Gain(1.101, 1.089, 1.113)},
        score_ci=Estimate(0.969, 0.955, 0.983),
        lossless=CHECKS,
    )
    one, thirty, *more = content.judgement.winners
    thirty = replace(thirty, gain=Gain(1.101, 1.089, 1.113))
    judgement = replace(
        content.judgement,
        results=(off, chain, tree),
        front=(off, chain),
        winners=(one, thirty, *more),
        remarks=("v2-k1-s2-d3 is not lossless at C=100.",),
        barred=(tree.config,),
    )
    launches = (content.launches[0], replace(content.launches[1], lossless=CHECKS), *content.launches[2:])
    return replace(content, judgement=judgement, launches=launches)


def test_front_row_has_both_ends_of_every_interval_and_the_verdict_on_answers(told):
    row = front_frame(told).iloc[1]
    names = ("c1_output_tps_lo", "c1_output_tps_hi", "accept_c1_lo", "accept_c1_hi", "accept_c100_lo", "accept_c100_hi")
    assert [row[name] for name in names] == [85.932, 87.668, 1.8, 2.0, 1.8, 2.0]
    assert [row[name] for name in ("score_lo", "score_hi", "lossless")] == [0.955, 0.983, "lossy at C=100"]


def test_trial_row_has_its_own_launchs_intervals(told):
    doubled = replace(told.launches[0], phases=(*told.launches[0].phases, *told.launches[0].phases))
    frame = trials_frame(replace(told, launches=(doubled, told.launches[1])))
    first, second = frame.iloc[0], frame.iloc[1]
    assert first["c1_tpot_ms_lo"] < 10.7875 < first["c1_tpot_ms_hi"]
    assert first["c100_output_tps_lo"] < 773.1 < first["c100_output_tps_hi"]
    assert second["c1_tpot_ms_lo"] is None  # one repeat without samples tells nothing
    assert second["accept_c1_lo"] < 1.9 < second["accept_c1_hi"]
    assert (first["lossless"], second["lossless"]) == ("", "lossy at C=100")


def test_page_shows_intervals_verdicts_times_and_remarks(told):
    text = page(told)
    assert '<b class="up">+10.1%</b> <small>[+8.9%, +11.3%]</small>' in text
    assert "1.90 <small>[1.80, 2.00]</small>" in text
    assert "0.969 <small>[0.955, 0.983]</small>" in text
    assert '<span class="tag warn">lossy at C=100</span>' in text
    assert "<li>v2-k1-s2-d3 is not lossless at C=100.</li>" in text[text.index("<h2>Remarks</h2>") :]
    assert "first token p99, ms" in text and "240 <small>[210, 270]</small>" in text


def test_page_without_intervals_remarks_or_times_leaves_them_out(content):
    text = page(content)
    assert "<h2>Remarks</h2>" not in text and "Times of requests" not in text and "lossy" not in text


def test_summary_shows_intervals_verdicts_and_remarks(told):
    text = summary(told).replace("\\", "")
    assert "759 [752, 767] (+10.1% [+8.9%, +11.3%])" in text
    assert "| 0.969 [0.955, 0.983] | lossy at C=100 |" in text
    assert "## Remarks\n\n- v2-k1-s2-d3 is not lossless at C=100." in text


def test_payload_has_gains_with_both_ends_remarks_and_what_is_barred(told):
    result = payload(told)
    assert (result["winners"][1]["gain_ratio_lo"], result["winners"][1]["gain_ratio_hi"]) == (1.089, 1.113)
    assert result["winners"][0]["gain_ratio_lo"] is None
    assert (result["remarks"], result["barred"]) == (["v2-k1-s2-d3 is not lossless at C=100."], ["v1-k4-s3-d16"])


def test_launch_that_a_probe_ended_says_why(content):
    gated = replace(
        content.launches[1],
        outcome=Outcome.GATED,
        phases=(),
        notes=(Note.NO_DRAFT_GAIN,),
        evidence=Evidence("accept length 1.00 over 256 tokens right after ready", "probe"),
    )
    line = launched_line(gated, content.judgement, of=40)
    assert line.endswith("v2-k1-s2-d3  GATED  accept length 1.00 over 256 tokens right after ready  NO_DRAFT_GAIN")
    why = trials_frame(replace(content, launches=(gated,)))["why"][0]
    assert why == "named in the study file; ended early: accept length 1.00 over 256 tokens right after ready"


def test_assumed_scatter_and_bands_are_told_from_measured_intervals(told):
    chain = replace(
        told.judgement.results[1],
        gains={1: Gain(0.9, 0.8, 1.1, assumed=True), 30: Gain(1.1, 1.0, 1.3, band=True), 100: Gain(1.002, 0.99, 1.01)},
    )
    off, _, tree = told.judgement.results
    changed = replace(told, judgement=replace(told.judgement, results=(off, chain, tree), front=(off, chain)))
    for text in (page(changed), summary(changed).replace("\\", "")):
        assert "[-20.0%, +10.0%]*" in text and "{+0.0% to +30.0%}" in text and "[-1.0%, +1.0%]" in text
        assert "with *, on assumed scatter. In braces: not measured" in text


def test_values_of_a_fit_have_their_band_in_braces(told):
    chain = told.judgement.results[1]
    chain = replace(chain, loads={load: replace(at, band=load == 100) for load, at in chain.loads.items()})
    changed = replace(told, judgement=replace(told.judgement, results=(chain,), front=(chain,)))
    for text in (page(changed), summary(changed).replace("\\", "")):
        assert "{767 to 783}" in text and "[752, 767]" in text and "{0.955 to 0.983}" in text


def test_knobs_have_a_table_with_what_is_not_told_apart(told):
    chain, tree = told.judgement.results[1].config, told.judgement.results[2].config
    worth = KnobWorth("topk", 100, 1, 4, chain, tree, Gain(1.2, 1.1, 1.3), False, ("num_draft_tokens",))
    changed = replace(told, judgement=replace(told.judgement, knobs=(worth,)))
    assert "<h2>What each knob is worth</h2>" in page(changed)
    row = "| topk | C=100 | 1 | 4 | +20.0% [+10.0%, +30.0%] | scatter assumed | v2-k1-s2-d3, v1-k4-s3-d16 | num_draft_tokens | - |"
    assert row in summary(changed).replace("\\", "")
    assert payload(changed)["knobs"][0]["differ_too"] == ["num_draft_tokens"]
    assert "What each knob is worth" not in page(told)
