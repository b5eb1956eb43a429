"""Launches that end early or are barred: hopeless drafts, garbled answers; and answers that are another's."""

import json
from dataclasses import replace

import numpy as np
import pytest
from optuna.trial import TrialState

from search.analysis.analyse import judge
from search.outcomes import Note, Outcome, Reason
from search.spec.file import parse_study
from search.testing.engines import Script, ScriptedEngine, Speed

LENGTH = 64
FAST = Speed({1: 900.0, 30: 9000.0, 100: 9000.0}, accept=2.0)
PLAIN = Speed({1: 100.0, 30: 700.0, 100: 1000.0})


def text(prompt, seed=0):
    return np.random.default_rng((seed, prompt)).integers(0, 30_000, LENGTH).tolist()


def true(prompt, concurrency, repeat):
    """What the model says; under load a low bit falls otherwise now and then."""
    if concurrency == 1:
        return text(prompt)
    at = (7 * prompt + 29 * repeat) % LENGTH
    return [*text(prompt)[:at], *text(prompt, seed=repeat)[at:]]


def early(prompt, concurrency, repeat):
    """Another text after an eighth of the answer."""
    return [*text(prompt)[:8], *text(prompt, seed=90 + repeat)[8:]]


def loop(prompt, concurrency, repeat):
    return [5] * LENGTH


def loop_under_load(prompt, concurrency, repeat):
    return true(prompt, concurrency, repeat) if concurrency == 1 else loop(prompt, concurrency, repeat)


def serving(answers, speed=FAST):
    """An engine whose baseline says the truth and whose first known config says `answers`."""
    known = Script(speed, answers=answers)
    return ScriptedEngine(lambda config, _: known if config.speculates else Script(PLAIN, answers=true))


def spec_of(text_):
    return parse_study(text_, name="lab.yaml")


def test_answers_like_the_baselines_are_lossless_and_stored(lab):
    heard = lab.run(serving(true), launches=2)
    assert heard.launches[1].outcome is Outcome.MEASURED
    assert [(c.concurrency, c.verdict, c.prompts) for c in lab.launches()[1].lossless] == [
        (1, "lossless", 16),
        (100, "lossless", 400),
    ]
    assert lab.launches()[1].lossless == heard.launches[1].lossless
    assert lab.launches()[0].lossless == ()
    assert "Lossless against the baseline: v2-k1-s2-d3." in heard.judgement.remarks


def test_answers_that_leave_the_baselines_early_are_lossy_and_still_measured(lab, study_text):
    heard = lab.run(serving(early), launches=2)
    assert heard.launches[1].outcome is Outcome.MEASURED
    # The report is rebuilt from the database alone.
    judgement = judge(spec_of(study_text), lab.launches())
    assert any(line.startswith("v2-k1-s2-d3 is not lossless at C=1, so it is neither") for line in judgement.remarks)
    assert judgement == heard.judgement


def third(prompt, concurrency, repeat):
    """Nonsense from the first token on in a third of the answers."""
    return true(prompt, concurrency, repeat) if prompt % 3 else text(prompt, seed=50 + repeat)


def test_lossy_config_is_neither_ranked_nor_recommended_however_fast(lab):
    """Right in its first tokens, nonsense after them: what no check of single answers can tell from another text."""
    heard = lab.run(serving(early), launches=2)
    judgement = heard.judgement
    assert [result.config.config_id for result in judgement.results] == ["off", "v2-k1-s2-d3"]
    assert "v2-k1-s2-d3" not in {result.config.config_id for result in judgement.front}
    assert "v2-k1-s2-d3" not in {pick.result.config.config_id for pick in judgement.picks}
    assert "v2-k1-s2-d3" not in {winner.config.config_id for winner in judgement.winners}
    assert not any("v2-k1-s2-d3" in line for line in judgement.headlines)
    assert any("neither ranked nor recommended" in line for line in judgement.remarks)
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.constraints == {"launch": 1.0} and trial.user_attrs["feasible"] is False
    assert trial.values == pytest.approx([1000 / 900, 9000.0])  # as measured: they teach what a pass costs


@pytest.mark.parametrize(("answers", "where"), [(third, "c=1"), (loop, "c=1"), (loop_under_load, "c=100")])
def test_garbage_bars_the_config_however_fast(lab, answers, where):
    heard = lab.run(serving(answers), launches=2)
    record = lab.launches()[1]
    assert (record.outcome, record.reason, record.evidence.phase) == (Outcome.FAILED, Reason.BAD_OUTPUT, where)
    assert "answers loop: " in record.evidence.root_line or "answers share nothing" in record.evidence.root_line
    # Its measures are kept for people, never told.
    assert {phase.concurrency for phase in record.phases} == {1, 100} and record.phases[0].output_tps == 900.0
    trial = lab.trial("v2-k1-s2-d3")
    assert trial.state is TrialState.COMPLETE and trial.constraints == {"launch": 1.0}
    assert trial.values == pytest.approx([11.0, 900.0])  # the baseline worsened by 10%
    assert [config.config_id for config in heard.judgement.barred] == ["v2-k1-s2-d3"]
    assert [result.config.config_id for result in heard.judgement.results] == ["off"]
    assert heard.judgement.remarks[0].startswith("v2-k1-s2-d3 is barred, however fast: at " + where)


def test_config_that_was_garbage_once_is_barred_for_its_other_launches_too(lab, study_text):
    lab.run(serving(true), launches=2)
    good = lab.launches()
    bad = replace(good[1], number=3, outcome=Outcome.FAILED, reason=Reason.BAD_OUTPUT)
    judgement = judge(spec_of(study_text), [*good, bad])
    assert [result.config.config_id for result in judgement.results] == ["off"]


def test_servers_that_tell_no_tokens_are_not_judged(lab):
    heard = lab.run(serving(None), launches=2)
    assert heard.launches[1].outcome is Outcome.MEASURED
    assert lab.launches()[1].lossless == ()
    assert not any("ossless" in line for line in heard.judgement.remarks)


def test_config_is_not_judged_while_the_baseline_tells_no_tokens(lab):
    engine = ScriptedEngine(lambda c, _: Script(FAST, answers=true) if c.speculates else Script(PLAIN))
    heard = lab.run(engine, launches=2)
    assert {check.verdict for check in heard.launches[1].lossless} == {"not judged"}
    assert any(line.startswith("Whether v2-k1-s2-d3 is lossless was not judged") for line in heard.judgement.remarks)


def test_resumed_study_compares_with_the_baseline_on_disk(lab):
    lab.run(serving(true), launches=1)
    folder = lab.folder / "reports" / lab.launches()[0].folder
    lines = [json.loads(line) for line in (folder / "outputs-c1.jsonl").read_text().splitlines()]
    assert {line["repeat"] for line in lines} == {1, 2} and lines[0]["tokens"] == text(0)
    lab.run(serving(true), launches=2)
    assert [check.verdict for check in lab.launches()[1].lossless] == ["lossless", "lossless"]


def test_resumed_study_whose_folders_are_gone_says_so(lab):
    lab.run(serving(true), launches=1)
    for path in (lab.folder / "reports").rglob("outputs-*.jsonl"):
        path.unlink()
    lab.run(serving(true), launches=2)
    assert {check.why for check in lab.launches()[1].lossless} == {
        "there are no answers of a baseline at this load to compare with"
    }


def test_drafts_that_never_help_end_the_launch_right_after_ready(lab):
    engine = serving(None, Speed({1: 61.0, 100: 900.0}, accept=1.0))
    lab.run(engine, launches=2)
    record = lab.launches()[1]
    assert (record.outcome, record.reason, record.notes) == (Outcome.GATED, None, (Note.NO_DRAFT_GAIN,))
    assert record.phases == () and (record.evidence.phase, record.evidence.root_line) == (
        "probe",
        "accept length 1.00 over 256 tokens right after ready: the drafts never help (they do above 1.05)",
    )
    # 60 s of boot, 5 s to stop, and 256 tokens at 61 per second.
    assert record.duration_s == pytest.approx(60 + 5 + 256 / 61)
    assert lab.trial("v2-k1-s2-d3").state is TrialState.PRUNED
    assert engine.phases == [(1, 1), (100, 1), (1, 2), (100, 2)]  # of the baseline


@pytest.mark.parametrize(("accept", "gated"), [(1.05, True), (1.06, False), (None, False)])
def test_probe_spares_drafts_that_help(lab, accept, gated):
    engine = serving(None, Speed({1: 100.0, 100: 900.0}, accept=accept))
    heard = lab.run(engine, launches=2)
    assert engine.probes == ["v2-k1-s2-d3"]
    assert (heard.launches[1].outcome is Outcome.GATED) is gated


def test_question_about_a_hopeless_config_says_why_there_is_no_answer(lab, study_text):
    question = "questions: {pays: {config: v2-k1-s2-d3, against: [off], at: [1]}}\n"
    heard = lab.run(serving(None, Speed({1: 61.0}, accept=1.0)), text=study_text + question, launches=2)
    (answer,) = heard.judgement.verdicts
    assert answer.verdict == "not measured"
    assert answer.text.startswith("v2-k1-s2-d3 was ended early: accept length 1.00 over 256 tokens")
